"""A stream on Spark: bronze read through a source's schema, and the stateless steps.

The frame of a stream has its visible columns, the pseudo columns, and lakehouse's own:

    _tombstone   the value is null
    _null_key    the key is null
    _bad         the record does not fit the schema (checked before the steps, gone after them)
    _position    struct(tick, order_time, topic, partition, offset, ordinal): compares like semantics' Position
    _topic_id    the topic's id: a topic made anew is another one
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.delta.functions import mapped, over_arrow
from lakehouse.formats.decode import decode_columns
from lakehouse.formats.unfit import Unfit
from lakehouse.plan.schema import PSEUDO_COLUMNS
from lakehouse.plan.schema import Column as PlanColumn
from lakehouse.plan.step import Explode, Filter, Map, Merge, Rekey, Select, Source
from lakehouse.plan.stream import Stream
from lakehouse.semantics.position import LEVEL_BITS

Count = Callable[[Source, DataFrame], DataFrame]
OWN_COLUMNS = ("_tombstone", "_null_key", "_position", "_topic_id")
# What Python's json, and so the model, refuses too.
JSON_OPTIONS = {
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowComments": "false",
    # Without this a date "1" would be a day of 1970.
    "enableDateTimeParsingFallback": "false",
}


def decoded(source: Source, bronze: DataFrame) -> DataFrame:
    """Return the source's columns over bronze rows of its topic, with `_bad` true where a record does not fit."""
    key, key_bad, key_null = _decode(source.key_format, source.key, "key")
    value, value_bad, value_null = _decode(source.value_format, source.value, "value")
    position = F.struct(
        "tick",
        F.unix_millis("order_time").alias("order_time"),
        "topic",
        "partition",
        "offset",
        F.lit(0).cast("bigint").alias("ordinal"),
    )
    frame = bronze.select(
        key.alias("_k"), value.alias("_v"), F.col("topic_id").alias("_topic_id"), "timestamp",
        "partition", "offset", position.alias("_position"),
        F.col("key").isNull().alias("_key_missing"), F.col("value").isNull().alias("_value_missing"),
        *[F.col(name).alias(f"_raw_{name}") for name in ("key", "value")],
    )  # fmt: skip
    frame = frame.withColumns({"_null_key": key_null, "_tombstone": value_null, "_bad": key_bad | value_bad})
    visible = [F.col(f"_k.{column.name}").alias(column.name) for column in source.key]
    visible += [F.col(f"_v.{column.name}").alias(column.name) for column in source.value]
    frame = frame.select(
        *visible, "_null_key", "_tombstone", "_bad", "_position", "_topic_id",
        F.unix_millis("timestamp").alias("rowtime"),
        F.col("partition").alias("rowpartition"), F.col("offset").alias("rowoffset"),
    )  # fmt: skip
    if source.event_time is None:
        return frame
    time = F.expr(source.event_time.text)
    if dict(frame.select(time.alias("t")).dtypes)["t"] != "bigint":
        time = F.unix_millis(time)
    # A null value has no columns to take the time from: it keeps the record's own.
    frame = frame.withColumn("rowtime", F.when(F.col("_tombstone") | F.col("_bad"), F.col("rowtime")).otherwise(time))
    return frame.withColumn("_bad", F.col("_bad") | F.col("rowtime").isNull())


def _decode(name: str, columns: tuple[PlanColumn, ...], part: str) -> tuple[Column, Column, Column]:
    """Return how `key` or `value` bytes become a struct, when they are bad, and when they are null."""
    missing = F.col(f"_{part}_missing")
    data = F.col(f"_{part[0]}")
    if name == "json":
        # from_json is the fast form of lakehouse.formats.json_value; a property test holds them equal.
        text = F.col(part).cast("string")
        schema = ", ".join([*map(_quoted, columns), "_corrupt string"])
        raw = F.col(f"_raw_{part}").cast("string")
        trimmed = F.trim(F.translate(raw, "\t\r\n", "   "))
        literal_null = F.coalesce(trimmed == "null", F.lit(False))
        open_ended = ~trimmed.endswith("}")
        unfit = data.isNull() | data["_corrupt"].isNotNull() | ~F.is_valid_utf8(raw) | open_ended
        bad = ~missing & ~literal_null & unfit
        return F.from_json(text, schema, JSON_OPTIONS), bad, missing | literal_null
    if name == "kafka" and columns[0].type in ("string", "binary"):
        struct = F.struct(F.col(part).cast(columns[0].type).alias(columns[0].name))
        bad = (
            ~missing & ~F.is_valid_utf8(F.col(f"_raw_{part}").cast("string"))
            if columns[0].type == "string"
            else F.lit(False)
        )
        return struct, bad, missing
    return _arrow_decoder(name, columns)(F.col(part)), ~missing & data["_unfit"].isNotNull(), missing


