"""The rules of `lakehouse.semantics`, run by Spark: a touched key's rows and its ordered records go to the operator.

One row a key goes in: the table rows that it may change, and its records. Out come the rows that changed (or every
change, for the changelog per event) and the windows for which a record was late. The model runs the same functions.
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
from lakehouse.spark.functions import arrow_type, over_arrow, ship, spark_type
from lakehouse.spark.operators.aggregates import Form, same_key
from lakehouse.spark.operators.bounds import KeyBounds, within
from lakehouse.spark.operators.failing import is_function, tallied
from lakehouse.spark.stream.step import UNDO

# Fields beside a user's names in a struct begin with an underscore, which a user's names can't.
STEP = f"_start bigint, _end bigint, _gone boolean, _time bigint, _position {POSITION_TYPE}, _step int"
LATE = f"array<struct<_start: bigint, _end: bigint, _position: {POSITION_TYPE}>>"
FAILED = f"array<struct<records: bigint, position: {POSITION_TYPE}, error: string>>"


def reach_ms(table: Table) -> tuple[int, int]:
    """How far before and after a record the bounds of the windows lie that it may change."""
    match table.fold.window:
        case Session(gap=gap):
            return gap, gap
        case Sliding(difference=difference):
            return difference, 1
    return 0, 0


def reach(table: Table, bounds: KeyBounds) -> Column:
    """Return which rows a batch may change, from its bounds: literals, so that Delta skips files.

    bounds: of the group's columns, and of `_time`, the records' event time in milliseconds.
    """
    condition = within({name: pair for name, pair in bounds.items() if name != "_time"}, "t")
    if not table.windows or "_time" not in bounds:
        return condition
    (first, last), (before, after) = bounds["_time"], reach_ms(table)
    start, end = F.timestamp_millis(F.lit(last + after)), F.timestamp_millis(F.lit(first - before))
    return condition & (F.col("t.window_end") >= end) & (F.col("t.window_start") <= start)


def keyed(
    table: Table, forms: list[Form], arrived: DataFrame, rows: DataFrame | None, *, every: bool = False
) -> DataFrame:
    """Fold arrived records into the rows of their keys; return one row a key: the group's columns, `_steps`, `_late`,
    `_failed` (see `Failing.folded`).

    rows: the table's rows, of which those that may change are taken; None for an empty table. every: all changes, not
    only the final rows; then only a row's last change in each tick has accumulators, unless changes may be
    suppressed: a reader that goes on from a change does so after a tick.
    """
    names = table.group
    horizon = F.col("_horizon") if "_horizon" in arrived.columns else F.lit(None).cast("bigint")
    record = F.struct(
        F.col("_time").alias("time"), horizon.alias("horizon"), F.col("_position").alias("position"),
        *[F.col(name).alias(name[1:]) for name in ("_row", UNDO) if table.stream.undoes],
        *[F.col(f"_in_{form.name}").alias(f"in_{form.name}") for form in forms],
    )  # fmt: skip
    groups = arrived.groupBy(*names).agg(
        F.collect_list(record).alias("_records"), F.min("_time").alias("_first"), F.max("_time").alias("_last")
    )
    if rows is None:
        joined = groups.withColumn("_old", F.lit(None).cast(_old_type(forms))).alias("g")
    else:
        old = _touched(table, forms, groups, rows)
        joined = groups.alias("g").join(old.alias("o"), same_key(names, "g", "o"), "left")
    fold = _folding(table, forms, joined.select("_old", "_records").schema, every=every)
    made = fold(F.struct("_old", "_records")).alias("_made")
    result = joined.select(*[F.col(f"g.`{name}`") for name in names], made)
    return result.select(*names, *[F.col(f"_made.{part}").alias(f"_{part}") for part in ("steps", "late", "failed")])


def _old_type(forms: list[Form]) -> str:
    """The type of a key's rows, as `_touched` collects them."""
    kept = "".join(f", `{form.accumulator}`: {form.accumulator_type}" for form in forms)
    return f"array<struct<_start: bigint, _end: bigint, _time: bigint, _position: {POSITION_TYPE}{kept}>>"


