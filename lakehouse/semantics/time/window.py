"""Windows: the spans of event time in which a record counts, and when a span is closed. Times are in milliseconds.

    tumbling 10   |----------|----------|       [0, 10) [10, 20): half-open, aligned to the epoch
    hopping 10/5  |----------|                  [0, 10) [5, 15) [10, 20): a record counts in several
                        |----------|
    sliding 10    a record at 12 counts in [2, 12], and in the windows that other records open: both ends belong
    session 5     o--o---o        o             [first, last] of records not more than 5 apart

A record is late for a window that closed before it (rule 14):

    tumbling, hopping   end + grace <= stream time        the end itself does not belong to the window
    sliding             end + grace <  stream time        the end belongs to it
    session             end + gap + grace < stream time   a record at end + gap still merges

Kafka Streams: `TimeWindows`, `SlidingWindows`, `SessionWindows`.

No window reaches beyond the possible times (`lakehouse.semantics.time.years`): a tumbling or hopping window ends there,
and a record whose sliding windows would reach beyond is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lakehouse.semantics.time.years import FIRST_MS, LAST_MS

DAY_MS = 24 * 60 * 60 * 1000


class Span(NamedTuple):
    """A window's bounds in milliseconds; the window decides which of them belong to it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of `size` that begin every `advance`, which is at most `size`; tumbling if equal. The end is outside."""

    size: int
    advance: int
    grace: int

    def spans_of_time(self, event_time: int) -> list[Span]:
        """Return the windows of a record, the earliest first.

        As in Kafka Streams, no window begins before the epoch, except for records that are themselves before it.
        """
        first_start = (event_time - self.size + self.advance) // self.advance * self.advance
        if event_time >= 0:
            first_start = max(first_start, 0)
        start_times = range(first_start, event_time + 1, self.advance)
        return [Span(max(start_time, FIRST_MS), min(start_time + self.size, LAST_MS)) for start_time in start_times]

    def closing_time(self, span: Span) -> int:
        """Return the stream time from which on the window takes no more records."""
        return span.end + self.grace

    @property
    def needed_after_end(self) -> int:
        """How long after its end a record may still need the window."""
        return self.grace

    @property
    def is_tumbling(self) -> bool:
        return self.size == self.advance

    def __str__(self) -> str:
        if self.is_tumbling:
            return f"TUMBLING (SIZE {self.size} MS, GRACE {self.grace} MS)"
        return f"HOPPING (SIZE {self.size} MS, ADVANCE {self.advance} MS, GRACE {self.grace} MS)"


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of records not more than `difference` apart. Both ends belong to it."""

    difference: int
    grace: int

    @property
    def possible_times(self) -> tuple[int, int]:
        """The first and the last time of a record whose windows lie within the possible times."""
        return FIRST_MS + self.difference, LAST_MS - self.difference - 1

    def closing_time(self, span: Span) -> int:
        """Return the stream time from which on the window takes no more records."""
        return span.end + self.grace + 1

    @property
    def needed_after_end(self) -> int:
        """How long after its end a record may still need the window: a new window may begin with its values."""
        return 2 * self.difference + self.grace

    def __str__(self) -> str:
        return f"SLIDING (DIFFERENCE {self.difference} MS, GRACE {self.grace} MS)"


@dataclass(frozen=True, slots=True)
class Session:
    """Windows of records with at most `gap` between neighbours. The end, the last record's time, belongs to it."""

    gap: int
    grace: int

    def closing_time(self, span: Span) -> int:
        """Return the stream time from which on the session takes no more records."""
        return span.end + self.gap + self.grace + 1

    @property
    def needed_after_end(self) -> int:
        """How long after its end a record may still need the session: the end of the merged session decides."""
        return 2 * self.gap + self.grace

    def __str__(self) -> str:
        return f"SESSION (GAP {self.gap} MS, GRACE {self.grace} MS)"


Window = Hopping | Sliding | Session


def default_grace(size: int) -> int:
    """Return the grace of a window declared without one: 24 hours less its size (rule 16)."""
    return max(DAY_MS - size, 0)
