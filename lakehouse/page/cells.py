"""Values of rows for a browser: as JSON without loss, and no more of them than fit a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakehouse.errors import ConfigError
from lakehouse.markup.plain import finite_or_text, plain_text

ROWS_MAX = 500
TEXT_MAX = 2_000
KEY_MAX = 1_000
EXACT_MAX = 2**53  # JavaScript has no larger exact integers


def json_cell(value: Any) -> Any:
    """Return a value as null, a boolean, a number or text; a nested value as its JSON text."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) <= EXACT_MAX else str(value)
        case float():
            return finite_or_text(value)
        case str():
            return cut_text(value)
        case Mapping() | list() | tuple():
            return cut_text(json.dumps(_nested_value(value), ensure_ascii=False))
    return cut_text(plain_text(value))


def cells_of_row(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a row's values by their names; None for no row."""
    return None if row is None else {name: json_cell(value) for name, value in row.items()}


def cut_text(text: str) -> str:
    """Return a text, shortened if it is too long to show."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text):,} characters)"


def is_text(column_type: str) -> bool:
    """Say whether a column's type, by its name in Arrow, is text."""
    return column_type in ("string", "large_string", "string_view")


def shorten_in_sql(column: str, column_type: str) -> str:
    """Return SQL for a column, given as SQL, that shortens long texts, so that no hidden part is passed on."""
    if not is_text(column_type):
        return column
    shortened_sql = f"left({column}, {TEXT_MAX - 100}) || format('… ({{:,}} characters)', length({column}))"
    return f"CASE WHEN length({column}) > {TEXT_MAX} THEN {shortened_sql} ELSE {column} END"


def check_key(text: str | None) -> str | None:
    """Return a key's text, None for none. Raises ConfigError for a text that is too long to search for."""
    if text is not None and len(text) > KEY_MAX:
        raise ConfigError(f"key: found {len(text):,} characters; expected at most {KEY_MAX:,}.")
    return text or None


def _nested_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return finite_or_text(value)
        case Mapping():
            return {str(name): _nested_value(item) for name, item in value.items()}
        case list() | tuple():
            return [_nested_value(item) for item in value]
    return plain_text(value)
