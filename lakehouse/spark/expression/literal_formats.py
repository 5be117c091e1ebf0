"""Finds formats and time zones, written in an expression, that Spark can't use: it would say so at the first record.

Spark reads them when it computes the expression. So the expression is computed once, over a row of samples, as it is
written: where failures give null (`lakehouse.spark.expression.declared`), code that Spark compiles would still raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lakehouse.errors import PlanError
from lakehouse.plan.expression import Expression
from lakehouse.plan.refused.place import message_with_place

READERS = re.compile(
    r"\b(date_format|from_unixtime|(to_)?unix_timestamp|(try_)?to_(date|time|timestamp(_ltz|_ntz)?)|convert_timezone|"
    r"(from|to)_utc_timestamp|make_timestamp(_ltz)?)\s*\(",
    re.IGNORECASE,
)
UNUSABLE = re.compile(
    r"\[((?:INVALID_DATETIME_PATTERN|INCONSISTENT_BEHAVIOR_CROSS_VERSION|INVALID_TIMEZONE)[A-Z_.]*)\] *"
)
# Two samples: what Spark says of a format that a record has depends on the record.
SAMPLES = (("2026-01-31", 1), ("1999-12-30", 2))


def check_formats(frame: DataFrame, label: str, items: Iterable[Expression]) -> None:
    """Raise PlanError for an expression over the frame's columns whose own format, or zone, Spark can't use."""
    for item in items:
        if READERS.search(item.text) is None:
            continue
        reasons = [_unusable_reason(frame, item.text, *sample) for sample in SAMPLES]
        if (reason := reasons[0]) is not None and reasons[1] == reason:
            message = f"{label}: {item.text!r}: Spark can't use its format, or its time zone: {reason}"
            raise PlanError(message_with_place(message, item.place))


def _unusable_reason(frame: DataFrame, text: str, sample_text: str, sample_number: int) -> str | None:
    """Return what Spark says of a format or zone when it computes an expression over a sample; None if it can."""
    samples = [_sample(field.dataType, sample_text, sample_number).alias(field.name) for field in frame.schema]
    try:
        frame.sparkSession.sql("SELECT 1").select(*samples).select(F.expr(text)).collect()
    except PySparkException as error:
        if (match := UNUSABLE.search(str(error))) is not None:
            return str(error)[match.end() :].split("\n", 1)[0].split(" SQLSTATE", 1)[0]
    return None


def _sample(kind: DataType, text: str, number: int) -> Column:
    """Return a value of a type that is not null, nor is anything in it."""
    match kind:
        case StructType():
            return F.struct(*[_sample(field.dataType, text, number).alias(field.name) for field in kind])
        case ArrayType():
            return F.array(_sample(kind.elementType, text, number))
        case MapType():
            return F.create_map(_sample(kind.keyType, text, number), _sample(kind.valueType, text, number))
    return F.coalesce(F.lit(text).cast(kind), F.lit(number).cast(kind))
