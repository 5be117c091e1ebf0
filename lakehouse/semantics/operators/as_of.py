"""A stream joined with a table as it was at the record's event time: the as-of join.

A record finds the last change of its key, by position, among those that came before it and whose event time is not
after its own: the fold of those records of the table. Whatever came later, or belongs to a later time, is not seen:

    changes, in the order in which they came   A at 1   B at 5   C at 3
    a record of time   0     2     4     5     9
    finds              none  A     C     C     C       C came after B, and counts from 3 on

So a change hides all earlier ones whose time is not before its own, for good: what is left has rising times. A delete
is a change: the record finds no row. There is no limit to how far back a time may lie.

Kafka Streams has the like for versioned state stores, which keep a history of limited length
(`VersionedKeyValueStore.get(key, asOfTimestamp)`), where a change is found by its time alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

C = TypeVar("C")


class KeyChanges(Generic[C]):
    """The changes of one key that a record can still find. Times are in milliseconds."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._changes: list[C] = []

    @property
    def changes(self) -> list[C]:
        """Those that are left, by time."""
        return self._changes

    def put(self, event_time: int, change: C) -> None:
        """Take in the next change in position order."""
        end_index = bisect_left(self._times, event_time)
        self._times[end_index:] = [event_time]
        self._changes[end_index:] = [change]

    def at(self, event_time: int) -> C | None:
        """Return what a record of this time finds; None if nothing was there yet."""
        change_count = bisect_right(self._times, event_time)
        return self._changes[change_count - 1] if change_count else None
