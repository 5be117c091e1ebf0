"""A stream on Spark: bronze read through a source's schema, and the stateless steps.

The frame of a stream has its visible columns, the pseudo columns, and lakehouse's own:

    _tombstone   the value is null
    _null_key    the key is null
    _bad         the record does not fit the schema (checked before the steps, gone after them)
    _undo        only of a table's rows, change by change: the row is taken out, not put in
    _position    struct(tick, order_time, topic, partition, offset, ordinals): compares like semantics' Position
    _topic_id    the topic's id: a recreated topic has another one
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from functools import partial, reduce
from typing import Any, Protocol, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType, TimestampType

from lakehouse.formats.decode import decode_columns
from lakehouse.formats.unfit import Unfit
from lakehouse.plan.origin import JSON_FORMATS, ChangesOf, Merge, Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.schema import ORDINALS_TYPE, PSEUDO_COLUMNS
from lakehouse.plan.schema import Column as PlanColumn
from lakehouse.plan.step import Map, Step
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.spark.expressions import column_of
from lakehouse.spark.functions import over_arrow
from lakehouse.spark.kafka_times import kafka_said
from lakehouse.spark.stream.broadcast import joined_everywhere
from lakehouse.spark.stream.joined import Tables, changes_as_records, joined
from lakehouse.spark.stream.json_any_case import json_any_case
from lakehouse.spark.stream.referring import rows_as_records
from lakehouse.spark.stream.step import OWN_COLUMNS, Flow, applied, merged
from lakehouse.spark.stream.stream_join import Earlier, held, joined_streams
from lakehouse.spark.years import any_time, has_time, in_range, outside


class RowCounter(Protocol):
    """Counts on the way: takes rows, and returns them."""

    def __call__(self, source: Source | Table, rows: DataFrame) -> DataFrame:
        """Take the decoded records of a source, the bad ones too; for an upstream table, its changes."""

    def held(self, rows: DataFrame) -> DataFrame:
        """Hold rows in memory that will be read several times: what is counted must be read once."""

    def mapped(self, place: Hashable, function: str, rows: DataFrame, error: Column) -> DataFrame:
        """Take the records after a `map`, with the error if its function failed."""


# Python's json, and so the model, refuses these too.
JSON_OPTIONS = {
    "columnNameOfCorruptRecord": "_corrupt",
    "allowSingleQuotes": "false",
    "allowComments": "false",
    # Without this a date "1" would be a day of 1970.
    "enableDateTimeParsingFallback": "false",
}

# In a text: see `_no_moment`. Spark leaves out blanks, control characters and a sign before a time.
MAYBE_NO_MOMENT = r'[0-9]{14}|9[0-9]{12}|"[^"0-9A-Za-z]*(T[0-9]|[0-9]{1,2}:)|\\'
NO_MOMENT = r"^(-?[0-9]{13}|[^0-9A-Za-z]*(T[0-9]|[0-9]{1,2}:))"
NUMBER = r"^-?[0-9.eE+-]*$"


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
        F.array().cast(ORDINALS_TYPE).alias("ordinals"),
    )
    frame = bronze.select(
        key.alias("_k"), value.alias("_v"), F.col("topic_id").alias("_topic_id"),
        F.coalesce(kafka_said("timestamp", "headers"), F.unix_millis("timestamp")).alias("rowtime"),
        "partition", "offset", position.alias("_position"),
        F.col("key").isNull().alias("_key_missing"), F.col("value").isNull().alias("_value_missing"),
        *[F.col(name).alias(f"_raw_{name}") for name in ("key", "value")],
    )  # fmt: skip
    times = {**_times(source.key_format, source.key, "key"), **_times(source.value_format, source.value, "value")}
    frame = frame.withColumns(times) if times else frame
    frame = frame.withColumns({"_null_key": key_null, "_tombstone": value_null, "_bad": key_bad | value_bad})
    parts = (("key", source.key), ("value", source.value))
    visible = [_column(part, column.name, times).alias(column.name) for part, columns in parts for column in columns]
    frame = frame.select(
        *visible, "_null_key", "_tombstone", "_bad", "_position", "_topic_id",
        F.col("rowtime"), F.col("partition").alias("rowpartition"), F.col("offset").alias("rowoffset"),
    )  # fmt: skip
    if source.event_time is not None:
        time = column_of(source.event_time)
        if dict(frame.select(time.alias("t")).dtypes)["t"] != "bigint":
            time = F.unix_millis(time)
        # A null value has no columns to take the time from: it keeps the record's own.
        own = F.col("_tombstone") | F.col("_bad")
        frame = frame.withColumn("rowtime", F.when(own, F.col("rowtime")).otherwise(time))
    no_time = F.coalesce(~in_range(F.col("rowtime")), F.lit(source.event_time is not None))
    return frame.withColumn("_bad", F.col("_bad") | no_time)


def _decode(name: str, columns: tuple[PlanColumn, ...], part: str) -> tuple[Column, Column, Column]:
    """Return how `key` or `value` bytes become a struct, when they are bad, and when they are null."""
    missing = F.col(f"_{part}_missing")
    data = F.col(f"_{part[0]}")
    if name == "none":
        return F.struct(*(F.lit(None).cast(c.type).alias(c.name) for c in columns)), F.lit(False), F.lit(True)
    if name in JSON_FORMATS:
        # from_json is the fast form of lakehouse.formats.json_value; a property test holds them equal.
        raw = F.col(f"_raw_{part}").cast("string")
        trimmed = F.trim(F.translate(raw, "\t\r\n", "   "))
        open_ended = ~raw.endswith("}")  # most texts are not: then they need not be trimmed
        literal_null = F.coalesce(open_ended & (trimmed == "null"), F.lit(False))
        open_ended = open_ended & ~trimmed.endswith("}")
        unfit = data.isNull() | data["_corrupt"].isNotNull() | ~F.is_valid_utf8(raw) | open_ended
        kind = _struct(columns)
        apart = _read_apart(name, kind)
        others = StructType([field for field in kind if field.name not in apart])
        if has_time(others):
            unfit = unfit | outside(data, others) | _no_moment(raw, others)
        for moment in apart:
            found = F.col(_place(part, moment))
            read = found.isNotNull() & ~data[moment].rlike(NO_MOMENT) & ~outside(found, TimestampType())
            unfit = unfit | (data[moment].isNotNull() & ~read)
        bad, null = ~missing & ~literal_null & unfit, missing | literal_null
        fields = [StructField(f.name, StringType() if f.name in apart else f.dataType) for f in kind]
        from_json = partial(
            F.from_json, schema=StructType([*fields, StructField("_corrupt", StringType())]), options=JSON_OPTIONS
        )
        text = F.col(part).cast("string")
        if name == "json_any_case":
            return json_any_case(text, columns, from_json, _arrow_decoder(name, columns)), bad, null
        return from_json(text), bad, null
    if name == "kafka" and columns[0].type in ("string", "binary"):
        struct = F.struct(F.col(part).cast(columns[0].type).alias(columns[0].name))
        bad = (
            ~missing & ~F.is_valid_utf8(F.col(f"_raw_{part}").cast("string"))
            if columns[0].type == "string"
            else F.lit(False)
        )
        return struct, bad, missing
    return _arrow_decoder(name, columns)(F.col(part)), ~missing & data["_unfit"].isNotNull(), missing


def _struct(columns: tuple[PlanColumn, ...]) -> StructType:
    return cast(StructType, StructType.fromDDL(", ".join(map(_quoted, columns))))


def _read_apart(name: str, kind: StructType) -> tuple[str, ...]:
    """The timestamps that from_json reads as text, of a format; none if there are some deeper in the columns, too.

    The text then tells whether it is a moment. Looking for it in the whole record takes longer than reading the record.
    """
    plain = [field.name for field in kind if isinstance(field.dataType, TimestampType)]
    deeper = any(
        has_time(field.dataType) for field in kind if isinstance(field.dataType, ArrayType | MapType | StructType)
    )
    return tuple(plain) if name == "json" and not deeper else ()


def _place(part: str, moment: str) -> str:
    return f"_{part}_time_{moment}"


def _column(part: str, name: str, times: Container[str]) -> Column:
    return F.col(place if (place := _place(part, name)) in times else f"_{part[0]}.{name}")


def _times(name: str, columns: tuple[PlanColumn, ...], part: str) -> dict[str, Column]:
    """The moments that were read as text, by their place. A number is read again, as epoch seconds:
    the text does not tell whether it stood in quotes, where it is no moment."""
    made = {}
    for moment in _read_apart(name, _struct(columns)):
        text, raw = F.col(f"_{part[0]}")[moment], F.col(f"_raw_{part}").cast("string")
        number = text.rlike(NUMBER)
        kind = StructType([StructField(moment, TimestampType())])
        seconds = F.from_json(F.when(number, raw), kind, JSON_OPTIONS)[moment]
        made[_place(part, moment)] = F.when(number, seconds).otherwise(text.try_cast("timestamp"))
    return made


def _no_moment(raw: Column, kind: StructType) -> Column:
    """Whether JSON has a value for a timestamp that Spark reads as a wrong one, and the Python rule refuses.

    Spark reads a time without a date as one of the current day. Epoch seconds that are too large (they were meant in a
    smaller unit) overflow, and may come out as any time. A value that may have either is read again, its times as text.
    """
    as_text = cast(StructType, _times_as_text(kind))
    text = F.from_json(F.when(raw.rlike(MAYBE_NO_MOMENT), raw), as_text, JSON_OPTIONS)
    return any_time(text, kind, lambda time, of: time.rlike(NO_MOMENT) & F.lit(isinstance(of, TimestampType)))


def _times_as_text(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return StructType([StructField(field.name, _times_as_text(field.dataType)) for field in kind])
        case ArrayType():
            return ArrayType(_times_as_text(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _times_as_text(kind.valueType))
    return StringType() if has_time(kind) else kind


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


def stream_frame(
    stream: Stream,
    records: Callable[[Source], DataFrame],
    count: RowCounter | None = None,
    tables: Tables | None = None,
    earlier: Earlier | None = None,
) -> DataFrame:
    """Return the stream's records, without the bad ones.

    records: gives those of a source, as `decoded` does. count: see `RowCounter`. tables: how upstream tables are read,
    for a stream that has some. earlier: what came before, for a stream with joins of streams; None if nothing did.
    """
    made = partial(stream_frame, records=records, count=count, tables=tables, earlier=earlier)
    match stream.source:
        case Source():
            rows = records(stream.source)
            rows = count(stream.source, rows) if count else rows
            rows = rows.where(~F.col("_bad")).drop("_bad")
        case Merge():
            rows = _merged(stream.source, [made(part) for part in stream.source.streams])
        case ChangesOf(table):
            assert tables is not None
            rows = changes_as_records(table, tables.changes(table))
            rows = count(table, rows.withColumn("_bad", F.lit(False))).drop("_bad") if count else rows
        case TableJoin(part):
            assert tables is not None
            join = joined_everywhere if stream.source.broadcast else joined
            rows = join(stream.source, made(part), tables)
        case StreamJoin(left, right):
            sides = [made(part) for part in (left, right)]
            rows = joined_streams(stream.source, sides, earlier, held if count is None else count.held)
        case RowsOf() | RowsJoin() | ForeignKeyJoin():
            assert tables is not None
            rows = rows_as_records(stream.source, tables)
            first = stream.source.tables[0]
            rows = count(first, rows.withColumn("_bad", F.lit(False))).drop("_bad") if count else rows
    done: list[Step] = []
    begins = "\n".join(stream.source.lines())

    def failing(step: Map, rows: DataFrame, error: Column) -> DataFrame:
        return count.mapped((begins, tuple(done)), f"map {step.name}", rows, error) if count else rows

    flow = Flow(rows, stream.source.names_of_key, failing)
    for item in stream.steps:
        done.append(item)
        flow = applied(item, flow)
    return flow.frame


def _merged(merge: Merge, frames: list[DataFrame]) -> DataFrame:
    names = [column.name for column in merge.streams[0].columns]
    parts = []
    for number, frame in enumerate(frames):
        part = frame.select(*names, *OWN_COLUMNS, *PSEUDO_COLUMNS)
        parts.append(part.withColumn("_position", merged(number)))
    return reduce(DataFrame.unionByName, parts)
