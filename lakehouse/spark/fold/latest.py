"""The fold of `latest`: the last record of each key; a tombstone deletes (`lakehouse.semantics.tombstone`)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.spark.fold.table_fold import OpeningRows, TableFold, nullable_fields
from lakehouse.spark.stream.rows import drop_replaced_halves
from lakehouse.spark.stream.step import UNDO


class LatestFold(TableFold):
    """The last record of each key."""

    shows_one_record = True
    order_columns: tuple[str, ...] = ("_position",)  # they say which record is the last, and are kept in its row

    @property
    def _value_names(self) -> list[str]:
        return [column.name for column in self.table.stream.columns if column.name not in self.table.key]

    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        return nullable_fields(stream_rows.select(*self.table.key, *self._value_names))

    def has_null_key(self, stream_rows: DataFrame) -> Column:
        return F.col("_null_key")

    def take_records(self, stream_rows: DataFrame, *, units: bool) -> DataFrame:
        column_names = [column.name for column in self.table.stream.columns]
        is_tombstone = F.col(UNDO if self.table.stream.undoes else "_tombstone").alias("_tombstone")
        return stream_rows.where(~F.col("_null_key")).select(*column_names, is_tombstone, "rowtime", "_position")

    def new_rows(self, records: DataFrame) -> DataFrame:
        return self.last_records(records, [*self._value_names, F.timestamp_millis("rowtime").alias("_event_time")])

    def last_records(self, records: DataFrame, columns: Sequence[str | Column] = ()) -> DataFrame:
        """Return these columns of each key's last record, its place in the order, and `_tombstone`."""
        record_struct = F.struct(*columns, "_tombstone", *self.order_columns)
        record_order = F.struct(*self.order_columns) if len(self.order_columns) > 1 else F.col("_position")
        last_record = F.max_by(record_struct, record_order).alias("_last")
        return records.groupBy(*self.table.key).agg(last_record).select(*self.table.key, "_last.*")

    def rows_after(self, rows: DataFrame | None, records: DataFrame) -> DataFrame:
        return self.overlay_rows(rows, self.new_rows(records))

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, kept: bool, final: bool) -> DataFrame:
        changes = records.withColumn("_event_time_ms", F.col("rowtime")).drop("rowtime")
        if self.table.stream.undoes:
            changes = drop_replaced_halves(self.table, changes, F.col("_tombstone"))
        looks_back = self.table.looks_back and not kept
        return self.with_opening_rows(changes, opening_rows.touched_rows(changes) if looks_back else None)