def _touched(table: Table, forms: list[Form], groups: DataFrame, rows: DataFrame) -> DataFrame:
    """The rows that the groups' records may change, collected by group as `_old`."""
    names = table.group
    condition = same_key(names, "t", "g")
    if table.windows:
        before, after = reach_ms(table)
        condition = condition & (F.unix_millis("t.window_end") >= F.col("g._first") - before)
        condition = condition & (F.unix_millis("t.window_start") <= F.col("g._last") + after)
    bounds = [F.unix_millis(f"t.{name}") if table.windows else F.lit(None).cast("bigint") for name in WINDOW_COLUMNS]
    row = F.struct(
        bounds[0].alias("_start"), bounds[1].alias("_end"), F.unix_millis("t._event_time").alias("_time"),
        F.col("t._position").alias("_position"), *[F.col(f"t.`{form.accumulator}`") for form in forms],
    )  # fmt: skip
    found = rows.alias("t").join(groups.alias("g"), condition, "inner")
    return found.groupBy(*[F.col(f"g.`{name}`").alias(name) for name in names]).agg(F.collect_list(row).alias("_old"))


def steps(table: Table, forms: list[Form], folded: DataFrame) -> DataFrame:
    """Return what came out, one row a row that changed: key, `_tombstone`, values, accumulators, time, position."""
    names = table.group
    rows = folded.select(*names, F.explode("_steps").alias("_s"))
    windows = _windows("_s")
    kept = [F.col(f"_s.`{form.accumulator}`") for form in forms if form.bound.accumulator]
    return rows.select(
        *names, *(windows if table.windows else []), F.col("_s._gone").alias("_tombstone"),
        *[F.col(f"_s.`{form.name}`") for form in forms], *kept,
        F.timestamp_millis("_s._time").alias("_event_time"), F.col("_s._position").alias("_position"),
        F.col("_s._step").alias("_step"),
    )  # fmt: skip


def late(table: Table, folded: DataFrame) -> DataFrame:
    """Return the late records: the group's columns, window_start, window_end, `_position`."""
    names = table.group
    rows = folded.select(*names, F.explode("_late").alias("_l"))
    windows = _windows("_l")
    return rows.select(*names, *windows, F.col("_l._position").alias("_position"))


def _windows(of: str) -> list[Column]:
    parts = (F.timestamp_millis(f"{of}._start"), F.timestamp_millis(f"{of}._end"))
    return [part.alias(name) for part, name in zip(parts, WINDOW_COLUMNS, strict=True)]


def _folding(table: Table, forms: list[Form], given: StructType, *, every: bool) -> Callable[[Column], Column]:
    for form in forms:
        for _, option in form.item.options:
            ship(option if callable(option) else None)
    shown = [f"`{form.name}` {form.bound.shown}" for form in forms]
    kept = [f"`{form.accumulator}` {form.bound.accumulator}" for form in forms if form.bound.accumulator]
    made = StructType.fromDDL(", ".join([STEP, *shown, *kept]))
    parts = {"late": spark_type(LATE), "failed": spark_type(FAILED), "steps": ArrayType(made)}
    result = StructType([StructField(name, kind) for name, kind in parts.items()])
    out, old = arrow_type(result), arrow_type(given)
    tallies = {form.name: Tally() for form in forms if is_function(form)}
    rules = tuple(tallied(form, tallies.get(form.name)) for form in forms)
    # What may be suppressed depends on the result of every change.
    whole = table.find(Suppress) is not None
    run = _Run(table.rule(rules), rules, list(tallies.values()), forms, every, out, old, whole=whole)

    def fold(batch: pa.Array) -> pa.Array:
        return pa.array([run.key(key) for key in batch.to_pylist()], type=out)

    return over_arrow(fold, result)


