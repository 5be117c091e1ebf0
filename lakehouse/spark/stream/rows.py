"""The rows of tables on Spark, change by change: of one table, and of two tables joined by their keys.

The rules are those of `lakehouse.model.rows`. A change comes as two records: the first takes out the row before, the
second puts in the row after. On the way, a table is a frame of *moments*: its rows before the first tick, and its
changes:

    the key's columns
    _at      the position, with the number of the change; null for a row from before the first tick
    _row     struct(there, values, time): whether the row exists then, its values, its event time in milliseconds
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from lakehouse.plan.expression.schema import POSITION_TYPE
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.table import Table
from lakehouse.spark.stream.step import UNDO, extended_position
from lakehouse.spark.stream.table_join import PLACE, UpstreamTables


def read_rows_as_records(origin: RowsOf, tables: UpstreamTables) -> DataFrame:
    """Return a table's rows as records, in the form of a stream's frame with `_undo`."""
    table = origin.table
    frame, value_names = with_row_before(table, tables.hold(read_changes(table, tables)), tables), table.values
    row_halves = [
        half_change(
            row_exists(F.col(row_name)),
            [F.col(f"{row_name}.values.`{name}`").alias(name) for name in value_names],
            F.col("_row.time"),
        )
        for row_name in ("_was", "_row")
    ]
    return halves_as_records(table.key, value_names, explode_halves(table.key, frame, *row_halves))


def join_by_key(join: RowsJoin, tables: UpstreamTables) -> DataFrame:
    """Return the rows of two tables that are joined by their keys, as records."""
    key, sides = join.left.key, (join.left, join.right)
    changed_rows = [
        tables.hold(rename_frame(read_changes(table, tables, side), table.key, key)) for side, table in enumerate(sides)
    ]
    changed_keys = changed_rows[0].select(*key).unionByName(changed_rows[1].select(*key))
    moment_frames = []
    for name, table, frame in zip(("_left", "_right"), sides, changed_rows, strict=True):
        earlier_rows = read_rows_before(table, tables, rename_frame(changed_keys, key, table.key))
        table_frames = [frame] if earlier_rows is None else [frame, rename_frame(earlier_rows, table.key, key)]
        moment_frames += [part.withColumnRenamed("_row", name) for part in table_frames]
    moments = reduce(lambda first, second: first.unionByName(second, allowMissingColumns=True), moment_frames)
    up_to_now, up_to_before = moments_in_order(key, 0), moments_in_order(key, -1)
    side_columns = {
        f"{side}{suffix}": F.last(side, ignorenulls=True).over(window_spec)
        for side in ("_left", "_right")
        for suffix, window_spec in (("_now", up_to_now), ("_was", up_to_before))
    }
    frame = moments.withColumns(side_columns).where(F.col("_at").isNotNull())
    is_left = F.col("_left").isNotNull()
    time = F.greatest(
        F.coalesce(F.col("_left.time"), F.col("_right.time")),
        F.when(is_left & row_exists(F.col("_right_now")), F.col("_right_now.time")),
        F.when(~is_left & row_exists(F.col("_left_now")), F.col("_left_now.time")),
    )
    both_halves = [
        joined_half_change(join, (F.col(f"_left{suffix}"), F.col(f"_right{suffix}")), time)
        for suffix in ("_was", "_now")
    ]
    return halves_as_records(key, joined_value_names(join), explode_halves(key, frame, *both_halves))


def read_changes(table: Table, tables: UpstreamTables, side: int | None = None) -> DataFrame:
    """Return the moments of a table's changes. side: the table's number in a join, which leads the ordinals."""
    front_ordinals = [] if side is None else [F.lit(side)]
    change_position = extended_position(F.col("_position"), front=front_ordinals, back=[F.col("_number")])
    return _to_moments(table, tables.changes(table), change_position, ~F.col("_tombstone"), F.col("_event_time_ms"))


def read_rows_before(table: Table, tables: UpstreamTables, keys: DataFrame | None) -> DataFrame | None:
    """Return the moments of a table's rows before the first tick, of these keys or all; None if there are none."""
    rows = tables.rows(table, keys)
    if rows is None:
        return None
    return _to_moments(table, rows, F.lit(None).cast(POSITION_TYPE), F.lit(True), F.unix_millis("_event_time"))


def _to_moments(table: Table, rows: DataFrame, row_position: Column, is_there: Column, event_time: Column) -> DataFrame:
    value_struct = F.struct(*[F.col(f"`{name}`") for name in table.values])
    row_struct = F.struct(is_there.alias("there"), value_struct.alias("values"), event_time.alias("time"))
    return rows.select(*[F.col(f"`{name}`") for name in table.key], row_position.alias("_at"), row_struct.alias("_row"))


