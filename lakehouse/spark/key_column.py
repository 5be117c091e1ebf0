"""The rows of one key, as a condition on a Spark frame; its text is that of `lakehouse.formats.key_text`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.formats.json_text import write
from lakehouse.formats.key_text import parse_key
from lakehouse.plan.schema import NESTED_TYPES, Column, base_type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_key(schema: StructType, names: Iterable[str], text: str, inside: str = "") -> SparkColumn:
    """Return the condition for the rows of one key; its columns lie inside a struct ("_of."), or in the frame itself.

    Raises ConfigError for a text that is no key of this schema.
    """
    columns = [Column(name, schema[name].dataType.simpleString()) for name in names]
    condition = F.lit(True)
    for column, value in zip(columns, parse_key(text, columns), strict=True):
        condition &= F.col(f"{inside}`{column.name}`").eqNullSafe(_literal(column.type, value))
    return condition


def _literal(kind: str, value: Any) -> SparkColumn:
    base = base_type(kind)
    if value is None:
        return F.lit(None)
    if base == "timestamp":
        # As a number: as a datetime it would go through the process's time zone.
        return F.timestamp_micros(F.lit((value - _EPOCH) // timedelta(microseconds=1)))
    if base in NESTED_TYPES:
        return F.from_json(F.lit(write(value)), kind)
    if base == "binary":
        return F.lit(bytearray(value))
    return F.lit(str(value) if base in ("date", "decimal") else value).cast(kind)
