"""The input that all aggregates take from a record, its windows, and the windows for which it is too late."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.plan.operator import WINDOW_COLUMNS, Aggregate
from lakehouse.semantics.time.window import Hopping
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS
from lakehouse.spark.content import row_image
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.expression.years import compute_columns
from lakehouse.spark.fold.forms.aggregates import Form
from lakehouse.spark.fold.table_fold import ReadRows, TableFold, clock_partition, nullable_fields, parse_fields
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.stream.step import UNDO


class AggregateFold(TableFold):
    """Aggregates of a group's records, in windows or not. A subclass says how they are computed."""

    @property
    def _operator(self) -> Aggregate:
        assert isinstance(self.table.fold, Aggregate)
        return self.table.fold

    def input_of(self, form: Form, *, units: bool) -> Column:
        """Return an aggregation's input. units: see `take_records`."""
        raise NotImplementedError(type(self))

    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        group_columns = [column_of(item.expression).alias(item.name) for item in self._operator.grouping]
        other_columns = [
            *(f"{name} timestamp" for name in self.table.windows),
            *(f"`{form.name}` {form.bound.visible_type}" for form in self.forms),
            *(f"`{form.accumulator}` {form.bound.accumulator}" for form in self.forms if form.bound.accumulator),
        ]
        return [*nullable_fields(stream_rows.select(*group_columns)), *parse_fields(", ".join(other_columns))]

    def has_null_key(self, stream_rows: DataFrame) -> Column:
        return ~F.col("_tombstone") & _is_any_null(self._group_columns(stream_rows))

    def _group_columns(self, stream_rows: DataFrame) -> list[Column]:
        return computed_keys(stream_rows, [item.expression for item in self._operator.grouping])

    def take_records(self, stream_rows: DataFrame, *, units: bool) -> DataFrame:
        group_columns = self._group_columns(stream_rows)
        arguments = {form.name: form.item.argument for form in self.forms if form.item.argument is not None}
        argument_columns = zip(arguments, compute_columns(stream_rows, list(arguments.values())), strict=True)
        rows = stream_rows
        if arguments:
            rows = rows.withColumns({f"_arg_{name}": column for name, column in argument_columns})
        rows = rows.where(~F.col("_tombstone") & ~_is_any_null(group_columns))
        key_columns = [
            column.alias(item.name) for column, item in zip(group_columns, self._operator.grouping, strict=True)
        ]
        input_columns = [self.input_of(form, units=units).alias(f"_in_{form.name}") for form in self.forms]
        time_columns = [clock_partition(rows), F.col("rowtime").alias("_time")]
        # The row's key as a text tells the rows of a group apart.
        stream = self.table.stream
        row_columns = [row_image(rows, stream.key).alias("_row"), F.col(UNDO)] if stream.undoes else []
        return rows.select(*key_columns, *input_columns, "rowtime", "_position", *time_columns, *row_columns)

    @property
    def judges_lateness(self) -> bool:
        """For sessions and sliding windows only the rules in Python can tell (`PythonFold`)."""
        return isinstance(self._operator.window, Hopping)

    def with_lateness(self, records: DataFrame, read_rows: ReadRows = lambda: None) -> DataFrame:
        """Return each record once for each of its windows; `_late` if it is too late for that window."""
        window = self._operator.window
        assert isinstance(window, Hopping)
        time, advance = F.col("_time"), F.lit(window.advance)
        first_start = time - window.size + window.advance
        first_start = first_start - F.pmod(first_start, advance)
        # As in Kafka Streams no window begins before 1970, except for records that are before it themselves.
        first_start = F.when(time >= 0, F.greatest(first_start, F.lit(0))).otherwise(first_start)
        window_start = F.explode(F.sequence(first_start, time, advance.cast("bigint"))).alias("_start")
        rows = records.select("*", window_start)
        # Cut to the valid times: see Hopping.
        window_end = F.least(F.col("_start") + window.size, F.lit(LAST_MS))
        bounds = [F.timestamp_millis(F.greatest(F.col("_start"), F.lit(FIRST_MS))), F.timestamp_millis(window_end)]
        rows = rows.withColumns(dict(zip(WINDOW_COLUMNS, bounds, strict=True)))
        is_late = F.coalesce(window_end + window.grace <= F.col("_horizon"), F.lit(False))
        return rows.withColumn("_late", is_late).drop("_start")

    def touched_keys(self, records: DataFrame) -> DataFrame:
        if not self.judges_lateness:
            return super().touched_keys(records)
        return self.timely_records(records).select(*self.table.key)


def _is_any_null(values: list[Column]) -> Column:
    return reduce(or_, [value.isNull() for value in values])