class _Run:
    """The fold of one key, on a worker."""

    def __init__(
        self,
        operator: KeyOperator,
        rules: Rules,
        tallies: list[Tally],
        forms: list[Form],
        every: bool,
        out: pa.StructType,
        given: pa.StructType,
        *,
        whole: bool,
    ) -> None:
        """tallies: they count the rules' errors. whole: every change has its accumulators."""
        self._operator, self._every, self._whole = operator, every, whole
        self._rules, self._tallies = rules, tallies
        self._names = [form.name for form in forms]
        self._kept = [form.accumulator for form in forms]
        row = out.field("steps").type.value_type
        self._types = {field.name: field.type for field in row}
        records = given.field("_records").type.value_type
        self._inputs = [(f"in_{name}", records.field(f"in_{name}").type) for name in self._names]

    def key(self, key: dict[str, Any]) -> dict[str, Any]:
        cells = Cells()
        for row in key["_old"] or []:
            kept = tuple(self._loaded(name, row[name]) for name in self._kept)
            cells[_span(row)] = Cell(kept, row["_time"], Position.of(row["_position"]))
        inputs = sorted(map(self._arrival, key["_records"]), key=lambda record: record.order)
        rows: list[dict[str, Any]] = []
        touched: dict[Span | None, Cell | None] = {}
        late = []
        # A set of many values in each of its many changes would be quadratic: so only one change a tick has it.
        last: dict[tuple[Span | None, int], tuple[dict[str, Any], Cell | None]] = {}
        for record, following in zip_longest(inputs, inputs[1:]):
            happened, missed = self._operator.apply(cells, record)
            late += [{"_start": s.start, "_end": s.end, "_position": record.order._asdict()} for s in missed]
            for number, step in enumerate(happened):
                if not self._every:
                    touched[step.span] = step.cell
                    continue
                if is_first_half(record, following):
                    continue
                row = self._row(step.span, step.cell, step.time, record.order, number)
                rows.append(row)
                if self._whole:
                    self._keep(row, step.cell)
                else:
                    last[step.span, record.order.tick] = row, step.cell
            self._count(record.order)
        for row, cell in last.values():
            self._keep(row, cell)
        for span, cell in touched.items():
            rows.append(self._row(span, cell, cell.time if cell else None, cell.order if cell else None, 0))
            self._keep(rows[-1], cell)
            self._count(cell.order if cell else None)
        return {"late": late, "failed": [_failed(*tally.taken()) for tally in self._tallies], "steps": rows}

    def _arrival(self, record: dict[str, Any]) -> Arrival:
        place = Position.of(record["position"])
        row, undo = record.get("row"), record.get("undo", False)
        return Arrival(record["time"], record["horizon"], place, self._values(record), row, undo)

    def _count(self, order: Any) -> None:
        for tally in self._tallies:
            tally.after(order)

    def _row(self, span: Span | None, cell: Cell | None, time: int | None, at: Any, number: int) -> dict[str, Any]:
        """A visible row."""
        row: dict[str, Any] = {
            "_start": span.start if span else None, "_end": span.end if span else None, "_gone": cell is None,
            "_time": time, "_position": at._asdict() if at else None, "_step": number,
        }  # fmt: skip
        if cell is not None:
            for rule, name, accumulator in zip(self._rules, self._names, cell.accumulators, strict=True):
                row[name] = stored(rule.result(accumulator), self._types[name])
        return row

    def _keep(self, row: dict[str, Any], cell: Cell | None) -> None:
        """Add to a row what the table keeps of it; if all of that is visible, the row has it already."""
        if cell is not None:
            for name, hidden, accumulator in zip(self._names, self._kept, cell.accumulators, strict=True):
                if hidden != name:
                    row[hidden] = stored(accumulator, self._types[hidden])

    def _values(self, record: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(loaded(record[name], kind) for name, kind in self._inputs)

    def _loaded(self, name: str, value: Any) -> Any:
        return loaded(value, self._types[name])


def _failed(records: int, first: tuple[Any, str] | None) -> dict[str, Any]:
    position, error = first or (None, None)
    return {"records": records, "position": position._asdict() if position else None, "error": error}


def _span(row: dict[str, Any]) -> Span | None:
    return None if row["_start"] is None else Span(row["_start"], row["_end"])


def loaded(value: Any, kind: pa.DataType) -> Any:
    """Return a value from Arrow as the rules have it: maps as dicts, positions as `Position`."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {loaded(k, kind.key_type): loaded(v, kind.item_type) for k, v in value}
    if pa.types.is_list(kind):
        return [loaded(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        made = {field.name: loaded(value[field.name], field.type) for field in kind}
        return Position.of(made) if tuple(made) == Position._fields else made
    return value


def stored(value: Any, kind: pa.DataType) -> Any:
    """Return a value of the rules as Arrow takes it: the reverse of `loaded`."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(stored(k, kind.key_type), stored(v, kind.item_type)) for k, v in value.items()]
    if pa.types.is_list(kind):
        return [stored(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        value = value._asdict() if isinstance(value, Position) else value
        return {field.name: stored(value.get(field.name), field.type) for field in kind}
    return value
