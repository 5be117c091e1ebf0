"""Finds formats, time zones and paths, written in an expression, that Spark can't use: it would fail for each record.

Spark reads them when it computes the expression. So the expression is computed once, over a row of samples, as it is
written: where failures give null (`lakehouse.spark.expression.declared`), code that Spark compiles would still raise.
What needs no Java is refused where it is declared (`lakehouse.plan.refused.constants`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from sqlglot import exp

from lakehouse.errors import PlanError
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.refused.place import message_with_place
from lakehouse.plan.written.parse import name_of_call
from lakehouse.spark.jvm.failure import READ_ERRORS

READERS = re.compile(
    r"\b(date_format|from_unixtime|(to_)?unix_timestamp|(try_)?to_(date|time|timestamp(_ltz|_ntz)?)|convert_timezone|"
    r"(from|to)_utc_timestamp|(try_)?make_timestamp(_ltz|_ntz)?|to_(var)?char|(from|to)_(json|csv|xml)|format_string|"
    r"printf|xpath\w*)\s*\(",
    re.IGNORECASE,
)
# The last two are what Java says of a format of format_string, and Spark of an XPath.
UNUSABLE = re.compile(
    r"\[((?:INVALID_DATETIME_PATTERN|INCONSISTENT_BEHAVIOR_CROSS_VERSION|INVALID_TIMEZONE)[A-Z_.]*)\] *|"
    r"^(?=(?:Conversion|Format specifier|Flags|Precision|Width) |. != )|(?=Invalid XPath)"
)
# Options of parsers: a format that Spark can't use gives a null for each text, without an error.
FORMAT_OPTION = re.compile(r"(date|timestamp|timestampNTZ)Format", re.IGNORECASE)
# Two samples: what Spark says of a format that a record has depends on the record.
SAMPLES = (("2026-01-31", 1), ("1999-12-30", 2))


def check_formats(frame: DataFrame, label: str, items: Iterable[Expression]) -> None:
    """Raise PlanError for an expression over the frame's columns whose own format, zone or path Spark can't use."""
    for item in items:
        if READERS.search(item.text) is None:
            continue
        for text in (item.text, *_option_readers(item.written_tree)):
            reasons = [_unusable_reason(frame, text, item.columns(), *sample) for sample in SAMPLES]
            if (reason := reasons[0]) is not None and reasons[1] == reason:
                message = f"{label}: {item.text!r}: Spark can't use its format, its time zone or its path: {reason}"
                raise PlanError(message_with_place(message, item.place))


def _option_readers(expression: exp.Expression) -> Iterator[str]:
    """Return an expression for each format among the options of a parser: it fails if Spark can't use the format."""
    for call in expression.find_all(exp.Anonymous):
        arguments = call.expressions if name_of_call(call) == "map" else []
        for name, value in zip(arguments[::2], arguments[1::2], strict=False):
            if isinstance(name, exp.Literal) and isinstance(value, exp.Literal) and FORMAT_OPTION.fullmatch(name.name):
                yield f"to_timestamp('2026-01-31', {value.sql('spark')})"


def _unusable_reason(
    frame: DataFrame, text: str, names: Collection[str], sample_text: str, sample_number: int
) -> str | None:
    """Return what Spark says of a format when it computes an expression over a sample of its columns; None if it can.

    names: the columns that the expression reads; others need no sample.
    """
    read_names = {name.lower() for name in names}
    samples = [
        _sample(field.dataType, sample_text, sample_number).alias(field.name)
        for field in frame.schema
        if field.name.lower() in read_names
    ]
    try:
        frame.sparkSession.sql("SELECT 1").select(F.lit(1), *samples).select(F.expr(text)).collect()
    except READ_ERRORS as error:
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
        case DateType() | TimestampType() | TimestampNTZType() | StringType():
            return F.lit(text).cast(kind)  # Spark casts no number to a date
        case BinaryType():
            return F.encode(F.lit(text), "UTF-8")
    return F.lit(number).cast(kind)
