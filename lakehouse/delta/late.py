"""What came too late, kept where it can be looked up: one row a record and window that did not take it (rule 19).

tick, topic, partition, offset, ordinal   the record; bronze has its bytes
key                                       the group's (or the key's) columns, as JSON text
window_start, window_end                  the window; null for a record that `order_by` could not place
"""

from __future__ import annotations

from datetime import datetime

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.delta.layout import Layout
from lakehouse.delta.transaction import append, read_progress
from lakehouse.plan.table import WINDOW_COLUMNS, Table
from lakehouse.semantics.epoch import Progress

SCHEMA = (
    "tick bigint, topic string, partition int, offset bigint, ordinal bigint, key string, window_start timestamp, "
    "window_end timestamp"
)
PLACE = ("tick", "topic", "partition", "offset", "ordinal")


def name_of(table: str) -> str:
    """Return the name under which a late table's progress stands in its log."""
    return f"late.{table}"


def chosen(
    spark: SparkSession, layout: Layout, table: Table, key: str | None, start: datetime | None, end: datetime | None
) -> DataFrame:
    """Return a table's late records: of one key, by its text, and of windows that begin in [start, end)."""
    rows = spark.read.format("delta").load(layout.late(table.name))
    if key is not None:
        names = [item.name for item in table.group_by] if table.window is not None else table.key
        text = F.concat_ws(",", *[F.get_json_object("key", f"$['{name}']") for name in names])
        rows = rows.where(text == key)
    if start is not None:
        rows = rows.where(F.col("window_start") >= F.lit(start))
    return rows if end is None else rows.where(F.col("window_start") < F.lit(end))


def write(spark: SparkSession, layout: Layout, table: Table, rows: DataFrame, to: int) -> None:
    """Append late records, with ticks up to `to`, that are not written yet.

    rows: the key columns, window_start and window_end where there is a window, `_position`. Written before the table
    takes the tick in, so a table that has a tick never lacks its late records.
    """
    path = layout.late(table.name)
    if not DeltaTable.isDeltaTable(spark, path):
        columns = spark.createDataFrame([], SCHEMA).schema
        DeltaTable.createIfNotExists(spark).location(path).addColumns(columns).execute()
    done = read_progress(spark, path, name_of(table.name))
    if done.tick >= to:
        return
    names = [item.name for item in table.group_by] if table.window is not None else table.key
    windows = [F.col(n) if table.window is not None else F.lit(None).cast("timestamp") for n in WINDOW_COLUMNS]
    found = rows.where(F.col("_position.tick") > done.tick).select(
        *[F.col(f"_position.{name}") for name in PLACE], F.to_json(F.struct(*names)).alias("key"),
        *[column.alias(name) for column, name in zip(windows, WINDOW_COLUMNS, strict=True)],
    )  # fmt: skip
    append(found.coalesce(1), path, name_of(table.name), Progress(0, to), {"from_tick": done.tick})
