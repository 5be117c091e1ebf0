"""A table's net changes per commit: Delta's change data feed."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.lake.earlier import check_rows
from lakehouse.plan.table import Table
from lakehouse.spark.changelog.changefeed import CHANGE_COLUMNS
from lakehouse.spark.functions import literal_map
from lakehouse.spark.open_lake import OpenTable


def net_changes(opened: OpenTable, after: int, to: int, *, ticks: bool = False) -> DataFrame:
    """Return the net changes of the commits in (after, to], from Delta's change data feed, in commit order.

    ticks: with `_tick`, the tick that a change's commit reached; null for a commit by others. Raises NotFound if Delta
    no longer has the changes.
    """
    table = opened.table
    path = opened.visible.path
    known = opened.lake.commits(opened.visible, after)
    gone = NotFound(
        f"table {table.name!r}: Delta no longer has the net changes after tick {after} (see keep_versions in "
        "docs/upkeep.md). The changes per event are derived from bronze: leave net out."
    )
    if known and known[0].tick > after:
        raise gone  # the log begins later
    check_rows(opened.lake.read(path).select("_position.*").columns, table.name)
    versions = {c.version: c.tick for c in known if after < c.tick <= to}
    if not versions:
        return net_frame(opened.lake.read(path).limit(0).withColumns(
            {"_change_type": F.lit(""), "_commit_version": F.lit(0).cast("bigint")}
        ), table)  # fmt: skip
    reader = opened.spark.read.format("delta").option("readChangeFeed", "true")
    try:
        opened.lake.read(path, min(versions))  # fails now, not when the rows are read
    except AnalysisException as error:
        raise gone from error
    feed = reader.option("startingVersion", min(versions)).option("endingVersion", max(versions)).load(path)
    if not ticks:
        return net_frame(feed, table)
    of = literal_map({str(version): tick for version, tick in versions.items()}, "bigint")
    return net_frame(feed.withColumn("_tick", F.element_at(of, F.col("_commit_version").cast("string"))), table)


def net_frame(feed: DataFrame, table: Table) -> DataFrame:
    """Convert Delta's change rows to the form of `per_event`."""
    changes = feed.where(F.col("_change_type") != "update_preimage")
    changes = changes.withColumns(
        {"_tombstone": F.col("_change_type") == "delete", "_event_time_ms": F.unix_millis("_event_time")}
    )
    names = [name for name in feed.columns if not name.startswith("_") or name.startswith(("_acc_", "_tick"))]
    return changes.orderBy("_commit_version", "_position", *table.key).select(*names, *CHANGE_COLUMNS)