def _arrow_decoder(name: str, columns: tuple[PlanColumn, ...]) -> Callable[[Column], Column]:
    """The Python decoder of lakehouse.formats over Arrow batches: the one rule, run by Spark."""
    result = cast(StructType, StructType.fromDDL(", ".join([*map(_quoted, columns), "_unfit string"])))
    arrow = pa.struct(list(to_arrow_schema(result, timezone="UTC")))

    def decode(batch: pa.Array) -> pa.Array:
        rows: list[dict[str, Any] | None] = []
        for data in batch.to_pylist():
            try:
                rows.append(None if data is None else decode_columns(name, columns, data))
            except Unfit as error:
                rows.append({"_unfit": str(error)})
        return pa.array(rows, type=arrow)

    return over_arrow(decode, result)


def _quoted(column: PlanColumn) -> str:
    return f"`{column.name}` {column.type}"


def steps(stream: Stream, frame: DataFrame) -> DataFrame:
    """Apply a stream's steps to its source's columns, of which the bad records are left out."""
    key = [c.name for c in stream.source.key] if isinstance(stream.source, Source) else [*stream.key]
    for step in stream.steps:
        match step:
            case Filter(predicate):
                frame = frame.where(~F.col("_tombstone") & F.expr(predicate.text))
            case Select(columns):
                made = [F.expr(item.expression.text).alias(item.name) for item in columns]
                frame = frame.select(*key, *made, *OWN_COLUMNS, *PSEUDO_COLUMNS)
            case Rekey(columns):
                key = [item.name for item in columns]
                frame = frame.withColumns({item.name: F.expr(item.expression.text) for item in columns})
                frame = frame.withColumn("_null_key", reduce(and_, [F.col(name).isNull() for name in key]))
            case Explode(column):
                item = F.posexplode(F.expr(column.expression.text)).alias("_number", column.name)
                frame = frame.where(~F.col("_tombstone")).select("*", item)
                frame = _numbered(frame, _ordinal() * (1 << LEVEL_BITS) + F.col("_number")).drop("_number")
            case Map():
                made_by = mapped(step)(F.struct(*[F.expr(a.text).alias(f"_{n}") for n, a in enumerate(step.arguments)]))
                frame = frame.withColumn(step.name, F.when(~F.col("_tombstone"), made_by))
    return frame


def _ordinal() -> Column:
    return F.col("_position.ordinal")


def _numbered(frame: DataFrame, ordinal: Column) -> DataFrame:
    return frame.withColumn("_position", F.col("_position").withField("ordinal", ordinal.cast("bigint")))


def stream_frame(stream: Stream, bronze: DataFrame, count: Count | None = None) -> DataFrame:
    """Return the stream's records over bronze rows of its topics, without the bad ones.

    count: is given the decoded records of each source, the bad ones too, and returns them: to count on the way.
    """
    if isinstance(stream.source, Merge):
        return steps(stream, _merged(stream, stream.source, bronze, count))
    rows = decoded(stream.source, bronze.where(F.col("topic") == stream.source.topic))
    rows = count(stream.source, rows) if count else rows
    return steps(stream, rows.where(~F.col("_bad")).drop("_bad"))


def _merged(stream: Stream, merge: Merge, bronze: DataFrame, count: Count | None) -> DataFrame:
    deep = stream.levels - 1 - sum(isinstance(step, Explode) for step in stream.steps)
    names = [column.name for column in stream.columns]
    parts = []
    for number, part in enumerate(merge.streams):
        frame = stream_frame(part, bronze, count).select(*names, *OWN_COLUMNS, *PSEUDO_COLUMNS)
        parts.append(_numbered(frame, _ordinal() + (number << (LEVEL_BITS * deep))))
    return reduce(DataFrame.unionByName, parts)
