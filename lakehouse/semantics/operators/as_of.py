"""A stream joined with a table as it was at the record's event time: the as-of join.

A record finds the last change of its key, by position, among the changes that came before it and whose event time is
not after its own: the fold of those records of the table. It does not see changes that came later or belong to a later
time:

    changes, in the order in which they came   A at 1   B at 5   C at 3
    a record of time   0     2     4     5     9
    finds              none  A     C     C     C       C came after B, and counts from 3 on

So a change hides, for good, all earlier changes whose time is not before its own: the remaining changes have rising
times. A delete is a change: a record that finds it has no row. A time may lie back without limit.

Kafka Streams has a similar join for versioned state stores, which keep a history of limited length
(`VersionedKeyValueStore.get(key, asOfTimestamp)`); there a change is found by its time alone.
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
        """The remaining changes, by time."""
        return self._changes

    def put(self, event_time: int, change: C) -> None:
        """Take in the next change in position order."""
        end_index = bisect_left(self._times, event_time)
        self._times[end_index:] = [event_time]
        self._changes[end_index:] = [change]

    def find_change(self, event_time: int) -> C | None:
        """Return the change that a record of this time finds; None if there was none yet."""
        change_count = bisect_right(self._times, event_time)
        return self._changes[change_count - 1] if change_count else None
