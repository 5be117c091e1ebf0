"""The fold of all other aggregates: by the rules of `lakehouse.semantics`, in Python, as the model runs them.

Each key goes in as one row: the table rows that its records may change, and the records. Out come the rows that changed
(or every change, for the changelog per event) and the windows for which a record was late.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from lakehouse.plan.expression.schema import POSITION_TYPE
from lakehouse.plan.operator import WINDOW_COLUMNS, Suppress
from lakehouse.semantics.failures import Tally
from lakehouse.semantics.time.window import Session, Sliding
from lakehouse.spark.expression.arrow_functions import arrow_type, over_arrow, ship_by_value, spark_type
from lakehouse.spark.fold.aggregate_fold import AggregateFold
from lakehouse.spark.fold.bounds import KeyBounds, is_within
from lakehouse.spark.fold.failing import is_function, with_tally
from lakehouse.spark.fold.forms.aggregates import Form, same_key
from lakehouse.spark.fold.key_fold import KeyFold
from lakehouse.spark.fold.table_fold import BatchInput, FoldedRows, OpeningRows
from lakehouse.spark.jvm.in_memory import hold_frame
from lakehouse.spark.stream.step import UNDO

# Fields beside a user's names in a struct begin with an underscore, which a user's names can't.
STEP = f"_start bigint, _end bigint, _gone boolean, _time bigint, _position {POSITION_TYPE}, _step int"
LATE = f"array<struct<_start: bigint, _end: bigint, _position: {POSITION_TYPE}>>"
FAILED = f"array<struct<records: bigint, position: {POSITION_TYPE}, error: string>>"


class PythonFold(AggregateFold):
    """Aggregates, or windows, that only the rules in Python know."""

    @property
    def bound_columns(self) -> tuple[str, ...]:
        return (*self.table.group, "_time")

    def input_of(self, form: Form, *, units: bool) -> Column:
        return form.raw_input()

    def fold_batch(self, batch: BatchInput) -> FoldedRows:
        touched_rows = batch.read_rows().alias("t").where(self._may_change(batch.bounds))
        folded_keys = batch.failure_counter.count_folded(self.forms, self._fold_keys(batch.records, touched_rows))
        folded_keys = hold_frame(folded_keys, batch.held_memory)
        changed_rows = self._changed_rows(folded_keys).drop("_step")
        if not self.table.windows:
            return FoldedRows(changed_rows)
        late_count = folded_keys.agg(F.coalesce(F.sum(F.size("_late")), F.lit(0))).first()[0]  # type: ignore[index]
        return FoldedRows(changed_rows, self._late_rows(folded_keys), lambda: late_count)

    def rows_after(self, rows: DataFrame | None, records: DataFrame) -> DataFrame:
        changed_rows = self._changed_rows(self._fold_keys(records, rows)).drop("_step")
        return self.overlay_rows(rows, changed_rows)

    def late_records(self, records: DataFrame) -> DataFrame:
        """Return the late ones of all records of a table: the group's columns, the window's, `_position`."""
        return self._late_rows(self._fold_keys(records, None))

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        base_rows = opening_rows.near_rows(records, self.bound_columns, self._may_change)
        folded_keys = self._fold_keys(records, base_rows, every_change=True)
        changes = self._changed_rows(folded_keys)
        changes = changes.withColumn("_event_time_ms", F.unix_millis("_event_time")).drop("_event_time")
        if base_rows is None or of_state or not self.table.looks_back:
            return changes
        if final_only:
            return self.with_opening_rows(changes, opening_rows.closing_rows())
        group_columns = self.table.group
        group_keys = folded_keys.select(*group_columns).alias("k")
        touched_rows = base_rows.alias("b").join(group_keys, same_key(group_columns, "b", "k"), "left_semi")
        return self.with_opening_rows(changes, touched_rows)

    def _reach_ms(self) -> tuple[int, int]:
        """Return how far before and after a record the windows that it may change can begin or end."""
        match self._operator.window:
            case Session(gap=gap):
                return gap, gap
            case Sliding(difference=difference):
                return difference, 1
        return 0, 0

    def _may_change(self, bounds: KeyBounds) -> Column:
        """Return the condition on rows (t) that a batch may change, from its bounds: literals, so that Delta skips
        files.

        bounds: of the group's columns, and of `_time`, the records' event time in milliseconds.
        """
        condition = is_within({name: edges for name, edges in bounds.items() if name != "_time"}, "t")
        if not self.table.windows or "_time" not in bounds:
            return condition
        (first_ms, last_ms), (before_ms, after_ms) = bounds["_time"], self._reach_ms()
        latest_start = F.timestamp_millis(F.lit(last_ms + after_ms))
        earliest_end = F.timestamp_millis(F.lit(first_ms - before_ms))
        return condition & (F.col("t.window_end") >= earliest_end) & (F.col("t.window_start") <= latest_start)

    def _fold_keys(self, records: DataFrame, rows: DataFrame | None, *, every_change: bool = False) -> DataFrame:
        """Fold arrived records into the rows of their keys; return one row a key: the group's columns, `_steps`,
        `_late`, `_failed` (see `FailureCounter.count_folded`).

        rows: the table's rows, of which those that may change are taken; None for an empty table. every_change: return
        all changes, not only the final rows; then only a row's last change in each tick has accumulators, unless the
        table suppresses changes: a reader that goes on from a change does so after a tick.
        """
        column_names = self.table.group
        horizon = F.col("_horizon") if "_horizon" in records.columns else F.lit(None).cast("bigint")
        record_struct = F.struct(
            F.col("_time").alias("time"),
            horizon.alias("horizon"),
            F.col("_position").alias("position"),
            *[F.col(name).alias(name[1:]) for name in ("_row", UNDO) if self.table.stream.undoes],
            *[F.col(f"_in_{form.name}").alias(f"in_{form.name}") for form in self.forms],
        )
        grouped_records = records.groupBy(*column_names).agg(
            F.collect_list(record_struct).alias("_records"),
            F.min("_time").alias("_first"),
            F.max("_time").alias("_last"),
        )
        if rows is None:
            joined_groups = grouped_records.withColumn("_old", F.lit(None).cast(self._old_type())).alias("g")
        else:
            old_rows = self._collect_touched(grouped_records, rows).alias("o")
            joined_groups = grouped_records.alias("g").join(old_rows, same_key(column_names, "g", "o"), "left")
        fold_key = self._fold_function(joined_groups.select("_old", "_records").schema, every_change=every_change)
        fold_result = fold_key(F.struct("_old", "_records")).alias("_made")
        result = joined_groups.select(*[F.col(f"g.`{name}`") for name in column_names], fold_result)
        return result.select(
            *column_names, *[F.col(f"_made.{part}").alias(f"_{part}") for part in ("steps", "late", "failed")]
        )

    def _old_type(self) -> str:
        """Return the type of a key's rows, as `_collect_touched` collects them."""
        accumulators = "".join(f", `{form.accumulator}`: {form.accumulator_type}" for form in self.forms)
        return f"array<struct<_start: bigint, _end: bigint, _time: bigint, _position: {POSITION_TYPE}{accumulators}>>"

    def _collect_touched(self, grouped_records: DataFrame, rows: DataFrame) -> DataFrame:
        """Return the rows that the groups' records may change, collected by group as `_old`."""
        column_names = self.table.group
        condition = same_key(column_names, "t", "g") & self._is_reached()
        start, end = self._row_span()
        row_struct = F.struct(
            start.alias("_start"),
            end.alias("_end"),
            F.unix_millis("t._event_time").alias("_time"),
            F.col("t._position").alias("_position"),
            *[F.col(f"t.`{form.accumulator}`") for form in self.forms],
        )
        touched_rows = rows.alias("t").join(grouped_records.alias("g"), condition, "inner")
        return touched_rows.groupBy(*[F.col(f"g.`{name}`").alias(name) for name in column_names]).agg(
            F.collect_list(row_struct).alias("_old")
        )

    def _row_span(self) -> tuple[Column, Column]:
        """Return the bounds of a row's (t) window in milliseconds; nulls without windows."""
        if not self.table.windows:
            return F.lit(None).cast("bigint"), F.lit(None).cast("bigint")
        return F.unix_millis("t.window_start"), F.unix_millis("t.window_end")

    def _is_reached(self) -> Column:
        """Return the condition on a row (t) of a group that the group's records (g) may change."""
        if not self.table.windows:
            return F.lit(True)
        before_ms, after_ms = self._reach_ms()
        start, end = self._row_span()
        return (end >= F.col("g._first") - before_ms) & (start <= F.col("g._last") + after_ms)

    def _changed_rows(self, folded_keys: DataFrame) -> DataFrame:
        """Return the changed rows, one each: key, `_tombstone`, values, accumulators, time, position, `_step`."""
        step_rows = folded_keys.select(*self.table.group, F.explode("_steps").alias("_s"))
        window_columns = _window_columns("_s") if self.table.windows else []
        return step_rows.select(*self.table.group, *window_columns, *self._step_columns())

    def _step_columns(self) -> list[Column]:
        """Return the columns of a step (`_s`) after those of its key."""
        return [
            F.col("_s._gone").alias("_tombstone"),
            *[F.col(f"_s.`{form.name}`") for form in self.forms],
            *[F.col(f"_s.`{form.accumulator}`") for form in self.forms if form.bound.accumulator],
            F.timestamp_millis("_s._time").alias("_event_time"),
            F.col("_s._position").alias("_position"),
            F.col("_s._step").alias("_step"),
        ]

    def _late_rows(self, folded_keys: DataFrame) -> DataFrame:
        late_rows = folded_keys.select(*self.table.group, F.explode("_late").alias("_l"))
        position = F.col("_l._position").alias("_position")
        return late_rows.select(*self.table.group, *_window_columns("_l"), position)

    def _fold_function(self, input_type: StructType, *, every_change: bool) -> Callable[[Column], Column]:
        forms = self.forms
        for form in forms:
            for _, option in form.item.options:
                ship_by_value(option if callable(option) else None)
        visible_fields = [f"`{form.name}` {form.bound.visible_type}" for form in forms]
        accumulator_fields = [
            f"`{form.accumulator}` {form.bound.accumulator}" for form in forms if form.bound.accumulator
        ]
        step_type = StructType.fromDDL(", ".join([STEP, *visible_fields, *accumulator_fields]))
        field_types = {"late": spark_type(LATE), "failed": spark_type(FAILED), "steps": ArrayType(step_type)}
        result_type = StructType([StructField(name, field_type) for name, field_type in field_types.items()])
        arrow_output, arrow_input = arrow_type(result_type), arrow_type(input_type)
        tallies = {form.name: Tally() for form in forms if is_function(form)}
        rules = tuple(with_tally(form, tallies.get(form.name)) for form in forms)
        # Whether a change is suppressed depends on its result.
        keeps_accumulators = self.table.find(Suppress) is not None
        key_fold = KeyFold(
            self.table.rule(rules),
            rules,
            list(tallies.values()),
            forms,
            every_change,
            arrow_output,
            arrow_input,
            keeps_accumulators=keeps_accumulators,
        )

        def fold(key_batch: pa.Array) -> pa.Array:
            return pa.array([key_fold.fold(key) for key in key_batch.to_pylist()], type=arrow_output)

        return over_arrow(fold, result_type)


def _window_columns(column_name: str) -> list[Column]:
    bounds = (F.timestamp_millis(f"{column_name}._start"), F.timestamp_millis(f"{column_name}._end"))
    return [bound.alias(name) for bound, name in zip(bounds, WINDOW_COLUMNS, strict=True)]
