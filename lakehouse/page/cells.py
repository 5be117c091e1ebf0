"""Values of rows for a browser: JSON that loses nothing, and no more of them than fit a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakehouse.errors import ConfigError
from lakehouse.formats.plain import finite, plain

ROWS_MAX = 500
TEXT_MAX = 2_000
KEY_MAX = 1_000
EXACT_MAX = 2**53  # JavaScript has no larger exact integers


def cell(value: Any) -> Any:
    """Return a value as null, a boolean, a number or text; a nested value as its JSON text."""
    match value:
        case None | bool():
            return value
        case int():
            return value if abs(value) <= EXACT_MAX else str(value)
        case float():
            return finite(value)
        case str():
            return cut(value)
        case Mapping() | list() | tuple():
            return cut(json.dumps(_nested(value), ensure_ascii=False))
    return cut(plain(value))


def cells(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a row's values by their names; None for no row."""
    return None if row is None else {name: cell(value) for name, value in row.items()}


def cut(text: str) -> str:
    """Return a text, cut off if it is too long to show."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text):,} characters)"


def is_text(kind: str) -> bool:
    """Say whether a column's type, by its name in Arrow, is text."""
    return kind in ("string", "large_string", "string_view")


def shortened(column: str, kind: str) -> str:
    """Return SQL for a column, given as SQL, that cuts off long texts: the part that is not shown is not passed on."""
    if not is_text(kind):
        return column
    shown = f"left({column}, {TEXT_MAX - 100}) || format('… ({{:,}} characters)', length({column}))"
    return f"CASE WHEN length({column}) > {TEXT_MAX} THEN {shown} ELSE {column} END"


def checked_key(text: str | None) -> str | None:
    """Return a key's text, None for none; ConfigError for one that is too long to search for."""
    if text is not None and len(text) > KEY_MAX:
        raise ConfigError(f"key: found {len(text):,} characters; expected at most {KEY_MAX:,}.")
    return text or None


def _nested(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return finite(value)
        case Mapping():
            return {str(name): _nested(item) for name, item in value.items()}
        case list() | tuple():
            return [_nested(item) for item in value]
    return plain(value)
