"""A table joined with another one by a foreign key, on Spark. The rules are those of `lakehouse.model.rows`.

    left changes     each half looks up the right row that it refers to: a window over the right key
    right changes    each is joined with the *versions* of left rows that refer to it then: a version is a left row from
                     one of its changes to the next

So a batch reads of the left table what refers to the right rows that change, and of the right one what is referred to.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.stream.joined import Tables
from lakehouse.spark.stream.rows import (
    as_records,
    changes,
    halves,
    in_order,
    joined_by_key,
    joined_half,
    joined_values,
    renamed,
    rows_before,
    rows_of,
    there,
    with_before,
)
from lakehouse.spark.stream.step import UNDO, position


def rows_as_records(origin: RowsOf | RowsJoin | ForeignKeyJoin, tables: Tables) -> DataFrame:
    """Return the rows of tables, or of joined ones, as records: in the form of a stream's frame with `_undo`."""
    match origin:
        case RowsOf():
            return rows_of(origin, tables)
        case RowsJoin():
            return joined_by_key(origin, tables)
    return joined_by_reference(origin, tables)


def joined_by_reference(join: ForeignKeyJoin, tables: Tables) -> DataFrame:
    """Return the rows of a table with the rows that they refer to, as records."""
    made = _Referring(join, tables)
    return as_records(join.left.key, joined_values(join), made.by_left().unionByName(made.by_right()))


class _Referring:
    """A batch of the join. `_on_<n>` are the columns of the right key, on both sides."""

    def __init__(self, join: ForeignKeyJoin, tables: Tables) -> None:
        self._join, self._tables = join, tables
        self._on = [f"_on_{number}" for number in range(len(join.on))]
        self._left = tables.held(with_before(join.left, tables.held(changes(join.left, tables, 0)), tables))
        self._right = tables.held(renamed(changes(join.right, tables, 1), join.right.key, self._on))

    def by_left(self) -> DataFrame:
        """The halves of what changes of left rows change."""
        join, key = self._join, self._join.left.key
        parts = [
            self._left.select(
                *key, "_at", F.col("_row.time").alias("_time"), F.col(row).alias("_row"), undo.alias(UNDO)
            )
            for row, undo in (("_was", F.lit(True)), ("_row", F.lit(False)))
        ]
        changed = self._referring(reduce(DataFrame.unionByName, parts).where(there(F.col("_row"))))
        keys = changed.select(*self._on).unionByName(self._right.select(*self._on))
        rest = F.struct(*[name for name in changed.columns if name not in self._on])
        frames = [changed.select(*self._on, "_at", rest.alias("_left"))]
        frames += [right.withColumnRenamed("_row", "_right") for right in self._rights(keys)]
        both = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        both = both.withColumn("_found", F.last("_right", ignorenulls=True).over(in_order(self._on, 0)))
        both = both.where(F.col("_left").isNotNull())
        # A null equals no key.
        found = F.when(~reduce(or_, [F.col(name).isNull() for name in self._on]), F.col("_found"))
        time = F.greatest(F.col("_left._time"), F.when(there(found), found["time"]))
        made = both.withColumn("_half", joined_half(join, (F.col("_left._row"), found), time))
        names = [F.col(f"_left.`{name}`").alias(name) for name in key]
        return made.where(F.col("_half").isNotNull()).select(*names, "_at", "_half", F.col(f"_left.{UNDO}").alias(UNDO))

    def by_right(self) -> DataFrame:
        """The halves of what changes of right rows change: one change for each left row that refers to them then."""
        join, key = self._join, self._join.left.key
        right = reduce(DataFrame.unionByName, self._rights(self._right.select(*self._on)))
        order = Window.partitionBy(*self._on).orderBy(F.col("_at").asc_nulls_first())
        right = right.withColumn("_was", F.lag("_row").over(order)).where(F.col("_at").isNotNull())
        right = right.select(*self._on, F.col("_at").alias("_when"), F.struct("_was", "_row").alias("_right"))
        both = right.join(self._versions(), self._on)
        since, until, when = F.col("_at"), F.col("_until"), F.col("_when")
        both = both.where((since.isNull() | (since < when)) & (until.isNull() | (until > when)))
        number = F.row_number().over(Window.partitionBy("_when").orderBy(*key)) - 1
        made = both.select(*key, position(when, back=[number]).alias("_at"), F.col("_row").alias("_left"), "_right")
        time = F.greatest(F.col("_right._row.time"), F.col("_left.time"))
        sides = [joined_half(join, (F.col("_left"), F.col(f"_right.{row}")), time) for row in ("_was", "_row")]
        return halves(key, made, *sides)

    def _rights(self, keys: DataFrame) -> list[DataFrame]:
        """The moments of the right rows: their changes, and what these keys had before."""
        names = self._join.right.key
        before = rows_before(self._join.right, self._tables, renamed(keys, self._on, names))
        return [self._right, *([] if before is None else [renamed(before, names, self._on)])]

    def _versions(self) -> DataFrame:
        """The left rows that the right rows of the batch are referred from, each from `_at` to `_until`.

        A null: from before the first tick; to after the last.
        """
        join, key = self._join, self._join.left.key
        order = Window.partitionBy(*key).orderBy("_at")
        changed = self._left.withColumns({"_until": F.lead("_at").over(order), "_first": F.row_number().over(order)})
        none = F.lit(None).cast(dict(changed.dtypes)["_at"])
        was = changed.where("_first = 1").withColumns({"_until": F.col("_at"), "_row": F.col("_was"), "_at": none})
        columns = [*key, "_at", "_row", "_until"]
        versions = self._referring(
            changed.select(*columns).unionByName(was.select(*columns)).where(there(F.col("_row")))
        )
        rows = rows_before(join.left, self._tables, None)
        if rows is None:
            return versions
        others = self._referring(rows.withColumn("_until", none))
        others = others.join(self._right.select(*self._on).distinct(), self._on, "left_semi").alias("b")
        same = [F.col(f"b.`{name}`").eqNullSafe(F.col(f"m.`{name}`")) for name in key]
        others = others.join(self._left.select(*key).distinct().alias("m"), same, "left_anti")
        return versions.unionByName(others)

    def _referring(self, rows: DataFrame) -> DataFrame:
        """Moments of left rows with the right key that each refers to."""
        values = [F.col(f"_row.values.`{name}`").alias(name) for name in self._join.left.values]
        flat = rows.select("*", *values)
        flat = flat.withColumns(dict(zip(self._on, computed_keys(flat, list(self._join.on)), strict=True)))
        return flat.select(*rows.columns, *self._on)
