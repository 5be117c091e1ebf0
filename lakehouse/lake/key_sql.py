"""DuckDB's SQL for the rows of one key, from the key's text (`lakehouse.formats.key_text`) and the table's types.

For a windowed table, the key is meant without its window, as in the changelog per event.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.formats.key_text import parse_key
from lakehouse.lake.sql import quote_literal, quote_name
from lakehouse.plan.expression.schema import NESTED_TYPES, Column, base_type
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.semantics.epoch_time import to_microseconds

if TYPE_CHECKING:
    from lakehouse.lake.read_bounds import Rows

DECLARED_TYPES = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "float",
    "double": "double", "string": "string", "large_string": "string", "string_view": "string", "binary": "binary",
    "large_binary": "binary", "binary_view": "binary", "date32[day]": "date",
}  # fmt: skip
# DuckDB's names for types, where they differ.
DUCKDB_TYPES = {"string": "VARCHAR", "timestamp": "TIMESTAMPTZ", "binary": "BLOB", "int": "INTEGER"}


def drop_window_columns(key_names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the key's columns without those of the window."""
    return key_names[: -len(WINDOW_COLUMNS)] if key_names[-len(WINDOW_COLUMNS) :] == WINDOW_COLUMNS else key_names


def key_columns_of(schema: pa.Schema, column_names: Iterable[str]) -> tuple[Column, ...]:
    """Return columns of an Arrow schema with the types that a declaration would give them."""
    return tuple(Column(name, _declared_type(schema.field(name).type)) for name in column_names)


def key_condition_sql(rows: Rows, key_names: tuple[str, ...], key_text: str) -> str:
    """Return DuckDB's SQL for the rows of one key. Raises ConfigError for a text that is not a key of these rows."""
    key_columns = key_columns_of(rows.schema, drop_window_columns(key_names))
    column_values = zip(key_columns, parse_key(key_text, key_columns), strict=True)
    return " AND ".join(_column_equals(rows, column, value) for column, value in column_values)


def key_text_sql(rows: Rows, key_names: tuple[str, ...]) -> str:
    """Return DuckDB's SQL for the text of a row's key, so that people can search by its beginning."""
    key_columns = key_columns_of(rows.schema, drop_window_columns(key_names))
    column_texts = [_key_column_text(rows, column) for column in key_columns]
    if len(column_texts) == 1:
        return f"coalesce({column_texts[0]}, '')"
    special_characters = """'[,"\\r\\n]'"""
    quoted_texts = [
        f"""CASE WHEN {text} IS NULL THEN '' WHEN {text} = '' OR regexp_matches({text}, {special_characters})
        THEN '"' || replace({text}, '"', '""') || '"' ELSE {text} END"""
        for text in column_texts
    ]
    return f"concat_ws(',', {', '.join(quoted_texts)})"


def _declared_type(arrow_type: pa.DataType) -> str:
    if pa.types.is_timestamp(arrow_type):
        return "timestamp"
    if pa.types.is_decimal(arrow_type):
        return f"decimal({arrow_type.precision}, {arrow_type.scale})"
    if pa.types.is_struct(arrow_type):
        members = [f"{member_field.name}: {_declared_type(member_field.type)}" for member_field in arrow_type]
        return f"struct<{', '.join(members)}>"
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return f"array<{_declared_type(arrow_type.value_type)}>"
    return DECLARED_TYPES[str(arrow_type)]


def _column_equals(rows: Rows, column: Column, value: Any) -> str:
    """Return the SQL condition that a column has a value."""
    quoted_name = quote_name(column.name)
    if value is None:
        return f"{quoted_name} IS NULL"
    # Delta's statistics round decimals and doubles, and cut times to milliseconds: conditions must not use them.
    match value:
        case str():
            return f"{_varchar_column(rows, column.name)} = {quote_literal(value)}"
        case bool() | int():
            return f"{quoted_name} = {str(value).upper()}"
        case Decimal():  # as digits: DuckDB does not take 1E-38 for a decimal(38, 38)
            return f"CAST({quoted_name} AS VARCHAR) = CAST(CAST('{value:f}' AS {column.type}) AS VARCHAR)"
        case float():
            return f"CAST({quoted_name} AS VARCHAR) = CAST(CAST('{value}' AS {column.type}) AS VARCHAR)"
        case datetime():  # as a number: DuckDB would convert the datetime to the process's time zone
            return f"epoch_us({quoted_name}) = {to_microseconds(value)}"
        case date():
            return f"{quoted_name} = DATE '{value.isoformat()}'"
        case bytes():
            return f"hex({quoted_name}) = '{value.hex().upper()}'"
    assert base_type(column.type) in NESTED_TYPES
    return f"{quoted_name} = {_literal(value, rows.schema.field(column.name).type)}"


def _literal(value: Any, arrow_type: pa.DataType) -> str:
    """Return a value as SQL of its type, bytes, structs and lists too: JSON has no bytes."""
    match value:
        case dict():
            members = (f"{quote_name(part.name)} := {_literal(value.get(part.name), part.type)}" for part in arrow_type)
            text = f"struct_pack({', '.join(members)})"
        case list():
            text = f"[{', '.join(_literal(item, arrow_type.value_type) for item in value)}]"
        case bytes():
            text = f"unhex('{value.hex()}')"
        case datetime():
            text = f"make_timestamp({to_microseconds(value)})"
        case Decimal():
            text = f"'{value:f}'"
        case None:
            text = "NULL"
        case bool() | int():
            text = str(value).upper()
        case _:
            text = quote_literal(str(value))
    return f"CAST({text} AS {_duckdb_type(arrow_type)})"


def _varchar_column(rows: Rows, name: str) -> str:
    """Return a string column as SQL: other engines write strings as views, which Arrow can't filter."""
    return quote_name(name) if str(rows.schema.field(name).type) == "string" else f"CAST({quote_name(name)} AS VARCHAR)"


def _duckdb_type(arrow_type: pa.DataType) -> str:
    """Return a type in DuckDB's SQL."""
    if pa.types.is_struct(arrow_type):
        members = [f"{quote_name(member_field.name)} {_duckdb_type(member_field.type)}" for member_field in arrow_type]
        return f"STRUCT({', '.join(members)})"
    if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
        return f"{_duckdb_type(arrow_type.value_type)}[]"
    type_name = _declared_type(arrow_type)
    return DUCKDB_TYPES.get(type_name, type_name)


def _key_column_text(rows: Rows, column: Column) -> str:
    quoted_name, plain_type = quote_name(column.name), base_type(column.type)
    if plain_type == "timestamp":
        return f"replace(replace(CAST({quoted_name} AS VARCHAR), ' ', 'T'), '+00', 'Z')"
    if plain_type == "binary":
        return f"to_base64({quoted_name})"
    if plain_type in ("double", "float"):
        not_finite = (
            f"CASE WHEN isnan({quoted_name}) THEN 'NaN' WHEN {quoted_name} > 0 THEN 'Infinity' ELSE '-Infinity' END"
        )
        return f"CASE WHEN isfinite({quoted_name}) THEN CAST({quoted_name} AS VARCHAR) ELSE {not_finite} END"
    if plain_type in NESTED_TYPES:
        return f"CAST(to_json({quoted_name}) AS VARCHAR)"
    return _varchar_column(rows, column.name) if plain_type == "string" else f"CAST({quoted_name} AS VARCHAR)"
