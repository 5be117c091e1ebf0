"""Joins a table with another by a foreign key, on Spark. The rules are those of `lakehouse.model.rows`.

    left changes     each half looks up the right row that it refers to: a window over the right key
    right changes    each is joined with the *versions* of left rows that refer to it then: a version is a left row from
                     one of its changes to the next

So a batch reads the left rows that refer to changed right rows, and the right rows to which left rows refer.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.stream.rows import (
    explode_halves,
    halves_as_records,
    join_by_key,
    joined_half_change,
    joined_value_names,
    moments_in_order,
    read_changes,
    read_rows_as_records,
    read_rows_before,
    rename_frame,
    row_exists,
    with_row_before,
)
from lakehouse.spark.stream.step import UNDO, extended_position
from lakehouse.spark.stream.table_join import UpstreamTables


def rows_as_records(origin: RowsOf | RowsJoin | ForeignKeyJoin, tables: UpstreamTables) -> DataFrame:
    """Return the rows of a table, or of joined tables, as records: in the form of a stream's frame with `_undo`."""
    match origin:
        case RowsOf():
            return read_rows_as_records(origin, tables)
        case RowsJoin():
            return join_by_key(origin, tables)
    return join_by_reference(origin, tables)


def join_by_reference(join: ForeignKeyJoin, tables: UpstreamTables) -> DataFrame:
    """Return the rows of a table, each with the row that it refers to, as records."""
    reference_join = _ReferenceJoin(join, tables)
    return halves_as_records(
        join.left.key,
        joined_value_names(join),
        reference_join.halves_of_left_changes().unionByName(reference_join.halves_of_right_changes()),
    )


