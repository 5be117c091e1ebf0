"""Keys on Spark: values as a key has them (the rule is `lakehouse.semantics.key_value`), and the rows of one key.

Spark takes both zeros for the same value where it groups and joins, but not where it skips files, and keeps either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, StructType

from lakehouse.formats.key_text import parse_key
from lakehouse.formats.values.json_text import write_json
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.expression.schema import NESTED_TYPES, Column, base_type
from lakehouse.spark.expression.years import compute_columns

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def computed_keys(rows: DataFrame, expressions: Sequence[Expression]) -> list[SparkColumn]:
    """Return the values of expressions over rows, as a key has them."""
    computed_columns = compute_columns(rows, expressions)
    # To ask Spark for types takes time in every batch.
    if all(item.is_column for item in expressions) and not _has_float(rows.schema):
        return computed_columns
    kinds = rows.select(*[column.alias(f"_{number}") for number, column in enumerate(computed_columns)]).schema
    return [key_value(column, field.dataType) for column, field in zip(computed_columns, kinds, strict=True)]


def key_value(value: SparkColumn, kind: DataType) -> SparkColumn:
    """Return a value as a key has it. kind: its type."""
    if not _has_float(kind):
        return value
    match kind:
        case StructType():
            fields = [key_value(value.getField(field.name), field.dataType).alias(field.name) for field in kind]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(value, lambda item: key_value(item, kind.elementType))
    zero, nan = (F.lit(number).cast(kind) for number in (0.0, float("nan")))
    return F.when(value == 0, zero).when(F.isnan(value), nan).otherwise(value)


def _has_float(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(_has_float(field.dataType) for field in kind)
        case ArrayType():
            return _has_float(kind.elementType)
    return isinstance(kind, FloatType | DoubleType)


def is_key(schema: StructType, names: Iterable[str], text: str, prefix: str = "") -> SparkColumn:
    """Return the condition for the rows of one key.

    names: the key's columns, which lie in the frame itself, or in a struct if there is a prefix ("_of."). text: the
    key, see `lakehouse.formats.key_text`. Raises ConfigError for a text that is no key of this schema.
    """
    columns = [Column(name, schema[name].dataType.simpleString()) for name in names]
    condition = F.lit(True)
    for column, value in zip(columns, parse_key(text, columns), strict=True):
        condition &= F.col(f"{prefix}`{column.name}`").eqNullSafe(_key_literal(column.type, value))
    return condition


def _key_literal(kind: str, value: Any) -> SparkColumn:
    base = base_type(kind)
    if value is None:
        return F.lit(None)
    if base == "timestamp":
        # As a number: as a datetime it would go through the process's time zone.
        return F.timestamp_micros(F.lit((value - _EPOCH) // timedelta(microseconds=1)))
    if base in NESTED_TYPES:
        return F.from_json(F.lit(write_json(value)), kind)
    if base == "binary":
        return F.lit(bytearray(value))
    return F.lit(str(value) if base in ("date", "decimal") else value).cast(kind)
