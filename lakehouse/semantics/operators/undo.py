"""A group of a table's rows: the effect of a row's change on the aggregates of its group (docs/rules.md, rules 9, 10).

A change of a row comes as two records: the row before is taken out, then the row after is put in. Each goes to its own
group. If both go to the same group, they make one change: the state in between is never visible.

    row k1 was (x, 2), is (x, 5)     group x: sum - 2 + 5, one change
    row k1 was (x, 2), is (y, 5)     group x: sum - 2, then group y: sum + 5
    row k1 was (x, 2), is gone       group x: sum - 2. Without rows it stays, with COUNT 0 and SUM 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakehouse.semantics.operators.cell import Arrival, Cell, CellChange, Cells, Outcome, Rules
from lakehouse.semantics.position import Position


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One group: no window, one row. The rules have an undo: see `lakehouse.semantics.aggregate.undo`."""

    rules: Rules

    def apply(self, cells: Cells, record: Arrival) -> Outcome:
        cell = cells.get(None)
        old_accumulators = cell.accumulators if cell else tuple(rule.empty_accumulator() for rule in self.rules)
        new_accumulators = tuple(
            self._apply_rule(rule, accumulator, value, record)
            for rule, accumulator, value in zip(self.rules, old_accumulators, record.values, strict=True)
        )
        event_time = max(record.time, cell.time) if cell else record.time
        cells[None] = cell = Cell(new_accumulators, event_time, record.order)
        return [CellChange(None, cell, cell.time)], []

    def _apply_rule(self, rule: Any, accumulator: Any, value: Any, record: Arrival) -> Any:
        rule_step = rule.undo if record.undo else rule.add
        return rule_step(accumulator, value, record.row)


def is_first_half(record: Arrival, next_record: Arrival | None) -> bool:
    """Say whether a record takes out a row that the next record of the group puts in again."""
    return record.undo and next_record is not None and same_change(record.order, next_record.order)


def same_change(left_position: Position, right_position: Position) -> bool:
    """Say whether two records are the two halves of one change."""
    return (
        left_position.record_position == right_position.record_position
        and left_position.ordinals[:-1] == right_position.ordinals[:-1]
    )
