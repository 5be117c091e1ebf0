"""Sliding windows: for every record, the window that ends at it and the one that begins right after it (rule 14).

    difference 10, records at 8 and 14:
        [-2 .. 8]    ends at 8      (as in Kafka Streams: [0, 10] if the record lies before `difference`)
        [4 .. 14]    ends at 14, holds both
        [9 .. 19]    begins right after 8, holds 14

A window exists if it holds a record that no other window tells apart. Kafka Streams: `KStreamSlidingWindowAggregate`,
whose steps are followed here in its order (the latest window first).
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.semantics.operators.cell import Arrival, Cell, CellChange, Cells, Outcome, Rules, added
from lakehouse.semantics.window import Sliding, Span
from lakehouse.semantics.years import FIRST_MS


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Sliding windows: one row per key and window. A row's time is that of its latest record."""

    rules: Rules
    window: Sliding

    def apply(self, cells: Cells, record: Arrival) -> Outcome:
        difference, time = self.window.difference, record.time
        first, last = self.window.room
        if self.window.closes(Span(time, time + difference)) <= record.horizon or not first <= time <= last:
            return [], [Span(max(time - difference, FIRST_MS), time)]
        return _Run(self, cells, record).outcome()

    def span(self, start: int) -> Span:
        return Span(start, start + self.window.difference)


class _Run:
    """One record on its way through the windows of its key."""

    def __init__(self, owner: SlidingWindows, cells: Cells, record: Arrival) -> None:
        self._owner, self._cells, self._record = owner, cells, record
        self._steps: list[CellChange] = []
        self._late: list[Span] = []

    def outcome(self) -> Outcome:
        if 0 <= self._record.time < self._owner.window.difference:
            self._early()
        else:
            self._in_order()
        return self._steps, self._late

    def _in_order(self) -> None:
        difference, time = self._owner.window.difference, self._record.time
        left: Cell | None = None  # that of the last window that ends before the record
        right: Cell | None = None  # that of the last window that holds the record
        previous: int | None = None  # the time of the last record before this one
        left_exists = right_exists = False
        starts = set()
        for span in reversed(self._cells.starting(time - 2 * difference, time + 1)):
            starts.add(span.start)
            cell = self._cells[span]
            if span.start == time + 1:
                right_exists = True
            elif span.end > time:
                right = right or cell
                self._add(span, cell)
            elif span.end == time:
                left_exists = True
                self._add(span, cell)
                if cell.time == time:
                    return  # an earlier record of the same time has made all windows that this one needs
                previous = cell.time
            else:
                left, previous = cell, cell.time
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + difference >= time:
            self._add(self._owner.span(previous + 1), None)
            # That can be the window that ends at this record; Kafka Streams then emits it twice, unchanged.
            left_exists = left_exists or previous + 1 == time - difference
        if not left_exists:
            not_empty = previous is not None and time - difference <= previous
            self._add(self._owner.span(time - difference), left if not_empty else None)
        if not right_exists:
            self._own_right(right)

    def _early(self) -> None:
        """A record before `difference`: its left window would begin before the epoch, so all share [0, difference]."""
        time = self._record.time
        combined: Cell | None = None
        right: Cell | None = None
        right_exists = False
        starts = set()
        for span in self._cells.starting(0, time + 1):
            starts.add(span.start)
            cell = self._cells[span]
            if span.start == 0:
                combined = cell
            elif span.start <= time:
                right = cell
                self._add(span, cell)
            else:
                right_exists = True
        # If no other window holds later records, the combined one holds only later records.
        right = right or combined
        if not right_exists:
            self._own_right(right)
        if combined is not None and combined.time < time and combined.time + 1 not in starts:
            self._add(self._owner.span(combined.time + 1), None)
        self._add(self._owner.span(0), combined)

    def _own_right(self, right: Cell | None) -> None:
        """Add the window that begins right after this record, if later records lie in it: they are known already."""
        if right is not None and right.time > self._record.time:
            span = self._owner.span(self._record.time + 1)
            cell = Cell(right.accumulators, right.time, self._record.order)
            self._cells[span] = cell
            self._steps.append(CellChange(span, cell, cell.time))

    def _add(self, span: Span, cell: Cell | None) -> None:
        if self._owner.window.closes(span) <= self._record.horizon:
            self._late.append(span)
            return
        self._cells[span] = new = added(self._owner.rules, cell, self._record)
        self._steps.append(CellChange(span, new, new.time))
