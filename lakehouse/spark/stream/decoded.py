"""Decodes bronze by a source's schema: bytes become columns, and a record that does not fit is marked.

The result has the form that `lakehouse.spark.stream.streams` describes.
"""

from __future__ import annotations

from functools import reduce
from itertools import count, zip_longest
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.formats.codec.registered import FindSchemas, find_no_schemas
from lakehouse.formats.decode import part_schemas
from lakehouse.plan.expectation import Expectation
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.expression.schema import HEADERS_TYPE, ORDINALS_TYPE
from lakehouse.plan.origin import Source
from lakehouse.semantics.time import future_time
from lakehouse.spark.bronze.kafka_times import invalid_kafka_time
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.expression.years import epoch_ms, in_range
from lakehouse.spark.key_column import key_value
from lakehouse.spark.part.parts import make_part

_barrier_numbers = count(1)


def decode_records(source: Source, bronze: DataFrame, find_schemas: FindSchemas = find_no_schemas) -> DataFrame:
    """Return the source's columns over bronze rows of its topic, with `_bad` true where a record does not fit.

    find_schemas: gives the schemas of the writers of the topic's "key" or "value".
    """
    key_part = make_part("key", source.key_format, source.key, part_schemas(source, "key", find_schemas))
    value_part = make_part("value", source.value_format, source.value, part_schemas(source, "value", find_schemas))
    parts = (key_part, value_part)
    frame = bronze.select(
        *[column.alias(name) for part in parts for name, column in part.bronze_columns.items()],
        _bronze_position().alias("_position"), F.col("topic_id").alias("_topic_id"),
        F.coalesce(invalid_kafka_time(), F.unix_millis("timestamp")).alias("rowtime"),
        F.col("partition").alias("rowpartition"), F.col("offset").alias("rowoffset"),
        *([F.col("headers").alias("_headers")] if source.headers else []),
        *([judging_time().alias("_judged_by")] if source.max_ahead is not None else []),
    )  # fmt: skip
    for columns_of_parts in zip_longest(key_part.separate_columns, value_part.separate_columns):
        frame = frame.withColumns(reduce(or_, filter(None, columns_of_parts)))
    frame = frame.withColumns(
        {"_null_key": key_part.is_null, "_tombstone": value_part.is_null, "_bad": key_part.is_bad | value_part.is_bad}
    )
    if source.times_deletes:
        frame = frame.withColumn("_deleted_ms", value_part.deleted_ms)
    visible_columns = [
        key_value(key_part.column(field.name), field.dataType).alias(field.name) for field in key_part.type
    ]
    visible_columns += [value_part.column(column.name).alias(column.name) for column in value_part.columns]
    if source.headers:
        headers = F.coalesce(F.col("_headers"), F.array().cast(HEADERS_TYPE))
        visible_columns.append(F.when(~F.col("_tombstone"), headers).alias(source.headers))
    time_columns = (("_judged_by", source.max_ahead is not None), ("_deleted_ms", source.times_deletes))
    own_columns = (
        *[name for name, is_there in time_columns if is_there],
        "_null_key",
        "_tombstone",
        "_bad",
        "_position",
        "_topic_id",
        "rowtime",
        "rowpartition",
        "rowoffset",
    )
    frame = frame.select(*visible_columns, *own_columns)
    if source.event_time is not None:
        frame = _with_event_time(frame, source, source.event_time)
    is_bad = reduce(or_, map(is_unmet, source.judged_expectations), F.col("_bad") | _has_no_time(source))
    return _computed_once(frame.withColumn("_bad", is_bad).drop("_judged_by", "_deleted_ms"))


def _with_event_time(frame: DataFrame, source: Source, event_time: Expression) -> DataFrame:
    """Return decoded records with the source's event time as `rowtime`.

    A null value has no columns from which to take the time: the record keeps its own time, or that of a delete.
    """
    keeps_own_time = F.col("_tombstone") | F.col("_bad")
    own_time = F.col("rowtime")
    if source.times_deletes:
        time_of_delete = F.col("_deleted_ms")
        if source.max_ahead is not None:
            is_near = F.coalesce(time_of_delete - F.col("_judged_by") <= source.max_ahead, F.lit(True))
            time_of_delete = F.when(is_near, time_of_delete)
        own_time = F.coalesce(F.when(~F.col("_bad"), time_of_delete), own_time)
    event_ms = epoch_ms(frame, column_of(event_time))
    return frame.withColumn("rowtime", F.when(keeps_own_time, own_time).otherwise(event_ms))


def _has_no_time(source: Source) -> Column:
    """Return whether a decoded record has no valid event time, or one that is too far ahead; never null."""
    has_no_time = F.coalesce(~in_range(F.col("rowtime")), F.lit(source.event_time is not None))
    if source.max_ahead is None:
        return has_no_time
    # Where it counts, both times lie in the years 1 to 9999, so their difference does not overflow.
    valid_time = F.when(in_range(F.col("rowtime")), F.col("rowtime"))
    is_too_far = ~F.col("_tombstone") & (valid_time - F.col("_judged_by") > source.max_ahead)
    return has_no_time | F.coalesce(is_too_far, F.lit(False))


def is_unmet(expectation: Expectation) -> Column:
    """Return whether a decoded record does not meet an expectation; one without a value has nothing to judge."""
    return ~F.col("_tombstone") & ~is_met(expectation)


def is_met(expectation: Expectation) -> Column:
    """Return whether a record's or a row's columns meet an expectation: its condition is neither false nor null."""
    return F.when(column_of(expectation.condition), F.lit(True)).otherwise(F.lit(False))


def _computed_once(frame: DataFrame) -> DataFrame:
    """Return the same frame, below which Spark pushes no filter.

    Spark would push one on `_bad` down to bronze's rows, and then decode each record in the filter and again after it.
    """
    return frame.observe(f"decoded records {next(_barrier_numbers)}", F.count(F.lit(1)).alias("records"))


def judging_time() -> Column:
    """Return the time with which a bronze row's event time is compared; null if it is not: see `ahead`."""
    timestamp, is_fixed = (
        F.unix_millis("timestamp"),
        F.exists("headers", lambda header: header["key"] == future_time.HEADER),
    )
    return F.when((timestamp != future_time.NO_TIMESTAMP) & ~F.coalesce(is_fixed, F.lit(False)), timestamp)


def _bronze_position() -> Column:
    time, ordinals = F.unix_millis("order_time"), F.array().cast(ORDINALS_TYPE)
    return F.struct("tick", time.alias("order_time"), "topic", "partition", "offset", ordinals.alias("ordinals"))
