"""The history of a table's rows: each row that a key had, from one event time until the next.

The row at a time t is what a read of the table at t gives: the fold, in position order, of the records whose event time
is not after t. It changes at the event times of the key's records only, so a history is a list of *points*: from its
time on, a point's row holds until the next point.

    latest, in the order in which they came     A at 1   B at 5   C at 3
    the history                                 A [1, 3)   C [3, ...)        C came after B, so it hides B
    latest by event time (order_by)             A [1, 3)   C [3, 5)   B [5, ...)
    count                                       1 [1, 3)   2 [3, 5)   3 [5, ...)

So a late record splits the row that held at its time, and changes the rows after it. A delete is a point without a row:
it ends the row before it.

A history that tracks some columns shows these alone, and one row for a run of points that have the same values in them
(`merge_equal_rows`). The points are kept: a late record can part a run, and need the order of a point within it.

Kafka Streams has the same for the last value of a key: `VersionedKeyValueStore`, whose records have `validFrom` and
`validTo`. It keeps them for a limited time, and finds by time alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from lakehouse.semantics.operators.cell import Arrival, CellChange, Cells, Outcome, Rules, add_record
from lakehouse.semantics.time.window import Span
from lakehouse.semantics.time.years import LAST_MS

R = TypeVar("R")
_time_of = attrgetter("time")


@dataclass(frozen=True, slots=True)
class AggregateHistory:
    """The history of an aggregate's row: one cell a point, by the window [time, time].

    The changes that a record makes begin with the point before it, whose row ends now, and go on to the last point: so
    where a row of these ends is the time of the one after it.
    """

    rules: Rules

    def apply(self, cells: Cells, record: Arrival) -> Outcome:
        changes = []
        own_span, cell_before = Span(record.time, record.time), None
        later_spans = cells.spans_starting(record.time, LAST_MS)
        if own_span not in cells:
            span_before = cells.last_span_before(record.time)
            if span_before is not None:
                cell_before = cells[span_before]
                changes.append(CellChange(span_before, cell_before, cell_before.time))
            cells[own_span] = cell = add_record(self.rules, cell_before, record)
            changes.append(CellChange(own_span, cell, cell.time))
        for span in later_spans:
            cells[span] = cell = add_record(self.rules, cells[span], record)
            changes.append(CellChange(span, cell, cell.time))
        return changes, []


class HistoryPoint(NamedTuple, Generic[R]):
    """From its time on (milliseconds), a key has this row; None for no row. order: the greater one counts."""

    time: int
    order: Any
    row: R | None


class LatestHistory(Generic[R]):
    """The points of one key of `latest`: their times rise, and so do their orders."""

    def __init__(self) -> None:
        self._points: list[HistoryPoint[R]] = []

    def put(self, new_point: HistoryPoint[R]) -> tuple[list[HistoryPoint[R]], list[HistoryPoint[R]]]:
        """Take in a record; return the points that it removes and those whose row begins or ends anew, by time."""
        first_index = bisect_left(self._points, new_point.time, key=_time_of)
        later_index = bisect_right(self._points, new_point.time, key=_time_of)
        before_index = later_index - 1
        if before_index >= 0 and self._points[before_index].order > new_point.order:
            return [], []
        end_index = later_index
        while end_index < len(self._points) and self._points[end_index].order <= new_point.order:
            end_index += 1
        removed_points = self._points[first_index:end_index]
        self._points[first_index:end_index] = [new_point]
        return removed_points, self._points[max(first_index - 1, 0) : first_index + 1]

    def end_of(self, point: HistoryPoint[R]) -> int | None:
        """Return the time of the next point; None if there is none."""
        index = bisect_right(self._points, point.time, key=_time_of)
        return self._points[index].time if index < len(self._points) else None


class HeldRow(NamedTuple, Generic[R]):
    """A row that holds from a time on, and until another one (milliseconds); None for still."""

    start: int
    end: int | None
    row: R


def merge_equal_rows(rows: Iterable[HeldRow[R]], is_same: Callable[[R, R], bool]) -> list[HeldRow[R]]:
    """Return a key's rows, by time, each with those that follow it without a gap and say the same."""
    merged_rows: list[HeldRow[R]] = []
    for row in rows:
        last_row = merged_rows[-1] if merged_rows else None
        if last_row is not None and last_row.end == row.start and is_same(last_row.row, row.row):
            merged_rows[-1] = last_row._replace(end=row.end)
        else:
            merged_rows.append(row)
    return merged_rows
