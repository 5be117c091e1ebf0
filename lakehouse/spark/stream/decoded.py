"""Bronze read through a source's schema: bytes become columns, and a record that does not fit is marked.

The result has the form that `lakehouse.spark.stream.streams` describes.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.origin import Source
from lakehouse.plan.schema import HEADERS_TYPE, JSON_FORMATS, NESTED_TYPES, ORDINALS_TYPE, base_type
from lakehouse.plan.schema import Column as PlanColumn
from lakehouse.semantics import ahead
from lakehouse.spark.expressions import column_of
from lakehouse.spark.kafka_times import kafka_said
from lakehouse.spark.key_column import key_value
from lakehouse.spark.stream.json_key_part import JsonKeyPart
from lakehouse.spark.stream.json_part import JsonPart
from lakehouse.spark.stream.part import Part, in_python
from lakehouse.spark.years import in_range


def decoded(source: Source, bronze: DataFrame) -> DataFrame:
    """Return the source's columns over bronze rows of its topic, with `_bad` true where a record does not fit."""
    key = _part("key", source.key_format, source.key)
    value = _part("value", source.value_format, source.value)
    parts = (key, value)
    frame = bronze.select(
        *[column.alias(name) for part in parts for name, column in part.kept.items()],
        _position().alias("_position"), F.col("topic_id").alias("_topic_id"),
        F.coalesce(kafka_said("timestamp", "headers"), F.unix_millis("timestamp")).alias("rowtime"),
        F.col("partition").alias("rowpartition"), F.col("offset").alias("rowoffset"),
        *([F.col("headers").alias("_headers")] if source.headers else []),
        *([judged_by().alias("_judged_by")] if source.max_ahead is not None else []),
    )  # fmt: skip
    if apart := key.apart | value.apart:
        frame = frame.withColumns(apart)
    frame = frame.withColumns({"_null_key": key.null, "_tombstone": value.null, "_bad": key.bad | value.bad})
    visible = [key_value(key.column(field.name), field.dataType).alias(field.name) for field in key.type]
    visible += [value.column(column.name).alias(column.name) for column in value.columns]
    if source.headers:
        headers = F.coalesce(F.col("_headers"), F.array().cast(HEADERS_TYPE))
        visible.append(F.when(~F.col("_tombstone"), headers).alias(source.headers))
    judged = ("_judged_by",) if source.max_ahead is not None else ()
    own = (*judged, "_null_key", "_tombstone", "_bad", "_position", "_topic_id", "rowtime", "rowpartition", "rowoffset")
    frame = frame.select(*visible, *own)
    if source.event_time is not None:
        time = column_of(source.event_time)
        if dict(frame.select(time.alias("t")).dtypes)["t"] != "bigint":
            time = F.unix_millis(time)
        # A null value has no columns to take the time from: it keeps the record's own.
        own_time = F.col("_tombstone") | F.col("_bad")
        frame = frame.withColumn("rowtime", F.when(own_time, F.col("rowtime")).otherwise(time))
    no_time = F.coalesce(~in_range(F.col("rowtime")), F.lit(source.event_time is not None))
    if source.max_ahead is not None:
        # Both lie in the years 1 to 9999 where it counts, so their difference is a number.
        possible = F.when(in_range(F.col("rowtime")), F.col("rowtime"))
        too_far = ~F.col("_tombstone") & (possible - F.col("_judged_by") > source.max_ahead)
        no_time = no_time | F.coalesce(too_far, F.lit(False))
    return frame.withColumn("_bad", F.col("_bad") | no_time).drop("_judged_by")


def judged_by() -> Column:
    """The time, of a row of bronze, that its event time may be ahead of; null if it is not judged: see `ahead`."""
    timestamp, fixed = F.unix_millis("timestamp"), F.exists("headers", lambda header: header["key"] == ahead.HEADER)
    return F.when((timestamp != ahead.NO_TIMESTAMP) & ~F.coalesce(fixed, F.lit(False)), timestamp)


def _position() -> Column:
    time, ordinals = F.unix_millis("order_time"), F.array().cast(ORDINALS_TYPE)
    return F.struct("tick", time.alias("order_time"), "topic", "partition", "offset", ordinals.alias("ordinals"))


def _part(name: str, form: str, columns: tuple[PlanColumn, ...]) -> Part:
    if form == "none":
        return _Nothing(name, form, columns)
    if form == "json" and name == "key" and len(columns) == 1:
        nested = base_type(columns[0].type) in NESTED_TYPES
        return _InPython(name, form, columns) if nested else JsonKeyPart(name, form, columns)
    if form in JSON_FORMATS:
        return JsonPart(name, form, columns)
    if form == "kafka" and columns[0].type in ("string", "binary"):
        return _AsItStands(name, form, columns)
    return _InPython(name, form, columns)


@dataclass(frozen=True)
class _Nothing(Part):
    """Nobody reads it: it is null."""

    @property
    def read(self) -> Column:
        return F.struct(*[F.lit(None).cast(column.type).alias(column.name) for column in self.columns])

    @property
    def missing(self) -> Column:
        return F.lit(True)


@dataclass(frozen=True)
class _AsItStands(Part):
    """One column of text or bytes."""

    @property
    def read(self) -> Column:
        (column,) = self.columns
        return F.struct(F.col(self.name).cast(column.type).alias(column.name))

    @property
    def broken(self) -> Column:
        text = self.columns[0].type == "string"
        return ~F.is_valid_utf8(F.col(self.name).cast("string")) if text else F.lit(False)


@dataclass(frozen=True)
class _InPython(Part):
    """A form that Spark has no function for."""

    @property
    def read(self) -> Column:
        return in_python(self)(F.col(self.name))

    @property
    def unfit(self) -> Column:
        return self.struct["_unfit"].isNotNull()
