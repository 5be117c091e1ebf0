"""Late records, kept where they can be looked up: one row for each record and window that did not take it (rule 19).

tick, topic, partition, offset, ordinals  the record; bronze has its bytes
key                                       the group's (or the key's) columns, as JSON text, times to the microsecond
window_start, window_end                  the window; null for a record that `order_by` could not place, or of a join
join_name                                 the join of streams that it came too late for, whose key is the key here; null
                                          if it was too late for the table itself

Each table that reads a join, not through another table, keeps the records that came too late for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.earlier import check_late
from lakehouse.lake.keys import without_window
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.commits import before_swap
from lakehouse.lake.place import late_of
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.schema import ORDINALS_TYPE
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.semantics.epoch import Progress
from lakehouse.semantics.moment import time_ms
from lakehouse.spark.key_column import is_key
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.transaction import append, log_of, new_table

SCHEMA = (
    f"tick bigint, topic string, partition int, offset bigint, ordinals {ORDINALS_TYPE}, key string, "
    "window_start timestamp, window_end timestamp, join_name string"
)
TIMES = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
PLACE = ("tick", "topic", "partition", "offset", "ordinals")


def chosen(opened: OpenTable, key: str | None, start: datetime | None, end: datetime | None) -> DataFrame:
    """Return a table's late records: of one key, by its text, and of windows that begin in [start, end).

    A time without a zone is UTC.
    """
    table = opened.table
    rows = opened.lake.read(opened.late)
    check_late(rows.columns, table.name)
    if key is not None:
        names = without_window(table.key)
        kinds = opened.lake.read(opened.visible.path).select(*names).schema
        of = rows.withColumn("_of", F.from_json("key", kinds))
        rows = of.where(is_key(kinds, names, key, inside="_of.")).drop("_of")
    if start is not None:
        rows = rows.where(F.unix_millis("window_start") >= time_ms(start))
    return rows if end is None else rows.where(F.unix_millis("window_start") < time_ms(end))


def create(opened: OpenTable) -> None:
    """Create a table's late table if it does not exist yet."""
    path = opened.late
    if not opened.lake.exists(path):
        new_table(opened.spark, path, SCHEMA).execute()
    check_late(opened.lake.read(path).columns, opened.name)


def write(
    opened: OpenTable, rows: DataFrame | None, joins: Mapping[StreamJoin, DataFrame], epoch: int, to: int
) -> None:
    """Append late records, with ticks up to `to`, that are not written yet, under an epoch that the writer has opened.

    rows: the key columns, window_start and window_end if there is a window, `_position`. joins: those that came too
    late for joins, see `RowCounter.held`. Written before the table takes the tick in, so a table that has a tick never
    lacks its late records.
    """
    table = opened.table
    place = late_of(opened.layout, table.name)
    done = opened.lake.progress(place)
    if done.tick >= to:
        return
    names = without_window(table.key)
    parts = [] if rows is None else [_rows(rows, "_position", [F.col(f"`{name}`") for name in names], table.windows)]
    for join, of in joins.items():
        key = [F.col(f"_key_{number}").alias(name) for number, name in enumerate(join.left.key)]
        parts.append(_rows(of, "_place.place", key, (), join.name))
    found = reduce(DataFrame.unionByName, parts).where(F.col("tick") > done.tick)
    append(found.coalesce(1), place, Progress(epoch, to), {"from_tick": done.tick})


def _rows(
    rows: DataFrame, position: str, key: Sequence[Column], windows: Sequence[str], join: str | None = None
) -> DataFrame:
    """Late records in the form of the late table."""
    bounds = [F.col(n) if n in windows else F.lit(None).cast("timestamp") for n in WINDOW_COLUMNS]
    return rows.select(
        *[F.col(f"{position}.{name}") for name in PLACE],
        F.to_json(F.struct(*key), {"timestampFormat": TIMES}).alias("key"),
        *[column.alias(name) for column, name in zip(bounds, WINDOW_COLUMNS, strict=True)],
        F.lit(join).cast("string").alias("join_name"),
    )


def swap(opened: OpenTable, built: Layout, epoch: int, at: int) -> None:
    """Replace a table's late records with those of a table that was built elsewhere, by a swap at tick `at`.

    In one commit, before the table's, under an epoch that the writer has opened; a repetition after a crash is skipped.
    """
    place, made = late_of(opened.layout, opened.name), built.late(opened.name)
    if opened.lake.progress(place).tick < at:
        comes = opened.lake.exists(made)
        rows = opened.lake.read(made if comes else place.path)
        rows = (rows if comes else rows.limit(0)).coalesce(1)
        said = {"from_tick": at - 1, "operation": "swap"}
        append(rows, place, Progress(epoch, at), said, instead=True)


def rows_at(opened: OpenTable, tick: int, swaps: Iterable[int]) -> DataFrame | None:
    """Return a table's late records as they were at a tick; None without any.

    swaps: the ticks at which a table was swapped in: one that the table has not reached yet may have left its records.
    """
    place = late_of(opened.layout, opened.name)
    if not opened.lake.exists(place.path):
        return None
    version = None
    if any(at > tick for at in swaps):
        version = before_swap(log_of(opened.spark, place.path), place.name, tick)
    rows = opened.lake.read(place.path, version)
    check_late(rows.columns, opened.name)
    return rows.where(F.col("tick") <= tick)
