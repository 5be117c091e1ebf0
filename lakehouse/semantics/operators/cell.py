"""One key's rows, and how a record changes them, without a window or in time windows.

An operator is given the rows of one key, by window, and one record. It changes the rows and says what happened: the
steps of the changelog, in order, and the windows for which the record came too late. Spark and the model both run it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol

from lakehouse.semantics.aggregate.aggregate import Aggregate
from lakehouse.semantics.window import Hopping, Span

Rules = tuple[Aggregate, ...]


class Input(NamedTuple):
    """A record as an operator sees it: event time, what it is judged by (stream time), position, one value a rule."""

    time: int
    horizon: int
    order: Any
    values: tuple[Any, ...]


class Cell(NamedTuple):
    """A row: an accumulator for each rule, the largest event time of its records, the last one's position."""

    accumulators: tuple[Any, ...]
    time: int
    order: Any


class CellChange(NamedTuple):
    """One change: the window's row is now `cell`; None takes it away. `time` is the change's event time."""

    span: Span | None
    cell: Cell | None
    time: int


class Cells(dict[Span | None, Cell]):
    """The rows of one key, by window; the windows are kept in order, so that a record finds its own among many."""

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[Span] = []

    def __setitem__(self, span: Span | None, cell: Cell) -> None:
        if span is not None and span not in self:
            insort(self._spans, span)
        super().__setitem__(span, cell)

    def __delitem__(self, span: Span | None) -> None:
        super().__delitem__(span)
        if span is not None:
            self._spans.pop(bisect_left(self._spans, span))

    def starting(self, first: int, last: int) -> list[Span]:
        """Return the windows that start in [first, last], in order."""
        return self._spans[bisect_left(self._spans, (first,)) : bisect_right(self._spans, (last, inf))]

    def reaching(self, first: int, last: int) -> list[Span]:
        """Return the windows that start at `last` or before and end at `first` or after, of windows that lie apart."""
        end = start = bisect_right(self._spans, (last, inf))
        while start > 0 and self._spans[start - 1].end >= first:
            start -= 1
        return self._spans[start:end]


Outcome = tuple[list[CellChange], list[Span]]


class Operator(Protocol):
    """What the windows have in common."""

    def apply(self, cells: Cells, record: Input) -> Outcome: ...


def zero(rules: Rules) -> tuple[Any, ...]:
    """Return the accumulators of no record."""
    return tuple(rule.zero() for rule in rules)


def added(rules: Rules, cell: Cell | None, record: Input) -> Cell:
    """Return a row with one more record. A late one that is accepted keeps the largest time (rule 18)."""
    before = cell.accumulators if cell else zero(rules)
    new = tuple(
        rule.add(accumulator, value, record.order)
        for rule, accumulator, value in zip(rules, before, record.values, strict=True)
    )
    return Cell(new, max(record.time, cell.time) if cell else record.time, record.order)


@dataclass(frozen=True, slots=True)
class Plain:
    """No window: one row a key."""

    rules: Rules

    def apply(self, cells: Cells, record: Input) -> Outcome:
        cells[None] = cell = added(self.rules, cells.get(None), record)
        return [CellChange(None, cell, cell.time)], []


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling and hopping windows: one row a key and window."""

    rules: Rules
    window: Hopping

    def apply(self, cells: Cells, record: Input) -> Outcome:
        steps, late = [], []
        for span in self.window.spans(record.time):
            if self.window.closes(span) <= record.horizon:
                late.append(span)
                continue
            cells[span] = cell = added(self.rules, cells.get(span), record)
            steps.append(CellChange(span, cell, cell.time))
        return steps, late