def with_row_before(table: Table, changed_rows: DataFrame, tables: UpstreamTables) -> DataFrame:
    """Return moments of a table's changes with `_was`, the row before each of them."""
    earlier_rows = read_rows_before(table, tables, changed_rows.select(*table.key))
    moments = changed_rows if earlier_rows is None else changed_rows.unionByName(earlier_rows)
    key_order = Window.partitionBy(*table.key).orderBy(F.col("_at").asc_nulls_first())
    return moments.withColumn("_was", F.lag("_row").over(key_order)).where(F.col("_at").isNotNull())


def row_exists(row: Column) -> Column:
    """Return whether a moment's row exists."""
    return F.coalesce(row["there"], F.lit(False))


def half_change(exists: Column, values: Sequence[Column], event_time: Column) -> Column:
    """Return one half of a change: null if there is no row."""
    return F.when(exists, F.struct(F.struct(*values).alias("values"), event_time.alias("time")))


def joined_value_names(join: RowsJoin | ForeignKeyJoin) -> list[str]:
    """Return the names of the value columns of two joined tables."""
    indicator_names = [join.indicator] if join.indicator else []
    return [*join.left.values, *[join.prefix + name for name in join.right.values], *indicator_names]


def joined_half_change(join: RowsJoin | ForeignKeyJoin, rows: tuple[Column, Column], event_time: Column) -> Column:
    """Return one half of a joined row's change, from the rows of both sides at that moment: see `is_joined`."""
    has_left, has_right = map(row_exists, rows)
    is_joined = {"inner": has_left & has_right, "left": has_left, "right": has_right, "outer": has_left | has_right}[
        join.join_type
    ]
    sides = zip((join.left, join.right), rows, (has_left, has_right), ("", join.prefix), strict=True)
    value_columns = [
        F.when(is_there, row["values"][name]).alias(prefix + name)
        for table, row, is_there, prefix in sides
        for name in table.values
    ]
    if join.indicator:
        value_columns.append(
            F.when(~has_left, "right").when(~has_right, "left").otherwise("both").alias(join.indicator)
        )
    return half_change(is_joined, value_columns, event_time)


def explode_halves(key: Sequence[str], frame: DataFrame, taken_out: Column, put_in: Column) -> DataFrame:
    """Return the halves of changes: key, `_at`, `_half`, `_undo`. taken_out, put_in: see `half_change`."""
    change_halves = [
        F.struct(F.lit(undo).alias("undo"), half_column.alias("half"))
        for undo, half_column in ((True, taken_out), (False, put_in))
    ]
    key_columns = [F.col(f"`{name}`") for name in key]
    frame = frame.select(*key_columns, "_at", F.explode(F.array(*change_halves)).alias("_h")).where(
        F.col("_h.half").isNotNull()
    )
    return frame.select(*key_columns, "_at", F.col("_h.half").alias("_half"), F.col("_h.undo").alias(UNDO))


def halves_as_records(key: Sequence[str], values: Sequence[str], change_halves: DataFrame) -> DataFrame:
    """Return halves of changes in the form of a stream's frame."""
    half_number = F.when(F.col(UNDO), F.lit(0)).otherwise(F.lit(1))
    return change_halves.select(
        *[F.col(f"`{name}`") for name in key], *[F.col(f"_half.values.`{name}`") for name in values],
        F.lit(False).alias("_tombstone"), F.lit(False).alias("_null_key"),
        extended_position(F.col("_at"), back=[half_number]).alias("_position"), F.lit("").alias("_topic_id"),
        F.col("_half.time").alias("rowtime"), F.col("_at.partition").alias("rowpartition"),
        F.col("_at.offset").alias("rowoffset"), UNDO,
    )  # fmt: skip


def drop_replaced_halves(table: Table, records: DataFrame, is_out: Column) -> DataFrame:
    """Return the records without those that take out a row which the next record puts in again: that is one change.

    is_out: whether a record takes a row out.
    """
    key_order = Window.partitionBy(*table.key).orderBy("_position")
    is_replaced = _change_key(F.lead("_position").over(key_order)) == _change_key(F.col("_position"))
    records = records.withColumn("_replaced", is_out & F.coalesce(is_replaced, F.lit(False)))
    return records.where(~F.col("_replaced")).drop("_replaced")


def _change_key(row_position: Column) -> Column:
    """Return the part of a position that the two halves of a change have in common."""
    ordinals = row_position["ordinals"]
    return F.struct(*[row_position[name] for name in PLACE], F.slice(ordinals, 1, F.size(ordinals) - 1))


def moments_in_order(key: Sequence[str], last_row: int) -> WindowSpec:
    """Return a window over the moments of each key in order, up to `last_row`: 0 is the present moment, -1 the last."""
    key_order = Window.partitionBy(*key).orderBy(F.col("_at").asc_nulls_first())
    return key_order.rowsBetween(Window.unboundedPreceding, last_row)


def rename_frame(frame: DataFrame, names: Sequence[str], new_names: Sequence[str]) -> DataFrame:
    """Return a frame with new names for these columns."""
    new_by_old = dict(zip(names, new_names, strict=True))
    return frame.select(*[F.col(f"`{name}`").alias(new_by_old.get(name, name)) for name in frame.columns])