class _ReferenceJoin:
    """The join in one batch. `_on_<n>` are the columns of the right key, on both sides."""

    def __init__(self, join: ForeignKeyJoin, tables: UpstreamTables) -> None:
        self._join, self._tables = join, tables
        self._on_columns = [f"_on_{number}" for number in range(len(join.key_expressions))]
        self._left = tables.hold(with_row_before(join.left, tables.hold(read_changes(join.left, tables, 0)), tables))
        self._right = tables.hold(rename_frame(read_changes(join.right, tables, 1), join.right.key, self._on_columns))

    def halves_of_left_changes(self) -> DataFrame:
        """Return the halves of the changes that changed left rows make in the join."""
        join, key = self._join, self._join.left.key
        change_parts = [
            self._left.select(
                *key, "_at", F.col("_row.time").alias("_time"), F.col(row).alias("_row"), undo.alias(UNDO)
            )
            for row, undo in (("_was", F.lit(True)), ("_row", F.lit(False)))
        ]
        left_changes = self._with_right_key(
            reduce(DataFrame.unionByName, change_parts).where(row_exists(F.col("_row")))
        )
        right_keys = left_changes.select(*self._on_columns).unionByName(self._right.select(*self._on_columns))
        left_struct = F.struct(*[name for name in left_changes.columns if name not in self._on_columns])
        moment_frames = [left_changes.select(*self._on_columns, "_at", left_struct.alias("_left"))]
        moment_frames += [right.withColumnRenamed("_row", "_right") for right in self._right_moments(right_keys)]
        moments = reduce(lambda first, second: first.unionByName(second, allowMissingColumns=True), moment_frames)
        moments = moments.withColumn(
            "_found", F.last("_right", ignorenulls=True).over(moments_in_order(self._on_columns, 0))
        )
        moments = moments.where(F.col("_left").isNotNull())
        # A null equals no key.
        right_row = F.when(~reduce(or_, [F.col(name).isNull() for name in self._on_columns]), F.col("_found"))
        event_time = F.greatest(F.col("_left._time"), F.when(row_exists(right_row), right_row["time"]))
        joined_rows = moments.withColumn(
            "_half", joined_half_change(join, (F.col("_left._row"), right_row), event_time)
        )
        key_columns = [F.col(f"_left.`{name}`").alias(name) for name in key]
        return joined_rows.where(F.col("_half").isNotNull()).select(
            *key_columns, "_at", "_half", F.col(f"_left.{UNDO}").alias(UNDO)
        )

    def halves_of_right_changes(self) -> DataFrame:
        """Return the halves of the changes that changed right rows make: one for each left row that refers to one."""
        join, key = self._join, self._join.left.key
        right_changes = reduce(DataFrame.unionByName, self._right_moments(self._right.select(*self._on_columns)))
        key_order = Window.partitionBy(*self._on_columns).orderBy(F.col("_at").asc_nulls_first())
        right_changes = right_changes.withColumn("_was", F.lag("_row").over(key_order)).where(F.col("_at").isNotNull())
        right_changes = right_changes.select(
            *self._on_columns, F.col("_at").alias("_when"), F.struct("_was", "_row").alias("_right")
        )
        version_changes = right_changes.join(self._versions(), self._on_columns)
        since_position, until_position, change_position = F.col("_at"), F.col("_until"), F.col("_when")
        version_changes = version_changes.where(
            (since_position.isNull() | (since_position < change_position))
            & (until_position.isNull() | (until_position > change_position))
        )
        version_number = F.row_number().over(Window.partitionBy("_when").orderBy(*key)) - 1
        numbered_versions = version_changes.select(
            *key,
            extended_position(change_position, back=[version_number]).alias("_at"),
            F.col("_row").alias("_left"),
            "_right",
        )
        event_time = F.greatest(F.col("_right._row.time"), F.col("_left.time"))
        change_sides = [
            joined_half_change(join, (F.col("_left"), F.col(f"_right.{row}")), event_time) for row in ("_was", "_row")
        ]
        return explode_halves(key, numbered_versions, *change_sides)

    def _right_moments(self, keys: DataFrame) -> list[DataFrame]:
        """Return the moments of the right rows: their changes, and the rows of these keys before the batch."""
        right_key = self._join.right.key
        earlier_rows = read_rows_before(self._join.right, self._tables, rename_frame(keys, self._on_columns, right_key))
        return [
            self._right,
            *([] if earlier_rows is None else [rename_frame(earlier_rows, right_key, self._on_columns)]),
        ]

    def _versions(self) -> DataFrame:
        """Return the versions of left rows that refer to right rows of the batch, each from `_at` to `_until`.

        A null `_at` means from before the first tick; a null `_until`, to after the last.
        """
        join, key = self._join, self._join.left.key
        key_order = Window.partitionBy(*key).orderBy("_at")
        left_changes = self._left.withColumns(
            {"_until": F.lead("_at").over(key_order), "_first": F.row_number().over(key_order)}
        )
        null_position = F.lit(None).cast(dict(left_changes.dtypes)["_at"])
        first_versions = left_changes.where("_first = 1").withColumns(
            {"_until": F.col("_at"), "_row": F.col("_was"), "_at": null_position}
        )
        version_columns = [*key, "_at", "_row", "_until"]
        versions = self._with_right_key(
            left_changes.select(*version_columns)
            .unionByName(first_versions.select(*version_columns))
            .where(row_exists(F.col("_row")))
        )
        earlier_rows = read_rows_before(join.left, self._tables, None)
        if earlier_rows is None:
            return versions
        unchanged_rows = self._with_right_key(earlier_rows.withColumn("_until", null_position))
        unchanged_rows = unchanged_rows.join(
            self._right.select(*self._on_columns).distinct(), self._on_columns, "left_semi"
        ).alias("b")
        same_key = [F.col(f"b.`{name}`").eqNullSafe(F.col(f"m.`{name}`")) for name in key]
        unchanged_rows = unchanged_rows.join(self._left.select(*key).distinct().alias("m"), same_key, "left_anti")
        return versions.unionByName(unchanged_rows)

    def _with_right_key(self, rows: DataFrame) -> DataFrame:
        """Return moments of left rows with the right key to which each refers."""
        value_columns = [F.col(f"_row.values.`{name}`").alias(name) for name in self._join.left.values]
        flat_rows = rows.select("*", *value_columns)
        flat_rows = flat_rows.withColumns(
            dict(zip(self._on_columns, computed_keys(flat_rows, list(self._join.key_expressions)), strict=True))
        )
        return flat_rows.select(*rows.columns, *self._on_columns)
