"""Formats that write dates and timestamps as numbers, as ksqlDB does.

"json+epoch" is "json" with dates as days since 1970 and timestamps as milliseconds since 1970. The bounds of a window
in a key are not converted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlglot import exp

from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column, base_type, parse_type, sql_type
from lakehouse.plan.operator import WINDOW_COLUMNS

_NUMBER_TYPES = {"date": "int", "timestamp": "bigint"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moments_to_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its dates and timestamps as numbers."""
    return {name: value if name in WINDOW_COLUMNS else _moment_to_number(value) for name, value in row.items()}


def _moment_to_number(value: Any) -> Any:
    match value:
        case datetime():
            return (value - _EPOCH) // timedelta(milliseconds=1)
        case date():
            return (value - _EPOCH.date()).days
        case Mapping():
            return {key: _moment_to_number(item) for key, item in value.items()}
        case list() | tuple():
            return [_moment_to_number(item) for item in value]
    return value


@lru_cache(maxsize=1024)  # each record that is decoded asks
def number_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns with the types that such a format writes: numbers for dates and timestamps."""
    return tuple(
        column if column.name in WINDOW_COLUMNS else Column(column.name, _number_type(column.type))
        for column in columns
    )


def _number_type(type_text: str) -> str:
    """Return a type with numbers in place of dates and timestamps."""
    return sql_type(parse_type(type_text).transform(_number_node))


def _number_node(node: exp.Expression) -> exp.Expression:
    is_moment = isinstance(node, exp.DataType) and not node.expressions
    number_type = _NUMBER_TYPES.get(base_type(node.sql("spark"))) if is_moment else None
    return node if number_type is None else parse_type(number_type)


def numbers_to_moments(row: Mapping[str, Any] | None, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return a row that was decoded with `number_columns`, its numbers converted back to dates and timestamps."""
    if row is None:
        return None
    type_by_column = {column.name: column.type for column in columns if column.name not in WINDOW_COLUMNS}
    try:
        return {
            name: _cached_reader(type_by_column[name])(value) if name in type_by_column else value
            for name, value in row.items()
        }
    except OverflowError as error:
        raise Unfit("expected a time within the years 1 to 9999, found a number beyond them") from error


@lru_cache(maxsize=1024)
def _cached_reader(type_text: str) -> Callable[[Any], Any]:
    return _moment_reader(parse_type(type_text))


def _moment_reader(type_tree: exp.DataType) -> Callable[[Any], Any]:
    base_name = base_type(type_tree.sql("spark"))
    convert: Callable[[Any], Any] = lambda value: value  # noqa: E731
    if base_name == "date":
        convert = lambda days: _EPOCH.date() + timedelta(days=days)  # noqa: E731
    elif base_name == "timestamp":
        convert = lambda ms: _EPOCH + timedelta(milliseconds=ms)  # noqa: E731
    elif base_name == "array":
        convert_item = _moment_reader(type_tree.expressions[0])
        convert = lambda values: [convert_item(value) for value in values]  # noqa: E731
    elif base_name == "map":
        convert_key, convert_item = map(_moment_reader, type_tree.expressions)
        convert = lambda values: {convert_key(name): convert_item(value) for name, value in values.items()}  # noqa: E731
    elif base_name == "struct":
        convert_fields = {field.name: _moment_reader(field.args["kind"]) for field in type_tree.expressions}
        convert = lambda values: {name: convert_fields[name](value) for name, value in values.items()}  # noqa: E731
    return lambda value: None if value is None else convert(value)
