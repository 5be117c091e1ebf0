"""The rows of tables on Spark, change by change: of one table, and of two joined by their keys.

The rules are those of `lakehouse.model.rows`. A change comes as two records: one takes out the row before, the other
puts in the row after. On the way, a table is a frame of *moments*: its rows before the first tick, and its changes:

    the key's columns
    _at      the position, with the number of the change; null for a row from before the first tick
    _row     struct(there, values, time): whether the row is there then, its values, its event time in milliseconds
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.schema import POSITION_TYPE
from lakehouse.plan.table import Table
from lakehouse.spark.stream.joined import PLACE, Tables
from lakehouse.spark.stream.step import UNDO, position


def rows_of(origin: RowsOf, tables: Tables) -> DataFrame:
    """Return a table's rows as records, in the form of a stream's frame with `_undo`."""
    table = origin.table
    frame, values = with_before(table, tables.held(changes(table, tables)), tables), table.values
    sides = [
        half(there(F.col(row)), [F.col(f"{row}.values.`{name}`").alias(name) for name in values], F.col("_row.time"))
        for row in ("_was", "_row")
    ]
    return as_records(table.key, values, halves(table.key, frame, *sides))


def joined_by_key(join: RowsJoin, tables: Tables) -> DataFrame:
    """Return the rows of two tables that are joined by their keys, as records."""
    key, sides = join.left.key, (join.left, join.right)
    changed = [tables.held(renamed(changes(table, tables, side), table.key, key)) for side, table in enumerate(sides)]
    keys = changed[0].select(*key).unionByName(changed[1].select(*key))
    frames = []
    for name, table, frame in zip(("_left", "_right"), sides, changed, strict=True):
        before = rows_before(table, tables, renamed(keys, key, table.key))
        parts = [frame] if before is None else [frame, renamed(before, table.key, key)]
        frames += [part.withColumnRenamed("_row", name) for part in parts]
    both = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    now, was = in_order(key, 0), in_order(key, -1)
    found = {
        f"{side}{when}": F.last(side, ignorenulls=True).over(order)
        for side in ("_left", "_right")
        for when, order in (("_now", now), ("_was", was))
    }
    frame = both.withColumns(found).where(F.col("_at").isNotNull())
    is_left = F.col("_left").isNotNull()
    time = F.greatest(
        F.coalesce(F.col("_left.time"), F.col("_right.time")),
        F.when(is_left & there(F.col("_right_now")), F.col("_right_now.time")),
        F.when(~is_left & there(F.col("_left_now")), F.col("_left_now.time")),
    )
    both_halves = [
        joined_half(join, (F.col(f"_left{when}"), F.col(f"_right{when}")), time) for when in ("_was", "_now")
    ]
    return as_records(key, joined_values(join), halves(key, frame, *both_halves))


def changes(table: Table, tables: Tables, side: int | None = None) -> DataFrame:
    """Return the moments of a table's changes. side: its number in a join, which comes first in the ordinals."""
    front = [] if side is None else [F.lit(side)]
    at = position(F.col("_position"), front=front, back=[F.col("_number")])
    return _moments(table, tables.changes(table), at, ~F.col("_tombstone"), F.col("_event_time_ms"))


def rows_before(table: Table, tables: Tables, keys: DataFrame | None) -> DataFrame | None:
    """Return the moments of a table's rows before the first tick, of these keys or all; None if there are none."""
    rows = tables.rows(table, keys)
    if rows is None:
        return None
    return _moments(table, rows, F.lit(None).cast(POSITION_TYPE), F.lit(True), F.unix_millis("_event_time"))


def _moments(table: Table, rows: DataFrame, at: Column, is_there: Column, time: Column) -> DataFrame:
    values = F.struct(*[F.col(f"`{name}`") for name in table.values])
    row = F.struct(is_there.alias("there"), values.alias("values"), time.alias("time"))
    return rows.select(*[F.col(f"`{name}`") for name in table.key], at.alias("_at"), row.alias("_row"))


def with_before(table: Table, changed: DataFrame, tables: Tables) -> DataFrame:
    """Return moments of a table's changes with `_was`, the row before each of them."""
    before = rows_before(table, tables, changed.select(*table.key))
    both = changed if before is None else changed.unionByName(before)
    order = Window.partitionBy(*table.key).orderBy(F.col("_at").asc_nulls_first())
    return both.withColumn("_was", F.lag("_row").over(order)).where(F.col("_at").isNotNull())


