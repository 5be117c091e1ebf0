"""The fold of `latest`: the last record of each key; a tombstone deletes (`lakehouse.semantics.tombstone`).

Over a change log in which a record need not send all values (`Stream.latest`), a column has the last value that was
sent since the key's last delete. A row of a batch then has, beside its columns:

    _unsent  the value columns that no record of the batch sent: the table's row keeps them
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.plan.operator import LatestSent
from lakehouse.spark.fold.table_fold import OpeningRows, TableFold, nullable_fields
from lakehouse.spark.stream.rows import drop_replaced_halves
from lakehouse.spark.stream.step import UNDO


class LatestFold(TableFold):
    """The last record of each key."""

    shows_one_record = True
    order_columns: tuple[str, ...] = ("_position",)  # they say which record is the last, and are kept in its row

    @property
    def _value_names(self) -> list[str]:
        return [column.name for column in self.table.stream.columns if column.name not in self.table.group]

    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        return nullable_fields(stream_rows.select(*self.table.group, *self._value_names))

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

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        changes = records.withColumn("_event_time_ms", F.col("rowtime")).drop("rowtime")
        if self.table.stream.undoes:
            changes = drop_replaced_halves(self.table, changes, F.col("_tombstone"))
        looks_back = self.table.looks_back and not of_state
        return self.with_opening_rows(changes, opening_rows.touched_rows(changes) if looks_back else None)


class LatestSentFold(LatestFold):
    """The last value of each column that was sent."""

    @property
    def _operator(self) -> LatestSent:
        assert isinstance(self.table.fold, LatestSent)
        return self.table.fold

    @property
    def _value_names(self) -> list[str]:
        return list(self.table.values)

    def _sent_value(self, name: str) -> Column:
        """Return a struct with the value of a column, `v`, in a record that sent it; a null if the record did not.

        A delete sends nulls, and a row that the table keeps has no marks.
        """
        field_name = dict(self._operator.fields)[name]
        is_unsent = F.coalesce(F.array_contains(F.col(self._operator.unsent), field_name), F.lit(False))
        return F.when(~is_unsent, F.struct(F.col(f"`{name}`").alias("v")))

    def new_rows(self, records: DataFrame) -> DataFrame:
        last_record = F.struct(F.timestamp_millis("rowtime").alias("_event_time"), "_tombstone", "_position")
        sent_values = {f"_sent_{number}": self._sent_value(name) for number, name in enumerate(self._value_names)}
        last_values = [
            F.max_by(sent_value, F.when(sent_value.isNotNull(), F.col("_position"))).alias(alias)
            for alias, sent_value in sent_values.items()
        ]
        rows = records.groupBy(*self.table.key).agg(F.max_by(last_record, "_position").alias("_last"), *last_values)
        unsent_names = [
            F.when(F.col(alias).isNull(), F.lit(name))
            for alias, name in zip(sent_values, self._value_names, strict=True)
        ]
        value_columns = [
            F.col(f"{alias}.v").alias(name) for alias, name in zip(sent_values, self._value_names, strict=True)
        ]
        unsent = F.array_compact(F.array(*unsent_names)).alias("_unsent")
        return rows.select(*self.table.key, *value_columns, "_last.*", unsent)

    def merged_columns(self, batch_rows: DataFrame, *, has_row: bool) -> dict[str, Column]:
        columns = super().merged_columns(batch_rows, has_row=has_row)
        if "_unsent" not in columns:  # whole rows, such as an intervention's
            return columns
        del columns["_unsent"]
        if has_row:
            columns |= {name: _kept_if_unsent(name, "s", "t") for name in self._value_names}
        return columns

    def overlaid_column(self, name: str) -> Column:
        return _kept_if_unsent(name, "m", "b") if name in self._value_names else super().overlaid_column(name)

    def rows_after(self, rows: DataFrame | None, records: DataFrame) -> DataFrame:
        rows_after = super().rows_after(rows, records)
        return rows_after.drop("_unsent")

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        changes = records.withColumn("_event_time_ms", F.col("rowtime")).drop("rowtime")
        changes = self.with_opening_rows(changes, opening_rows.touched_rows(changes))
        last_values = {
            name: F.last(self._sent_value(name), ignorenulls=True).over(self.running_window())["v"]
            for name in self._value_names
        }
        return changes.withColumns(last_values).drop(self._operator.unsent)


def _kept_if_unsent(name: str, new: str, old: str) -> Column:
    """Return a column of the new row, or of the old one if no record sent it. new, old: their aliases."""
    is_unsent = F.array_contains(F.col(f"{new}._unsent"), name)
    return F.when(is_unsent, F.col(f"{old}.`{name}`")).otherwise(F.col(f"{new}.`{name}`"))
