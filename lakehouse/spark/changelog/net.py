"""A table's net changes per commit: Delta's change data feed."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.plan.table import Table
from lakehouse.spark.changelog.changefeed import CHANGE_COLUMNS
from lakehouse.spark.expression.arrow_functions import literal_map
from lakehouse.spark.open_lake import OpenTable


def net_changes(open_table: OpenTable, after_tick: int, to_tick: int, *, ticks: bool = False) -> DataFrame:
    """Return the net changes of the commits in (after_tick, to_tick], by Delta's change data feed, in commit order.

    ticks: add `_tick`, the tick that a change's commit reached; null for a commit by others. Raises NotFound if Delta
    no longer has the changes.
    """
    table = open_table.table
    table_path = open_table.visible.path
    commits = open_table.lake.commits(open_table.visible, after_tick)
    gone_error = NotFound(
        f"table {table.name!r}: Delta no longer has the net changes after tick {after_tick} (see keep_versions in "
        "docs/upkeep.md). The changes per event are derived from bronze: leave net out."
    )
    if commits and commits[0].tick > after_tick:
        raise gone_error  # the log begins later
    version_ticks = {commit.version: commit.tick for commit in commits if after_tick < commit.tick <= to_tick}
    if not version_ticks:
        return net_frame(
            open_table.lake.read(table_path)
            .limit(0)
            .withColumns({"_change_type": F.lit(""), "_commit_version": F.lit(0).cast("bigint")}),
            table,
        )
    feed_reader = open_table.spark.read.format("delta").option("readChangeFeed", "true")
    try:
        open_table.lake.read(table_path, min(version_ticks))  # fails now, not when the rows are read
    except AnalysisException as error:
        raise gone_error from error
    feed = (
        feed_reader.option("startingVersion", min(version_ticks))
        .option("endingVersion", max(version_ticks))
        .load(table_path)
    )
    if not ticks:
        return net_frame(feed, table)
    tick_map = literal_map({str(version): tick for version, tick in version_ticks.items()}, "bigint")
    return net_frame(feed.withColumn("_tick", F.element_at(tick_map, F.col("_commit_version").cast("string"))), table)


def net_frame(feed: DataFrame, table: Table) -> DataFrame:
    """Convert Delta's change rows to the form of `per_event`."""
    changes = feed.where(F.col("_change_type") != "update_preimage")
    changes = changes.withColumns(
        {"_tombstone": F.col("_change_type") == "delete", "_event_time_ms": F.unix_millis("_event_time")}
    )
    column_names = [name for name in feed.columns if not name.startswith("_") or name.startswith(("_acc_", "_tick"))]
    return changes.orderBy("_commit_version", "_position", *table.key).select(*column_names, *CHANGE_COLUMNS)
