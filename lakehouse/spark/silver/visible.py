"""The visible rows of a table that keeps more: derived from its state, commit by commit.

The state is committed first. The visible table follows, from its own last tick to the state's: so a crash in between
leaves it behind, never ahead, and the next writer brings it up to date.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.moment.cut import Cut
from lakehouse.spark.changelog import changefeed
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.clock import ClockState
from lakehouse.spark.operators.shown import expired, is_final, is_visible
from lakehouse.spark.past.moments import Past
from lakehouse.spark.table import tables
from lakehouse.spark.table.input import Shared


def changed(
    opened: OpenTable,
    after: int,
    to: int,
    clock: ClockState | None,
    shared: Shared | None = None,
    *,
    decided: bool = False,
) -> DataFrame:
    """Return the visible rows that changed in the ticks (after, to]: the new row, or `_tombstone`.

    clock: the table's clock at `to`. shared: what the batch holds, see `Shared`. decided: whether there is an
    intervention in these ticks.
    """
    table = opened.table
    if is_final(table):
        return _final(opened, after, to, clock, shared)
    if decided:
        # What others wrote into the visible table is corrected as well; the state does not know of it.
        past = Past(opened)
        return past.changes_between(opened.lake.read(opened.visible.path), past.visible(Cut(to)))
    place = opened.state
    versions = [c.version for c in opened.lake.commits(place, after) if after < c.tick <= to]
    reader = opened.spark.read.format("delta").option("readChangeFeed", "true")
    feed = reader.option("startingVersion", versions[0]).option("endingVersion", versions[-1]).load(place.path)
    kept = feed.where(F.col("_change_type") != "update_preimage")
    names = [field.name for field in tables.schema(opened.spark, table) if field.name not in table.key]
    seen = (F.col("_change_type") != "delete") & is_visible(table)
    row = F.struct(*[F.col(f"`{name}`") for name in names], (~seen).alias("_tombstone"))
    last = kept.groupBy(*table.key).agg(F.max_by(row, "_commit_version").alias("_last"))
    return last.select(*table.key, "_last.*")


def _final(opened: OpenTable, after: int, to: int, clock: ClockState | None, shared: Shared | None) -> DataFrame:
    table = opened.table
    changes = changefeed.per_event(opened, after, to, shared=shared)
    rows = changes.withColumn("_event_time", F.timestamp_millis("_event_time_ms")).drop("_event_time_ms")
    left = expired(table, clock.watermark if clock is not None else None)
    if left is None:
        return rows
    rows = rows.withColumn("_tombstone", F.col("_tombstone") | left)
    gone = opened.lake.read(opened.visible.path).where(left)
    return rows.unionByName(gone.select(*table.key, F.lit(True).alias("_tombstone")), allowMissingColumns=True)
