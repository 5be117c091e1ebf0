"""The quarantine of a stream: records that do not fit its schema, with their bytes, their position and the reason."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.delta import bronze
from lakehouse.delta.functions import over_arrow
from lakehouse.delta.layout import Layout
from lakehouse.delta.streams import decoded
from lakehouse.delta.transaction import append, read_progress
from lakehouse.formats.decode import decode_columns
from lakehouse.formats.unfit import Unfit
from lakehouse.plan.step import Source
from lakehouse.semantics.epoch import Progress

SCHEMA = f"{bronze.SCHEMA}, reason string"
EVENT_TIME = "the event time {} is null"


def name_of(source: Source) -> str:
    """Return the name under which a quarantine's progress stands in its log."""
    return f"quarantine.{source.name}"


def create(spark: SparkSession, layout: Layout, source: Source) -> None:
    """Create a stream's quarantine if it does not exist yet."""
    path = layout.quarantine(source.name)
    if not DeltaTable.isDeltaTable(spark, path):
        columns = spark.createDataFrame([], SCHEMA).schema
        builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(columns)
        builder.property("delta.dataSkippingStatsColumns", "partition,offset,timestamp,tick,order_time").execute()


def bad_records(source: Source, rows: DataFrame) -> DataFrame:
    """Return those bronze rows of the source's topic that do not fit its schema, with the reason."""
    key = ["topic_id", "partition", "offset"]
    flagged = decoded(source, rows).where("_bad").select("_position.*")
    bad = rows.join(flagged.select("partition", "offset", "tick"), ["partition", "offset", "tick"], "left_semi")
    time = F.lit(EVENT_TIME.format(source.event_time) if source.event_time else "value: does not fit the schema")
    reason = F.coalesce(
        _reason(source, "key")(F.col("key")), _reason(source, "value")(F.col("value")), time
    )  # fmt: skip
    return bad.withColumn("reason", reason).orderBy("tick", *key).select(*bronze.COLUMNS, "reason")


def _reason(source: Source, part: str) -> Callable[[Column], Column]:
    """Return the column function that says why a key or a value does not fit; null where it does."""
    name, columns = (source.key_format, source.key) if part == "key" else (source.value_format, source.value)

    def reason(batch: pa.Array) -> pa.Array:
        found: list[str | None] = []
        for data in batch.to_pylist():
            try:
                decode_columns(name, columns, data)
                found.append(None)
            except Unfit as error:
                found.append(f"{part}: {error}")
        return pa.array(found, type=pa.string())

    return over_arrow(reason, "string")


def write(spark: SparkSession, layout: Layout, source: Source, rows: DataFrame, after: int, to: int) -> None:
    """Append the bad records among the bronze rows with tick in (after, to] that are not in the quarantine yet.

    Written before the tables take the tick in, so a table that has a tick never lacks its quarantine.
    """
    path = layout.quarantine(source.name)
    done = read_progress(spark, path, name_of(source))
    if done.tick >= to:
        return
    fresh = bronze.between(rows, max(after, done.tick), to)
    number = Progress(0, to)
    append(bad_records(source, fresh), path, name_of(source), number, {"from_tick": max(after, done.tick)})
