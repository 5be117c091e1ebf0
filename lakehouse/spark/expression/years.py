"""The years 1 to 9999 on Spark, whose own times go further: see `lakehouse.semantics.time.years`.

Bytes with a time outside of these years do not fit; an expression that gives such a time has failed, and is null. So is
an expression that gives a text of bytes that are not UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lakehouse.plan.expression.expression import Expression
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS
from lakehouse.spark.expression.declared import column_of

Test = Callable[[Column, DataType], Column]

# Functions that make bytes, which may become a text without a cast, upper(unhex('ff')), and need not be UTF-8.
BYTES = re.compile("binary|hex|encode|base64|aes", re.IGNORECASE)

BOUNDS: dict[type[DataType], tuple[str, str]] = {
    TimestampType: ("timestamp'0001-01-01 00:00:00Z'", "timestamp'9999-12-31 23:59:59.999999Z'"),
    TimestampNTZType: ("timestamp_ntz'0001-01-01 00:00:00'", "timestamp_ntz'9999-12-31 23:59:59.999999'"),
    DateType: ("date'0001-01-01'", "date'9999-12-31'"),
}


def in_range(ms: Column) -> Column:
    """Return whether milliseconds since 1970 are a valid time; null for null."""
    return ms.between(FIRST_MS, LAST_MS)


def epoch_ms(rows: DataFrame, time: Column) -> Column:
    """Return the milliseconds of a timestamp over rows; of milliseconds, a bigint, themselves."""
    is_ms = dict(rows.select(time.alias("t")).dtypes)["t"] == "bigint"
    return time if is_ms else F.unix_millis(time)


def compute_columns(rows: DataFrame, expressions: Sequence[Expression]) -> list[Column]:
    """Return the values of expressions over rows; null where a value is not valid."""
    computed_columns = [column_of(item) for item in expressions]
    if all(item.is_column for item in expressions):
        return computed_columns
    type_schema = rows.select(*[column.alias(f"_{number}") for number, column in enumerate(computed_columns)]).schema
    has_bytes = any("binary" in type_name for _, type_name in rows.dtypes)
    valid_columns = [
        F.try_validate_utf8(column) if is_text(field) and (has_bytes or BYTES.search(item.text)) else column
        for item, column, field in zip(expressions, computed_columns, type_schema, strict=True)
    ]
    return [
        null_outside_years(column, field.dataType) for column, field in zip(valid_columns, type_schema, strict=True)
    ]


def is_text(field: StructField) -> bool:
    """Say whether a column is a text."""
    return isinstance(field.dataType, StringType)


def null_outside_years(value: Column, kind: DataType) -> Column:
    """Return a value; null if it is, or contains, a time outside of the years."""
    return F.when(~is_outside_years(value, kind), value) if has_time(kind) else value


def has_time(kind: DataType) -> bool:
    """Say whether a type is, or contains, a timestamp or a date."""
    match kind:
        case StructType():
            return any(has_time(field.dataType) for field in kind)
        case ArrayType():
            return has_time(kind.elementType)
        case MapType():
            return has_time(kind.keyType) or has_time(kind.valueType)
    return type(kind) in BOUNDS


def is_outside_years(value: Column, kind: DataType) -> Column:
    """Return whether a value is, or contains, a time outside of the years; never null."""
    return has_any_time(value, kind, lambda time, time_type: ~time.between(*map(F.expr, BOUNDS[type(time_type)])))


def has_any_time(value: Column, kind: DataType, test: Test) -> Column:
    """Return whether a test is true of any time in a value; never null. test: takes a time and its type."""
    match kind:
        case StructType():
            parts = [(value.getField(field.name), field.dataType) for field in kind]
        case MapType():
            parts = [(F.map_keys(value), ArrayType(kind.keyType)), (F.map_values(value), ArrayType(kind.valueType))]
        case ArrayType(elementType=inner):
            return F.coalesce(F.exists(value, lambda item: has_any_time(item, inner, test)), F.lit(False))
        case _:
            return F.coalesce(test(value, kind), F.lit(False))
    return reduce(or_, [has_any_time(part, part_type, test) for part, part_type in parts if has_time(part_type)])
