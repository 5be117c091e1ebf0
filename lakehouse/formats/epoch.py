"""Formats in which moments are numbers, as ksqlDB writes them: "json+epoch" is "json" with dates as days since 1970,
and timestamps as milliseconds. The bounds of a window in a key stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlglot import exp

from lakehouse.formats.unfit import Unfit
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.schema import EPOCH, Column, base_type, parse_type

# In a type's text a field's name stands before a colon, so that a field may be called date.
_MOMENT = re.compile(r"(?<![\w`])(?:date|timestamp)(?=\s*(?:[,>]|$))")
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


def plain_format(format: str) -> tuple[str, bool]:
    """Return a format without the suffix, and whether it had it."""
    return format.removesuffix(EPOCH), format.endswith(EPOCH)


def numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its moments as numbers."""
    return {name: value if name in WINDOW_COLUMNS else _number(value) for name, value in row.items()}


def _number(value: Any) -> Any:
    match value:
        case datetime():
            return (value - _BEGIN) // timedelta(milliseconds=1)
        case date():
            return (value - _BEGIN.date()).days
        case Mapping():
            return {key: _number(item) for key, item in value.items()}
        case list() | tuple():
            return [_number(item) for item in value]
    return value


def number_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns as a reader finds them in such a format."""
    return tuple(
        column if column.name in WINDOW_COLUMNS else Column(column.name, _MOMENT.sub(_as_number, column.type))
        for column in columns
    )


def _as_number(found: re.Match[str]) -> str:
    return {"date": "int", "timestamp": "bigint"}[found[0]]


def moments(row: Mapping[str, Any] | None, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return a row that was read with `number_columns`, with moments again where its columns have them."""
    if row is None:
        return None
    kinds = {column.name: column.type for column in columns if column.name not in WINDOW_COLUMNS}
    try:
        return {
            name: _moment(parse_type(kinds[name]))(value) if name in kinds else value for name, value in row.items()
        }
    except OverflowError as error:
        raise Unfit("expected a time within the years 1 to 9999, found a number beyond them") from error


def _moment(kind: exp.DataType) -> Callable[[Any], Any]:
    base = base_type(kind.sql("spark"))
    of: Callable[[Any], Any] = lambda value: value  # noqa: E731
    if base == "date":
        of = lambda days: _BEGIN.date() + timedelta(days=days)  # noqa: E731
    elif base == "timestamp":
        of = lambda ms: _BEGIN + timedelta(milliseconds=ms)  # noqa: E731
    elif base == "array":
        item = _moment(kind.expressions[0])
        of = lambda values: [item(value) for value in values]  # noqa: E731
    elif base == "map":
        key, item = map(_moment, kind.expressions)
        of = lambda values: {key(name): item(value) for name, value in values.items()}  # noqa: E731
    elif base == "struct":
        fields = {field.name: _moment(field.args["kind"]) for field in kind.expressions}
        of = lambda values: {name: fields[name](value) for name, value in values.items()}  # noqa: E731
    return lambda value: None if value is None else of(value)