def there(row: Column) -> Column:
    """Return whether a moment's row is there."""
    return F.coalesce(row["there"], F.lit(False))


def half(exists: Column, values: Sequence[Column], time: Column) -> Column:
    """Return one half of a change: null if there is no row."""
    return F.when(exists, F.struct(F.struct(*values).alias("values"), time.alias("time")))


def joined_values(join: RowsJoin | ForeignKeyJoin) -> list[str]:
    """Return the names of the value columns of two joined tables."""
    indicator = [join.indicator] if join.indicator else []
    return [*join.left.values, *[join.prefix + name for name in join.right.values], *indicator]


def joined_half(join: RowsJoin | ForeignKeyJoin, rows: tuple[Column, Column], time: Column) -> Column:
    """Return one half of a joined row's change, from the rows of both sides then. See `is_joined` in `semantics`."""
    left, right = map(there, rows)
    exists = {"inner": left & right, "left": left, "right": right, "outer": left | right}[join.how]
    sides = zip((join.left, join.right), rows, (left, right), ("", join.prefix), strict=True)
    values = [
        F.when(is_there, row["values"][name]).alias(prefix + name)
        for table, row, is_there, prefix in sides
        for name in table.values
    ]
    if join.indicator:
        values.append(F.when(~left, "right").when(~right, "left").otherwise("both").alias(join.indicator))
    return half(exists, values, time)


def halves(key: Sequence[str], frame: DataFrame, out: Column, into: Column) -> DataFrame:
    """Return the halves of changes: key, `_at`, `_half`, `_undo`. out, into: see `half`."""
    both = [F.struct(F.lit(undo).alias("undo"), of.alias("half")) for undo, of in ((True, out), (False, into))]
    names = [F.col(f"`{name}`") for name in key]
    frame = frame.select(*names, "_at", F.explode(F.array(*both)).alias("_h")).where(F.col("_h.half").isNotNull())
    return frame.select(*names, "_at", F.col("_h.half").alias("_half"), F.col("_h.undo").alias(UNDO))


def as_records(key: Sequence[str], values: Sequence[str], made: DataFrame) -> DataFrame:
    """Return halves of changes in the form of a stream's frame."""
    number = F.when(F.col(UNDO), F.lit(0)).otherwise(F.lit(1))
    return made.select(
        *[F.col(f"`{name}`") for name in key], *[F.col(f"_half.values.`{name}`") for name in values],
        F.lit(False).alias("_tombstone"), F.lit(False).alias("_null_key"),
        position(F.col("_at"), back=[number]).alias("_position"), F.lit("").alias("_topic_id"),
        F.col("_half.time").alias("rowtime"), F.col("_at.partition").alias("rowpartition"),
        F.col("_at.offset").alias("rowoffset"), UNDO,
    )  # fmt: skip


def seen(table: Table, records: DataFrame, out: Column) -> DataFrame:
    """Return the records that are changes of a table: what one takes out and the next puts in again is one change.

    out: whether a record takes a row out.
    """
    order = Window.partitionBy(*table.key).orderBy("_position")
    same = _change(F.lead("_position").over(order)) == _change(F.col("_position"))
    records = records.withColumn("_replaced", out & F.coalesce(same, F.lit(False)))
    return records.where(~F.col("_replaced")).drop("_replaced")


def _change(at: Column) -> Column:
    """What the two halves of a change have in common."""
    ordinals = at["ordinals"]
    return F.struct(*[at[name] for name in PLACE], F.slice(ordinals, 1, F.size(ordinals) - 1))


def in_order(key: Sequence[str], last: int) -> WindowSpec:
    """Return the moments of each key in their order, up to one: 0 is the present one, -1 the one before."""
    order = Window.partitionBy(*key).orderBy(F.col("_at").asc_nulls_first())
    return order.rowsBetween(Window.unboundedPreceding, last)


def renamed(frame: DataFrame, names: Sequence[str], to: Sequence[str]) -> DataFrame:
    """Return a frame with other names for its key's columns."""
    new = dict(zip(names, to, strict=True))
    return frame.select(*[F.col(f"`{name}`").alias(new.get(name, name)) for name in frame.columns])
