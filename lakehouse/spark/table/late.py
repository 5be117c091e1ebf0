"""Late records, in a table for look-ups: one row for each record and window that did not take it (rule 19).

tick, topic, partition, offset, ordinals  the record; bronze has its bytes
key                                       the group's (or the key's) columns, as JSON text, times to the microsecond
window_start, window_end                  the window; null for a record that `order_by` could not place, or of a join
join_name                                 the join of streams for which it came too late, whose key is the key here;
                                          null if it was too late for the table itself

Each table that reads a join, not through another table, keeps the records that were too late for the join.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.commit_metadata import LateCommit
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.commits import version_before_swap
from lakehouse.lake.place import late_place
from lakehouse.plan.expression.schema import ORDINALS_TYPE
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.semantics.commit_number import Progress
from lakehouse.semantics.time.named_moment import time_ms
from lakehouse.spark.key_column import is_key
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.transaction import append, commit_log_of, new_table

SCHEMA = (
    f"tick bigint, topic string, partition int, offset bigint, ordinals {ORDINALS_TYPE}, key string, "
    "window_start timestamp, window_end timestamp, join_name string"
)
TIMES = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
PLACE = ("tick", "topic", "partition", "offset", "ordinals")


def select_late(open_table: OpenTable, key: str | None, start: datetime | None, end: datetime | None) -> DataFrame:
    """Return a table's late records: of one key, by its text, and of windows that begin in [start, end).

    A time without a zone is UTC.
    """
    table = open_table.table
    rows = open_table.lake.read(open_table.late)
    if key is not None:
        column_names = table.group
        key_types = open_table.lake.read(open_table.visible.path).select(*column_names).schema
        keyed_rows = rows.withColumn("_of", F.from_json("key", key_types))
        rows = keyed_rows.where(is_key(key_types, column_names, key, prefix="_of.")).drop("_of")
    if start is not None:
        rows = rows.where(F.unix_millis("window_start") >= time_ms(start))
    return rows if end is None else rows.where(F.unix_millis("window_start") < time_ms(end))


def create_late_table(open_table: OpenTable) -> None:
    """Create a table's late table if it does not exist yet."""
    if not open_table.lake.exists(open_table.late):
        new_table(open_table.spark, open_table.late, SCHEMA).execute()


def write_late(
    open_table: OpenTable, rows: DataFrame | None, joins: Mapping[StreamJoin, DataFrame], epoch: int, to_tick: int
) -> None:
    """Append late records, with ticks up to `to_tick`, that are not written yet, under an epoch that the writer opened.

    rows: the key columns, window_start and window_end if there is a window, `_position`. joins: the records too late
    for joins, see `RowCounter.hold_join_records`. Called before the table takes the tick in, so a table that has a tick
    never lacks its late records.
    """
    table = open_table.table
    table_place = late_place(open_table.layout, table.name)
    progress = open_table.lake.progress(table_place)
    if progress.tick >= to_tick:
        return
    column_names = table.group
    late_parts = (
        []
        if rows is None
        else [_late_rows(rows, "_position", [F.col(f"`{name}`") for name in column_names], table.windows)]
    )
    for join, join_rows in joins.items():
        key_columns = [F.col(f"_key_{key_number}").alias(name) for key_number, name in enumerate(join.left.key)]
        late_parts.append(_late_rows(join_rows, "_place.place", key_columns, (), join.name))
    new_rows = reduce(DataFrame.unionByName, late_parts).where(F.col("tick") > progress.tick)
    append(new_rows.coalesce(1), table_place, Progress(epoch, to_tick), LateCommit(from_tick=progress.tick))


def _late_rows(
    rows: DataFrame, position: str, key_columns: Sequence[Column], windows: Sequence[str], join_name: str | None = None
) -> DataFrame:
    """Return late records with the columns of the late table."""
    window_bounds = [F.col(n) if n in windows else F.lit(None).cast("timestamp") for n in WINDOW_COLUMNS]
    return rows.select(
        *[F.col(f"{position}.{name}") for name in PLACE],
        F.to_json(F.struct(*key_columns), {"timestampFormat": TIMES}).alias("key"),
        *[column.alias(name) for column, name in zip(window_bounds, WINDOW_COLUMNS, strict=True)],
        F.lit(join_name).cast("string").alias("join_name"),
    )


def swap_late(open_table: OpenTable, built_layout: Layout, epoch: int, swap_tick: int) -> None:
    """Replace a table's late records with those of a table that was built elsewhere, by a swap at `swap_tick`.

    In one commit, before the table's, under an epoch that the writer has opened; a repetition after a crash is skipped.
    """
    table_place, built_path = late_place(open_table.layout, open_table.name), built_layout.late(open_table.name)
    if open_table.lake.progress(table_place).tick < swap_tick:
        has_built = open_table.lake.exists(built_path)
        rows = open_table.lake.read(built_path if has_built else table_place.path)
        rows = (rows if has_built else rows.limit(0)).coalesce(1)
        content = LateCommit(from_tick=swap_tick - 1, operation="swap")
        append(rows, table_place, Progress(epoch, swap_tick), content, overwrite=True)


def late_rows_at(open_table: OpenTable, tick: int, swaps: Iterable[int]) -> DataFrame | None:
    """Return a table's late records as they were at a tick; None without any.

    swaps: the ticks at which a table is swapped in: a swap that the table has not reached yet may have written already.
    """
    table_place = late_place(open_table.layout, open_table.name)
    if not open_table.lake.exists(table_place.path):
        return None
    version = None
    if any(swap_tick > tick for swap_tick in swaps):
        version = version_before_swap(commit_log_of(open_table.spark, table_place.path), table_place.name, tick)
    return open_table.lake.read(table_place.path, version).where(F.col("tick") <= tick)
