"""Sliding windows: every record has a window that ends at it, and a window that begins right after it (rule 14).

    difference 10, records at 8 and 14:
        [-2 .. 8]    ends at 8      (as in Kafka Streams: [0, 10] if the record lies before `difference`)
        [4 .. 14]    ends at 14, contains both
        [9 .. 19]    begins right after 8, contains 14

A window exists if it contains a combination of records that no other window has. This module follows the steps of Kafka
Streams' `KStreamSlidingWindowAggregate`, in its order (the latest window first).
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.semantics.operators.cell import Arrival, Cell, CellChange, Cells, Outcome, Rules, add_record
from lakehouse.semantics.time.window import Sliding, Span
from lakehouse.semantics.time.years import FIRST_MS


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Sliding windows: one row per key and window. A row's time is that of its latest record."""

    rules: Rules
    window: Sliding

    def apply(self, cells: Cells, record: Arrival) -> Outcome:
        difference, event_time = self.window.difference, record.time
        first_time, last_time = self.window.possible_times
        if (
            self.window.closing_time(Span(event_time, event_time + difference)) <= record.horizon
            or not first_time <= event_time <= last_time
        ):
            return [], [Span(max(event_time - difference, FIRST_MS), event_time)]
        return _SlidingRun(self, cells, record).outcome()

    def span(self, start_time: int) -> Span:
        return Span(start_time, start_time + self.window.difference)


class _SlidingRun:
    """One record on its way through the windows of its key."""

    def __init__(self, owner: SlidingWindows, cells: Cells, record: Arrival) -> None:
        self._owner, self._cells, self._record = owner, cells, record
        self._steps: list[CellChange] = []
        self._late: list[Span] = []

    def outcome(self) -> Outcome:
        if 0 <= self._record.time < self._owner.window.difference:
            self._apply_early()
        else:
            self._apply_in_order()
        return self._steps, self._late

    def _apply_in_order(self) -> None:
        difference, event_time = self._owner.window.difference, self._record.time
        left_cell: Cell | None = None  # of the last window that ends before the record
        right_cell: Cell | None = None  # of the last window that contains the record
        previous_time: int | None = None  # the time of the last record before this one
        left_exists = right_exists = False
        start_times = set()
        for span in reversed(self._cells.spans_starting(event_time - 2 * difference, event_time + 1)):
            start_times.add(span.start)
            cell = self._cells[span]
            if span.start == event_time + 1:
                right_exists = True
            elif span.end > event_time:
                right_cell = right_cell or cell
                self._add(span, cell)
            elif span.end == event_time:
                left_exists = True
                self._add(span, cell)
                if cell.time == event_time:
                    return  # an earlier record of the same time has created all windows that this record needs
                previous_time = cell.time
            else:
                left_cell = cell
                # The window that ends at the record may begin with the epoch, and know a later time than this one.
                previous_time = cell.time if previous_time is None else previous_time
                break
        if (
            previous_time is not None
            and previous_time + 1 not in start_times
            and previous_time + 1 + difference >= event_time
        ):
            self._add(self._owner.span(previous_time + 1), None)
            # This can be the window that ends at this record; Kafka Streams then emits it twice, unchanged.
            left_exists = left_exists or previous_time + 1 == event_time - difference
        if not left_exists:
            not_empty = previous_time is not None and event_time - difference <= previous_time
            self._add(self._owner.span(event_time - difference), left_cell if not_empty else None)
        if not right_exists:
            self._add_right_window(right_cell)

    def _apply_early(self) -> None:
        """Apply a record before `difference`, whose left window is [0, difference]: none begins before the epoch."""
        event_time = self._record.time
        combined_cell: Cell | None = None
        right_cell: Cell | None = None
        right_exists = False
        start_times = set()
        for span in self._cells.spans_starting(0, event_time + 1):
            start_times.add(span.start)
            cell = self._cells[span]
            if span.start == 0:
                combined_cell = cell
            elif span.start <= event_time:
                right_cell = cell
                self._add(span, cell)
            else:
                right_exists = True
        # If no other window contains later records, the combined window contains only later records.
        right_cell = right_cell or combined_cell
        if not right_exists:
            self._add_right_window(right_cell)
        if combined_cell is not None and combined_cell.time < event_time and combined_cell.time + 1 not in start_times:
            self._add(self._owner.span(combined_cell.time + 1), None)
        self._add(self._owner.span(0), combined_cell)

    def _add_right_window(self, right_cell: Cell | None) -> None:
        """Add the window that begins right after this record, if it contains records that came before this one."""
        if right_cell is not None and right_cell.time > self._record.time:
            right_span = self._owner.span(self._record.time + 1)
            new_cell = Cell(right_cell.accumulators, right_cell.time, self._record.order)
            self._cells[right_span] = new_cell
            self._steps.append(CellChange(right_span, new_cell, new_cell.time))

    def _add(self, span: Span, cell: Cell | None) -> None:
        if self._owner.window.closing_time(span) <= self._record.horizon:
            self._late.append(span)
            return
        self._cells[span] = new_cell = add_record(self._owner.rules, cell, self._record)
        self._steps.append(CellChange(span, new_cell, new_cell.time))
