"""The rules of `lakehouse.semantics`, run by Spark: the operator gets a touched key's rows and its ordered records.

Each key goes in as one row: the table rows that its records may change, and the records. Out come the rows that changed
(or every change, for the changelog per event) and the windows for which a record was late. The model runs the same
functions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from lakehouse.plan.operator import WINDOW_COLUMNS, Suppress
from lakehouse.plan.schema import POSITION_TYPE
from lakehouse.plan.table import Table
from lakehouse.semantics.failures import Tally
from lakehouse.semantics.operators.cell import Arrival, Cell, Cells, KeyOperator, Rules
from lakehouse.semantics.operators.undo import is_first_half
from lakehouse.semantics.position import Position
from lakehouse.semantics.window import Session, Sliding, Span
from lakehouse.spark.expression.arrow_functions import arrow_type, over_arrow, ship_by_value, spark_type
from lakehouse.spark.fold.aggregates import Form, same_key
from lakehouse.spark.fold.bounds import KeyBounds, is_within
from lakehouse.spark.fold.failing import is_function, with_tally
from lakehouse.spark.stream.step import UNDO

# Fields beside a user's names in a struct begin with an underscore, which a user's names can't.
STEP = f"_start bigint, _end bigint, _gone boolean, _time bigint, _position {POSITION_TYPE}, _step int"
LATE = f"array<struct<_start: bigint, _end: bigint, _position: {POSITION_TYPE}>>"
FAILED = f"array<struct<records: bigint, position: {POSITION_TYPE}, error: string>>"


def reach_ms(table: Table) -> tuple[int, int]:
    """Return how far before and after a record the windows that it may change can begin or end."""
    match table.fold.window:
        case Session(gap=gap):
            return gap, gap
        case Sliding(difference=difference):
            return difference, 1
    return 0, 0


def may_change(table: Table, bounds: KeyBounds) -> Column:
    """Return the condition on rows that a batch may change, from its bounds: literals, so that Delta skips files.

    bounds: of the group's columns, and of `_time`, the records' event time in milliseconds.
    """
    condition = is_within({name: edges for name, edges in bounds.items() if name != "_time"}, "t")
    if not table.windows or "_time" not in bounds:
        return condition
    (first_ms, last_ms), (before_ms, after_ms) = bounds["_time"], reach_ms(table)
    latest_start, earliest_end = (
        F.timestamp_millis(F.lit(last_ms + after_ms)),
        F.timestamp_millis(F.lit(first_ms - before_ms)),
    )
    return condition & (F.col("t.window_end") >= earliest_end) & (F.col("t.window_start") <= latest_start)


def fold_keys(
    table: Table, forms: list[Form], arrived_records: DataFrame, rows: DataFrame | None, *, every_change: bool = False
) -> DataFrame:
    """Fold arrived records into the rows of their keys; return one row a key: the group's columns, `_steps`, `_late`,
    `_failed` (see `FailureCounter.count_folded`).

    rows: the table's rows, of which those that may change are taken; None for an empty table. every_change: return all
    changes, not only the final rows; then only a row's last change in each tick has accumulators, unless the table
    suppresses changes: a reader that goes on from a change does so after a tick.
    """
    column_names = table.group
    horizon = F.col("_horizon") if "_horizon" in arrived_records.columns else F.lit(None).cast("bigint")
    record_struct = F.struct(
        F.col("_time").alias("time"),
        horizon.alias("horizon"),
        F.col("_position").alias("position"),
        *[F.col(name).alias(name[1:]) for name in ("_row", UNDO) if table.stream.undoes],
        *[F.col(f"_in_{form.name}").alias(f"in_{form.name}") for form in forms],
    )
    grouped_records = arrived_records.groupBy(*column_names).agg(
        F.collect_list(record_struct).alias("_records"), F.min("_time").alias("_first"), F.max("_time").alias("_last")
    )
    if rows is None:
        joined_groups = grouped_records.withColumn("_old", F.lit(None).cast(_old_type(forms))).alias("g")
    else:
        old_rows = _collect_touched(table, forms, grouped_records, rows)
        joined_groups = grouped_records.alias("g").join(old_rows.alias("o"), same_key(column_names, "g", "o"), "left")
    fold_key = _fold_function(table, forms, joined_groups.select("_old", "_records").schema, every_change=every_change)
    fold_result = fold_key(F.struct("_old", "_records")).alias("_made")
    result = joined_groups.select(*[F.col(f"g.`{name}`") for name in column_names], fold_result)
    return result.select(
        *column_names, *[F.col(f"_made.{part}").alias(f"_{part}") for part in ("steps", "late", "failed")]
    )


def _old_type(forms: list[Form]) -> str:
    """Return the type of a key's rows, as `_collect_touched` collects them."""
    accumulators = "".join(f", `{form.accumulator}`: {form.accumulator_type}" for form in forms)
    return f"array<struct<_start: bigint, _end: bigint, _time: bigint, _position: {POSITION_TYPE}{accumulators}>>"


