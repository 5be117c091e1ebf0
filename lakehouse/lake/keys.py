"""SQL of DuckDB for the rows of one key, from the key's text (`lakehouse.formats.key_text`) and the table's types.

The key of a windowed table is its key without the window, as in the changelog per event.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.formats.json_text import write
from lakehouse.formats.key_text import parse_key
from lakehouse.lake.sql import literal, quote
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.schema import NESTED_TYPES, Column, base_type

if TYPE_CHECKING:
    from lakehouse.lake.bounded import Rows

KINDS = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "float",
    "double": "double", "string": "string", "large_string": "string", "string_view": "string", "binary": "binary",
    "large_binary": "binary", "binary_view": "binary", "date32[day]": "date",
}  # fmt: skip
# DuckDB's name for a type, where it is another one.
DUCKDB = {"string": "VARCHAR", "timestamp": "TIMESTAMPTZ", "binary": "BLOB", "int": "INTEGER"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def without_window(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the key's columns without those of the window."""
    return keys[: -len(WINDOW_COLUMNS)] if keys[-len(WINDOW_COLUMNS) :] == WINDOW_COLUMNS else keys


def columns_of(schema: pa.Schema, names: Iterable[str]) -> tuple[Column, ...]:
    """Return some columns of an Arrow schema, with the types that a declaration would have."""
    return tuple(Column(name, _kind(schema.field(name).type)) for name in names)


def key_condition(rows: Rows, keys: tuple[str, ...], text: str) -> str:
    """Return DuckDB's SQL for the rows of one key. Raises ConfigError for a text that is not a key of these rows."""
    columns = columns_of(rows.schema, without_window(keys))
    values = zip(columns, parse_key(text, columns), strict=True)
    return " AND ".join(_condition(rows, column, value) for column, value in values)


def key_text(rows: Rows, keys: tuple[str, ...]) -> str:
    """Return DuckDB's SQL for the text of a row's key, so that a person can search by the beginning of it."""
    wanted = columns_of(rows.schema, without_window(keys))
    texts = [_text(rows, column) for column in wanted]
    if len(texts) == 1:
        return f"coalesce({texts[0]}, '')"
    special = """'[,"\\r\\n]'"""
    quoted = [
        f"""CASE WHEN {text} IS NULL THEN '' WHEN {text} = '' OR regexp_matches({text}, {special})
        THEN '"' || replace({text}, '"', '""') || '"' ELSE {text} END"""
        for text in texts
    ]
    return f"concat_ws(',', {', '.join(quoted)})"


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{part.name}: {_kind(part.type)}' for part in kind)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_kind(kind.value_type)}>"
    return KINDS[str(kind)]


def _condition(rows: Rows, column: Column, value: Any) -> str:
    """The condition that a column has a value."""
    name, base = quote(column.name), base_type(column.type)
    if value is None:
        return f"{name} IS NULL"
    # Delta's statistics round decimals and doubles and cut times to milliseconds, so these are not asked.
    match value:
        case str():
            return f"{_string(rows, column.name)} = {literal(value)}"
        case bool() | int():
            return f"{name} = {str(value).upper()}"
        case Decimal() | float():
            return f"CAST({name} AS VARCHAR) = CAST(CAST('{value}' AS {column.type}) AS VARCHAR)"
        case datetime():
            return f"epoch_us({name}) = {_micros(value)}"
        case date():
            return f"{name} = DATE '{value.isoformat()}'"
        case bytes():
            return f"hex({name}) = '{value.hex().upper()}'"
    assert base in NESTED_TYPES
    return f"{name} = CAST(CAST({literal(write(value))} AS JSON) AS {_duckdb(rows.schema.field(column.name).type)})"


def _string(rows: Rows, name: str) -> str:
    """A column of texts as SQL: writers of other engines leave texts as views, which have no filters in Arrow."""
    return quote(name) if str(rows.schema.field(name).type) == "string" else f"CAST({quote(name)} AS VARCHAR)"


def _duckdb(kind: pa.DataType) -> str:
    """A type in DuckDB's SQL."""
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{quote(part.name)} {_duckdb(part.type)}' for part in kind)})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{_duckdb(kind.value_type)}[]"
    name = _kind(kind)
    return DUCKDB.get(name, name)


def _text(rows: Rows, column: Column) -> str:
    name, base = quote(column.name), base_type(column.type)
    if base == "timestamp":
        return f"replace(replace(CAST({name} AS VARCHAR), ' ', 'T'), '+00', 'Z')"
    if base == "binary":
        return f"to_base64({name})"
    if base in ("double", "float"):
        endless = f"CASE WHEN isnan({name}) THEN 'NaN' WHEN {name} > 0 THEN 'Infinity' ELSE '-Infinity' END"
        return f"CASE WHEN isfinite({name}) THEN CAST({name} AS VARCHAR) ELSE {endless} END"
    if base in NESTED_TYPES:
        return f"CAST(to_json({name}) AS VARCHAR)"
    return _string(rows, column.name) if base == "string" else f"CAST({name} AS VARCHAR)"


def _micros(value: datetime) -> int:
    """A time as a number: a datetime would go through the process's time zone."""
    return (value - _EPOCH) // timedelta(microseconds=1)
