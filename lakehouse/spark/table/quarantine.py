"""The quarantine of a stream: records that do not fit its schema, with their bytes, their position and the reason."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.formats.decode import unfit
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import quarantine_of
from lakehouse.model.model import EVENT_TIME, time_refusal
from lakehouse.plan.origin import Source
from lakehouse.semantics.epoch import Progress
from lakehouse.spark.bronze import bronze
from lakehouse.spark.functions import over_arrow
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.decoded import decoded, judged_by
from lakehouse.spark.transaction import append, new_table

SCHEMA = f"{bronze.SCHEMA}, reason string"


def create(lake: OpenLake, source: Source) -> None:
    """Create a stream's quarantine if it does not exist yet."""
    path = lake.layout.quarantine(source.name)
    if not lake.exists(path):
        builder = new_table(lake.spark, path, SCHEMA)
        builder.property("delta.dataSkippingStatsColumns", "partition,offset,timestamp,tick,order_time").execute()


def bad_records(source: Source, rows: DataFrame, shared: DataFrame | None = None) -> DataFrame:
    """Return those bronze rows of the source's topic that do not fit its schema, with the reason.

    shared: these rows, and maybe more, `decoded` already.
    """
    key = ["topic_id", "partition", "offset"]
    flagged = (decoded(source, rows) if shared is None else shared).where("_bad")
    flagged = flagged.select("_position.*", F.col("rowtime").alias("ms"), F.col("_tombstone").alias("own"))
    bad = rows.join(flagged.select("partition", "offset", "tick", "ms", "own"), ["partition", "offset", "tick"])
    time = _time_reason(source)(F.struct("ms", "own", judged_by().alias("judged_by")))
    other = F.lit(EVENT_TIME.format(source.event_time) if source.event_time else "value: does not fit the schema")
    reason = F.coalesce(_reason(source, "key")(F.col("key")), _reason(source, "value")(F.col("value")), time, other)
    return bad.withColumn("reason", reason).orderBy("tick", *key).select(*bronze.COLUMNS, "reason")


def _reason(source: Source, part: str) -> Callable[[Column], Column]:
    """Return the column function that says why a key or a value does not fit; null if it does."""
    name, columns = (source.key_format, source.key) if part == "key" else (source.value_format, source.value)

    def reason(batch: pa.Array) -> pa.Array:
        return pa.array([unfit(part, name, columns, data) for data in batch.to_pylist()], type=pa.string())

    return over_arrow(reason, "string")


def _time_reason(source: Source) -> Callable[[Column], Column]:
    """Return the column function that says why a time is bad, or null.

    Of a time, whether it is the record's own, and the time that it is judged by.
    """

    def reason(batch: pa.Array) -> pa.Array:
        rows = batch.to_pylist()
        found = [
            None if row["ms"] is None else time_refusal(source, row["ms"], row["judged_by"], own=row["own"])
            for row in rows
        ]
        return pa.array(found, type=pa.string())

    return over_arrow(reason, "string")


def write(
    lake: OpenLake, source: Source, rows: DataFrame, epoch: int, after: int, to: int, shared: DataFrame | None = None
) -> None:
    """Append the bad records among the bronze rows with tick in (after, to] that are not in the quarantine yet.

    epoch: one that the writer has opened. Written before the tables take the tick in, so a table that has a tick never
    lacks its quarantine. shared: see `bad_records`.
    """
    place = quarantine_of(lake.layout, source.name)
    done = lake.progress(place)
    if done.tick >= to:
        return
    fresh = bronze.between(rows, max(after, done.tick), to)
    number = Progress(epoch, to)
    append(bad_records(source, fresh, shared), place, number, {"from_tick": max(after, done.tick)})


def swap(lake: OpenLake, built: Layout, source: Source, rows: DataFrame, epoch: int, to: int) -> int:
    """Replace a stream's quarantine with the one under the declaration of a table built elsewhere, up to tick `to`.

    Nothing happens if both have the same records. rows: bronze's; if another table was ahead, the rest comes from them.
    In one commit, under the epoch after the writer's; a repetition after a crash has the same result. Return the epoch.
    """
    place = quarantine_of(lake.layout, source.name)
    new = lake.read(built.quarantine(source.name)).where(F.col("tick") <= to)
    there = lake.read(place.path).where(F.col("tick") <= to)
    if new.exceptAll(there).isEmpty() and there.exceptAll(new).isEmpty():
        return epoch
    done = lake.progress(place)
    if done.tick > to:
        new = new.unionByName(bad_records(source, bronze.between(rows, to, done.tick)))
    number = Progress(epoch + 1, max(done.tick, to))
    append(new, place, number, {"from_tick": 0, "operation": "swap"}, instead=True)
    return number.epoch