def _collect_touched(table: Table, forms: list[Form], grouped_records: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the rows that the groups' records may change, collected by group as `_old`."""
    column_names = table.group
    condition = same_key(column_names, "t", "g")
    if table.windows:
        before_ms, after_ms = reach_ms(table)
        condition = condition & (F.unix_millis("t.window_end") >= F.col("g._first") - before_ms)
        condition = condition & (F.unix_millis("t.window_start") <= F.col("g._last") + after_ms)
    window_bounds = [
        F.unix_millis(f"t.{name}") if table.windows else F.lit(None).cast("bigint") for name in WINDOW_COLUMNS
    ]
    row_struct = F.struct(
        window_bounds[0].alias("_start"),
        window_bounds[1].alias("_end"),
        F.unix_millis("t._event_time").alias("_time"),
        F.col("t._position").alias("_position"),
        *[F.col(f"t.`{form.accumulator}`") for form in forms],
    )
    touched_rows = rows.alias("t").join(grouped_records.alias("g"), condition, "inner")
    return touched_rows.groupBy(*[F.col(f"g.`{name}`").alias(name) for name in column_names]).agg(
        F.collect_list(row_struct).alias("_old")
    )


def changed_rows(table: Table, forms: list[Form], folded_keys: DataFrame) -> DataFrame:
    """Return the changed rows, one each: key, `_tombstone`, values, accumulators, time, position."""
    column_names = table.group
    step_rows = folded_keys.select(*column_names, F.explode("_steps").alias("_s"))
    window_columns = _window_columns("_s")
    accumulators = [F.col(f"_s.`{form.accumulator}`") for form in forms if form.bound.accumulator]
    return step_rows.select(
        *column_names,
        *(window_columns if table.windows else []),
        F.col("_s._gone").alias("_tombstone"),
        *[F.col(f"_s.`{form.name}`") for form in forms],
        *accumulators,
        F.timestamp_millis("_s._time").alias("_event_time"),
        F.col("_s._position").alias("_position"),
        F.col("_s._step").alias("_step"),
    )


def late_records(table: Table, folded_keys: DataFrame) -> DataFrame:
    """Return the late records: the group's columns, window_start, window_end, `_position`."""
    column_names = table.group
    late_rows = folded_keys.select(*column_names, F.explode("_late").alias("_l"))
    window_columns = _window_columns("_l")
    return late_rows.select(*column_names, *window_columns, F.col("_l._position").alias("_position"))


def _window_columns(column_name: str) -> list[Column]:
    bounds = (F.timestamp_millis(f"{column_name}._start"), F.timestamp_millis(f"{column_name}._end"))
    return [bound.alias(name) for bound, name in zip(bounds, WINDOW_COLUMNS, strict=True)]


def _fold_function(
    table: Table, forms: list[Form], input_type: StructType, *, every_change: bool
) -> Callable[[Column], Column]:
    for form in forms:
        for _, option in form.item.options:
            ship_by_value(option if callable(option) else None)
    visible_fields = [f"`{form.name}` {form.bound.visible_type}" for form in forms]
    accumulator_fields = [f"`{form.accumulator}` {form.bound.accumulator}" for form in forms if form.bound.accumulator]
    step_type = StructType.fromDDL(", ".join([STEP, *visible_fields, *accumulator_fields]))
    field_types = {"late": spark_type(LATE), "failed": spark_type(FAILED), "steps": ArrayType(step_type)}
    result_type = StructType([StructField(name, field_type) for name, field_type in field_types.items()])
    arrow_output, arrow_input = arrow_type(result_type), arrow_type(input_type)
    tallies = {form.name: Tally() for form in forms if is_function(form)}
    rules = tuple(with_tally(form, tallies.get(form.name)) for form in forms)
    # Whether a change is suppressed depends on its result.
    keeps_all = table.find(Suppress) is not None
    key_fold = _KeyFold(
        table.rule(rules),
        rules,
        list(tallies.values()),
        forms,
        every_change,
        arrow_output,
        arrow_input,
        whole=keeps_all,
    )

    def fold(key_batch: pa.Array) -> pa.Array:
        return pa.array([key_fold.fold(key) for key in key_batch.to_pylist()], type=arrow_output)

    return over_arrow(fold, result_type)


class _KeyFold:
    """The fold of one key, on a worker."""

    def __init__(
        self,
        operator: KeyOperator,
        rules: Rules,
        tallies: list[Tally],
        forms: list[Form],
        every_change: bool,
        arrow_output: pa.StructType,
        arrow_input: pa.StructType,
        *,
        whole: bool,
    ) -> None:
        """tallies: count the rules' errors. whole: every change has its accumulators."""
        self._operator, self._every_change, self._keeps_accumulators = operator, every_change, whole
        self._rules, self._tallies = rules, tallies
        self._names = [form.name for form in forms]
        self._accumulator_names = [form.accumulator for form in forms]
        row_type = arrow_output.field("steps").type.value_type
        self._types = {field.name: field.type for field in row_type}
        record_type = arrow_input.field("_records").type.value_type
        self._inputs = [(f"in_{name}", record_type.field(f"in_{name}").type) for name in self._names]

    def fold(self, key_input: dict[str, Any]) -> dict[str, Any]:
        cells = Cells()
        for row in key_input["_old"] or []:
            accumulators = tuple(self._load(name, row[name]) for name in self._accumulator_names)
            cells[_span_of(row)] = Cell(accumulators, row["_time"], Position.of(row["_position"]))
        arrivals = sorted(map(self._arrival, key_input["_records"]), key=lambda record: record.order)
        rows: list[dict[str, Any]] = []
        touched_cells: dict[Span | None, Cell | None] = {}
        late_fields = []
        # A set of many values in each of its many changes would be quadratic: so only one change a tick gets it.
        last_changes: dict[tuple[Span | None, int], tuple[dict[str, Any], Cell | None]] = {}
        for record, next_record in zip_longest(arrivals, arrivals[1:]):
            changes, missed_spans = self._operator.apply(cells, record)
            late_fields += [
                {"_start": missed_span.start, "_end": missed_span.end, "_position": record.order._asdict()}
                for missed_span in missed_spans
            ]
            for step_number, step in enumerate(changes):
                if not self._every_change:
                    touched_cells[step.span] = step.cell
                    continue
                if is_first_half(record, next_record):
                    continue
                row = self._visible_row(step.span, step.cell, step.time, record.order, step_number)
                rows.append(row)
                if self._keeps_accumulators:
                    self._add_accumulators(row, step.cell)
                else:
                    last_changes[step.span, record.order.tick] = row, step.cell
            self._count_failures(record.order)
        for row, cell in last_changes.values():
            self._add_accumulators(row, cell)
        for span, cell in touched_cells.items():
            rows.append(self._visible_row(span, cell, cell.time if cell else None, cell.order if cell else None, 0))
            self._add_accumulators(rows[-1], cell)
            self._count_failures(cell.order if cell else None)
        return {
            "late": late_fields,
            "failed": [_failure_fields(*tally.take_tally()) for tally in self._tallies],
            "steps": rows,
        }

    def _arrival(self, record: dict[str, Any]) -> Arrival:
        position = Position.of(record["position"])
        row, undo = record.get("row"), record.get("undo", False)
        return Arrival(record["time"], record["horizon"], position, self._values(record), row, undo)

    def _count_failures(self, order: Any) -> None:
        for tally in self._tallies:
            tally.after(order)

    def _visible_row(
        self, span: Span | None, cell: Cell | None, time: int | None, position: Any, step_number: int
    ) -> dict[str, Any]:
        """Return a visible row: the rules' results, without accumulators."""
        row: dict[str, Any] = {
            "_start": span.start if span else None,
            "_end": span.end if span else None,
            "_gone": cell is None,
            "_time": time,
            "_position": position._asdict() if position else None,
            "_step": step_number,
        }
        if cell is not None:
            for rule, name, accumulator in zip(self._rules, self._names, cell.accumulators, strict=True):
                row[name] = store_value(rule.result(accumulator), self._types[name])
        return row

    def _add_accumulators(self, row: dict[str, Any], cell: Cell | None) -> None:
        """Add the accumulators to a row; those that visible columns serve as are there already."""
        if cell is not None:
            for name, accumulator_name, accumulator in zip(
                self._names, self._accumulator_names, cell.accumulators, strict=True
            ):
                if accumulator_name != name:
                    row[accumulator_name] = store_value(accumulator, self._types[accumulator_name])

    def _values(self, record: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(load_value(record[name], data_type) for name, data_type in self._inputs)

    def _load(self, name: str, value: Any) -> Any:
        return load_value(value, self._types[name])


def _failure_fields(records: int, first_failure: tuple[Any, str] | None) -> dict[str, Any]:
    position, error = first_failure or (None, None)
    return {"records": records, "position": position._asdict() if position else None, "error": error}


def _span_of(row: dict[str, Any]) -> Span | None:
    return None if row["_start"] is None else Span(row["_start"], row["_end"])


def load_value(value: Any, data_type: pa.DataType) -> Any:
    """Return a value from Arrow as the rules have it: maps as dicts, positions as `Position`."""
    if value is None:
        return None
    if pa.types.is_map(data_type):
        return {load_value(k, data_type.key_type): load_value(v, data_type.item_type) for k, v in value}
    if pa.types.is_list(data_type):
        return [load_value(item, data_type.value_type) for item in value]
    if pa.types.is_struct(data_type):
        fields = {field.name: load_value(value[field.name], field.type) for field in data_type}
        return Position.of(fields) if tuple(fields) == Position._fields else fields
    return value


def store_value(value: Any, data_type: pa.DataType) -> Any:
    """Return a value of the rules as Arrow takes it: the reverse of `load_value`."""
    if value is None:
        return None
    if pa.types.is_map(data_type):
        return [(store_value(k, data_type.key_type), store_value(v, data_type.item_type)) for k, v in value.items()]
    if pa.types.is_list(data_type):
        return [store_value(item, data_type.value_type) for item in value]
    if pa.types.is_struct(data_type):
        value = value._asdict() if isinstance(value, Position) else value
        return {field.name: store_value(value.get(field.name), field.type) for field in data_type}
    return value
