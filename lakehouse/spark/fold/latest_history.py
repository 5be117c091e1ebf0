"""The history of `latest`: the points of each key, as `lakehouse.semantics.operators.row_history` has them, in SQL.

A record is a point if no record of its key has an event time that is not after its own, and a greater order. The order
is the position, or that of `order_by`. Of the rows that a table has, each is such a point; where one ends and no other
begins, there was a delete. The columns while a batch is folded:

    _from      the time of a point, in milliseconds
    _is_kept   the point is a row of the table; `_kept_to` is when that ends: null for still
    _is_end    the point is the end of a row, where the table has no other
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.plan.operator import VALID_FROM, VALID_TO, LatestBy, RowHistory
from lakehouse.spark.fold.history_rows import SqlHistoryFold, with_times
from lakehouse.spark.fold.latest import LatestFold
from lakehouse.spark.fold.latest_by_order import LatestByOrderFold
from lakehouse.spark.fold.table_fold import ReadRows
from lakehouse.spark.padded_struct import padded_struct


class LatestHistoryFold(SqlHistoryFold, LatestFold):
    """The rows that a key of `latest` had."""

    @property
    def _value_names(self) -> list[str]:
        return list(self.table.values[1:])  # without `valid_to`

    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        return with_times(LatestFold.visible_fields(self, stream_rows), len(self.table.group))

    def changed_rows(self, records: DataFrame, rows: DataFrame | None) -> DataFrame:
        points = self._points_of(records)
        if rows is not None:
            kept_points = self._kept_points(self.touched_rows(rows, records))
            points = points.unionByName(kept_points, allowMissingColumns=True)
        group, order = list(self.table.group), F.struct(*self.order_columns)
        by_time = Window.partitionBy(*group).orderBy("_from", *self.order_columns)
        greatest_order = F.max(order).over(by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow))
        points = points.withColumn("_counts", order == greatest_order)
        from_last = Window.partitionBy(*group).orderBy(F.desc("_from"), *map(F.desc, self.order_columns))
        next_time = F.last(F.when(F.col("_counts"), F.col("_from")), ignorenulls=True)
        next_time = next_time.over(from_last.rowsBetween(Window.unboundedPreceding, -1))
        points = points.withColumn("_next", next_time)
        # Of several records of one time the last one that counts is the point.
        is_replaced = F.coalesce(F.col("_next") == F.col("_from"), F.lit(False))
        is_point = F.col("_counts") & ~is_replaced
        is_same = F.col("_is_kept") & F.col("_kept_to").eqNullSafe(F.col("_next"))
        is_changed = F.when(is_point, ~is_same & ~F.col("_is_end")).otherwise(F.col("_is_kept") & ~is_replaced)
        return self._rows_of_points(points.withColumn("_is_point", is_point).where(is_changed))

    def _rows_of_points(self, points: DataFrame) -> DataFrame:
        """Return points as rows of the table; one that is no longer a point, or has no row, is gone."""
        return points.select(
            *self.table.group,
            F.timestamp_millis("_from").alias(VALID_FROM),
            F.timestamp_millis("_next").alias(VALID_TO),
            *[F.col(f"_row.`{name}`") for name in self._value_names],
            *self._marks(),
            F.timestamp_millis("_from").alias("_event_time"),
            *self.order_columns,
        )

    def _marks(self) -> list[Column]:
        """Return `_tombstone`, and what the state keeps of a delete."""
        return [(~F.col("_is_point") | F.col("_is_delete")).alias("_tombstone")]

    def _points_of(self, records: DataFrame) -> DataFrame:
        return records.select(
            *self.table.group,
            F.col("rowtime").alias("_from"),
            F.col("_tombstone").alias("_is_delete"),
            padded_struct(*self._value_names).alias("_row"),
            *self.order_columns,
            F.lit(False).alias("_is_kept"),
            F.lit(None).cast("bigint").alias("_kept_to"),
            F.lit(False).alias("_is_end"),
        )

    def _kept_points(self, rows: DataFrame) -> DataFrame:
        """Return the points of rows that the table keeps, and the ends of those after which there is none."""
        points = rows.select(
            *self.table.group,
            F.unix_millis(VALID_FROM).alias("_from"),
            self._is_kept_delete().alias("_is_delete"),
            padded_struct(*self._value_names).alias("_row"),
            *self.order_columns,
            F.lit(True).alias("_is_kept"),
            F.unix_millis(VALID_TO).alias("_kept_to"),
            F.lit(False).alias("_is_end"),
        )
        next_time = F.lead("_from").over(Window.partitionBy(*self.table.group).orderBy("_from"))
        ends = points.where("_kept_to IS NOT NULL").withColumn("_after", next_time)
        ends = ends.where(~F.col("_after").eqNullSafe(F.col("_kept_to")))
        ends = ends.withColumns({"_from": F.col("_kept_to"), "_is_delete": F.lit(True)})
        ends = ends.withColumns({"_is_kept": F.lit(False), "_is_end": F.lit(True)}).drop("_after")
        return points.unionByName(ends)

    def _is_kept_delete(self) -> Column:
        return F.lit(False)


class LatestByHistoryFold(LatestHistoryFold, LatestByOrderFold):
    """The rows that a key of `latest` with `order_by` had. The state keeps its deletes, too: as rows."""

    @property
    def _operator(self) -> LatestBy:
        assert isinstance(self.table.fold, RowHistory)
        assert isinstance(self.table.fold.row_fold, LatestBy)
        return self.table.fold.row_fold

    def with_lateness(self, records: DataFrame, read_rows: ReadRows = lambda: None) -> DataFrame:
        return self._judge(records)

    def is_newer(self) -> None:
        return None

    def _marks(self) -> list[Column]:
        return [(~F.col("_is_point")).alias("_tombstone"), F.col("_is_delete").alias("_deleted")]

    def _is_kept_delete(self) -> Column:
        return F.col("_deleted")
