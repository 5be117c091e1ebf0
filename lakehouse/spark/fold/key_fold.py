"""The fold of one key by the rules of `lakehouse.semantics`, on a worker: values come from Arrow and go back to it."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import pyarrow as pa

from lakehouse.semantics.failures import Tally
from lakehouse.semantics.operators.cell import Arrival, Cell, Cells, KeyOperator, Rules
from lakehouse.semantics.operators.undo import is_first_half
from lakehouse.semantics.position import Position
from lakehouse.semantics.time.window import Span
from lakehouse.spark.fold.forms.aggregates import Form


class KeyFold:
    """The fold of one key: its rows and its records go in, its changes come out."""

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
        keeps_accumulators: bool,
    ) -> None:
        """tallies: count the rules' errors. keeps_accumulators: whether every change has its accumulators."""
        self._operator, self._every_change, self._keeps_accumulators = operator, every_change, keeps_accumulators
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
            accumulators = tuple(load_value(row[name], self._types[name]) for name in self._accumulator_names)
            cells[_span_of(row)] = Cell(accumulators, row["_time"], Position.from_fields(row["_position"]))
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
        for span, cell in sorted(touched_cells.items(), key=lambda item: item[0] or ()):
            rows.append(self._visible_row(span, cell, cell.time if cell else None, cell.order if cell else None, 0))
            self._add_accumulators(rows[-1], cell)
            self._count_failures(cell.order if cell else None)
        return {
            "late": late_fields,
            "failed": [_failure_fields(*tally.take_tally()) for tally in self._tallies],
            "steps": rows,
        }

    def _arrival(self, record: dict[str, Any]) -> Arrival:
        position = Position.from_fields(record["position"])
        values = tuple(load_value(record[name], data_type) for name, data_type in self._inputs)
        row, undo = record.get("row"), record.get("undo", False)
        return Arrival(record["time"], record["horizon"], position, values, row, undo)

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
        return Position.from_fields(fields) if tuple(fields) == Position._fields else fields
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
