"""The fold of the common aggregates in SQL: Spark folds the batch, and MERGE adds its result to the kept row.

What an aggregation computes is its form: `lakehouse.spark.fold.forms.aggregates`. Without windows, or in tumbling and
hopping ones.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.spark.fold.aggregate_fold import AggregateFold
from lakehouse.spark.fold.forms.aggregates import Form, batch_columns, same_key
from lakehouse.spark.fold.table_fold import OpeningRows
from lakehouse.spark.stream.rows import drop_replaced_halves
from lakehouse.spark.stream.step import UNDO


class SqlFold(AggregateFold):
    """Aggregates whose batches Spark SQL can add to an accumulator."""

    def input_of(self, form: Form, *, units: bool) -> Column:
        return form.unit() if units else form.value()

    def new_rows(self, records: DataFrame) -> DataFrame:
        """Return the batch's results: `_new_<name>`, `_event_time`, `_position`."""
        event_time = F.timestamp_millis(F.max("rowtime")).alias("_event_time")
        position = F.max("_position").alias("_position")
        new_rows = records.groupBy(*self.table.key).agg(*batch_columns(self.forms), event_time, position)
        return new_rows.withColumn("_tombstone", F.lit(False))

    def merged_columns(self, batch_rows: DataFrame, *, has_row: bool) -> dict[str, Column]:
        row: dict[str, Column] = {}
        for form in self.forms:
            no_accumulator = F.lit(None).cast(form.accumulator_type)
            old_accumulator = F.col(f"t.`{form.accumulator}`") if has_row else no_accumulator
            new_accumulator = form.merge(old_accumulator, F.col(f"s.`_new_{form.name}`"))
            row[form.accumulator] = new_accumulator
            row[form.name] = form.visible_value(new_accumulator)
        event_time = F.col("s._event_time")
        row["_event_time"] = F.greatest(F.col("t._event_time"), event_time) if has_row else event_time
        row["_position"] = F.col("s._position")
        return row

    def rows_after(self, rows: DataFrame | None, records: DataFrame) -> DataFrame:
        batch_rows = self.new_rows(self.timely_records(records))
        joined_rows = batch_rows.alias("s")
        if rows is not None:
            joined_rows = joined_rows.join(rows.alias("t"), same_key(self.table.key, "t", "s"), "left")
        row_columns = self.merged_columns(batch_rows, has_row=rows is not None)
        touched_rows = joined_rows.select(
            *[F.col(f"s.`{name}`") for name in self.table.key],
            *[column.alias(name) for name, column in row_columns.items()],
            F.lit(False).alias("_tombstone"),
        )
        return self.overlay_rows(rows, touched_rows)

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        """Return the accumulators after each record, beginning from those of the table's rows."""
        table, forms = self.table, self.forms
        undo_columns = [UNDO] if table.stream.undoes else []
        input_columns = [f"_in_{form.name}" for form in forms]
        units = self.timely_records(records).select(*table.key, *input_columns, "rowtime", "_position", *undo_columns)
        base_rows = opening_rows.closing_rows() if final_only else opening_rows.touched_rows(units)
        if base_rows is not None:
            accumulators = [F.col(form.accumulator).alias(f"_in_{form.name}") for form in forms]
            null_position = F.lit(None).cast(dict(base_rows.dtypes)["_position"]).alias("_position")
            event_time = F.unix_millis("_event_time").alias("rowtime")
            base_units = base_rows.select(*table.key, *accumulators, event_time, null_position)
            units = base_units.unionByName(units, allowMissingColumns=True)
        window = self.running_window()
        totals = {f"_total_{form.name}": form.running_value(F.col(f"_in_{form.name}"), window) for form in forms}
        frame = units.withColumns({**totals, "_event_time_ms": F.max("rowtime").over(window)})
        visible_columns = [form.visible_value(F.col(f"_total_{form.name}")).alias(form.name) for form in forms]
        accumulator_columns = [
            F.col(f"_total_{form.name}").alias(form.accumulator) for form in forms if form.bound.accumulator
        ]
        frame = drop_replaced_halves(table, frame, F.coalesce(UNDO, F.lit(False))) if undo_columns else frame
        return frame.select(
            *table.key,
            *visible_columns,
            *accumulator_columns,
            F.lit(False).alias("_tombstone"),
            "_event_time_ms",
            "_position",
        )
