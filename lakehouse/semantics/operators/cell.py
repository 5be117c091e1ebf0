"""One key's rows, and how a record changes them, without a window or in time windows.

An operator receives the rows of one key, by window, and one record. It changes the rows, and returns the steps of the
changelog, in order, and the windows for which the record came too late. Both Spark and the model run it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol

from lakehouse.semantics.aggregate.aggregate import Rule
from lakehouse.semantics.time.window import Hopping, Span
from lakehouse.semantics.time.years import FIRST_MS

Rules = tuple[Rule, ...]


class Arrival(NamedTuple):
    """A record as an operator sees it: event time, the stream time that judges it, position, one value per rule.

    row, undo: for a change of a table's row, the row's key as text, and whether the row is taken out.
    """

    time: int
    horizon: int
    order: Any
    values: tuple[Any, ...]
    row: str | None = None
    undo: bool = False


class Cell(NamedTuple):
    """A row: an accumulator for each rule, the largest event time of its records, the position of the last one."""

    accumulators: tuple[Any, ...]
    time: int
    order: Any


class CellChange(NamedTuple):
    """One change: the window's row is now `cell`; None removes it. `time` is the change's event time."""

    span: Span | None
    cell: Cell | None
    time: int


class Cells(dict[Span | None, Cell]):
    """The rows of one key, by window; the windows are sorted, so that a record finds its own quickly."""

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[Span] = []
        self._greatest_ends: list[int] = []  # of each window and all before it: one may lie inside of an earlier one

    def __setitem__(self, span: Span | None, cell: Cell) -> None:
        if span is not None and span not in self:
            index = bisect_left(self._spans, span)
            self._spans.insert(index, span)
            self._greatest_ends.insert(index, FIRST_MS)
            self._update_greatest_ends(index)
        super().__setitem__(span, cell)

    def __delitem__(self, span: Span | None) -> None:
        super().__delitem__(span)
        if span is not None:
            index = bisect_left(self._spans, span)
            self._spans.pop(index)
            self._greatest_ends.pop(index)
            self._update_greatest_ends(index)

    def _update_greatest_ends(self, first_index: int) -> None:
        """Compute the greatest ends from a place on, as far as they have changed."""
        greatest_end = self._greatest_ends[first_index - 1] if first_index else FIRST_MS
        for index in range(first_index, len(self._spans)):
            greatest_end = max(greatest_end, self._spans[index].end)
            if index > first_index and self._greatest_ends[index] == greatest_end:
                return
            self._greatest_ends[index] = greatest_end

    def spans_starting(self, first_start: int, last_start: int) -> list[Span]:
        """Return the windows that start in [first_start, last_start], in order."""
        return self._spans[bisect_left(self._spans, (first_start,)) : bisect_right(self._spans, (last_start, inf))]

    def last_span_before(self, time: int) -> Span | None:
        """Return the last window that starts before a time; None if there is none."""
        index = bisect_left(self._spans, (time,))
        return self._spans[index - 1] if index else None

    def spans_reaching(self, first_end: int, last_start: int) -> list[Span]:
        """Return the windows that start by `last_start` and end at or after `first_end`, in order."""
        end_index = start_index = bisect_right(self._spans, (last_start, inf))
        while start_index > 0 and self._greatest_ends[start_index - 1] >= first_end:
            start_index -= 1
        return [span for span in self._spans[start_index:end_index] if span.end >= first_end]


Outcome = tuple[list[CellChange], list[Span]]


class KeyOperator(Protocol):
    """The common interface of all kinds of windows.

    apply: called for each record of a key, in position order; changes `cells`, the rows of the key, and returns the
    changes and the windows for which the record is late.
    """

    def apply(self, cells: Cells, record: Arrival) -> Outcome: ...


def empty_accumulators(rules: Rules) -> tuple[Any, ...]:
    """Return the accumulators for no records."""
    return tuple(rule.empty_accumulator() for rule in rules)


def add_record(rules: Rules, cell: Cell | None, record: Arrival) -> Cell:
    """Return a row with one more record. An accepted late record keeps the largest time (rule 18)."""
    old_accumulators = cell.accumulators if cell else empty_accumulators(rules)
    new_accumulators = tuple(
        rule.add(accumulator, value, record.order)
        for rule, accumulator, value in zip(rules, old_accumulators, record.values, strict=True)
    )
    return Cell(new_accumulators, max(record.time, cell.time) if cell else record.time, record.order)


@dataclass(frozen=True, slots=True)
class Plain:
    """No window: one row per key."""

    rules: Rules

    def apply(self, cells: Cells, record: Arrival) -> Outcome:
        cells[None] = cell = add_record(self.rules, cells.get(None), record)
        return [CellChange(None, cell, cell.time)], []


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling and hopping windows: one row per key and window."""

    rules: Rules
    window: Hopping

    def apply(self, cells: Cells, record: Arrival) -> Outcome:
        change_steps, late_spans = [], []
        for span in self.window.spans_of_time(record.time):
            if self.window.closing_time(span) <= record.horizon:
                late_spans.append(span)
                continue
            cells[span] = cell = add_record(self.rules, cells.get(span), record)
            change_steps.append(CellChange(span, cell, cell.time))
        return change_steps, late_spans
