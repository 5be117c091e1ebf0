"""The visible rows of a table that keeps more: derived from its state, commit by commit.

The writer commits the state first. The visible table follows, from its own last tick to the state's: a crash in between
leaves it behind, never ahead, and the next writer brings it up to date.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.time.clock import ClockState
from lakehouse.spark.changelog import changefeed
from lakehouse.spark.fold.fold_choice import choose_fold
from lakehouse.spark.fold.visibility import is_expired, is_final, is_visible
from lakehouse.spark.history.moments import Past
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import tables


def visible_changes(
    open_table: OpenTable, after_tick: int, to_tick: int, clock: ClockState | None, *, has_intervention: bool = False
) -> DataFrame:
    """Return the visible rows that changed in the ticks (after_tick, to_tick]: the new row, or `_tombstone`.

    clock: the table's clock at `to_tick`. has_intervention: whether there is an intervention in these ticks.
    """
    table = open_table.table
    if is_final(table):
        return _final_changes(open_table, after_tick, to_tick, clock)
    table_place = open_table.state
    commits = open_table.lake.commits(table_place, after_tick)
    if has_intervention or commits[0].tick > after_tick:
        # This also corrects what others wrote into the visible table, and not into the state. And after a long pause
        # the state's log may begin later.
        table_past = Past(open_table)
        return table_past.changes_between(
            open_table.lake.read(open_table.visible.path), table_past.visible_rows(Cut(to_tick))
        )
    versions = [commit.version for commit in commits if after_tick < commit.tick <= to_tick]
    feed_reader = open_table.spark.read.format("delta").option("readChangeFeed", "true")
    feed = (
        feed_reader.option("startingVersion", versions[0]).option("endingVersion", versions[-1]).load(table_place.path)
    )
    kept_rows = feed.where(F.col("_change_type") != "update_preimage")
    column_names = [
        field.name for field in tables.visible_schema(open_table.spark, table) if field.name not in table.key
    ]
    is_shown = (F.col("_change_type") != "delete") & is_visible(choose_fold(table))
    row_struct = F.struct(*[F.col(f"`{name}`") for name in column_names], (~is_shown).alias("_tombstone"))
    last_rows = kept_rows.groupBy(*table.key).agg(F.max_by(row_struct, "_commit_version").alias("_last"))
    return last_rows.select(*table.key, "_last.*")


def _final_changes(open_table: OpenTable, after_tick: int, to_tick: int, clock: ClockState | None) -> DataFrame:
    table = open_table.table
    changes = changefeed.per_event(open_table, after_tick, to_tick)
    rows = changes.withColumn("_event_time", F.timestamp_millis("_event_time_ms")).drop("_event_time_ms")
    has_expired = is_expired(table, clock.watermark if clock is not None else None)
    if has_expired is None:
        return rows
    rows = rows.withColumn("_tombstone", F.col("_tombstone") | has_expired)
    expired_rows = open_table.lake.read(open_table.visible.path).where(has_expired)
    return rows.unionByName(expired_rows.select(*table.key, F.lit(True).alias("_tombstone")), allowMissingColumns=True)
