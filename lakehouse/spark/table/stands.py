"""Where a join of streams has to begin to read: the stream times after earlier ticks, as long as a lake is open.

A record that has closed, and is too far from all that is open, can't matter any more. So a batch need not read the
ticks in which there are only such records: it begins after them, with the stream times as they were then. This can be
told from bronze at any time; kept is only what the last batch knew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.plan.stream_join import StreamJoin
from lakehouse.semantics.operators.stream_join import Within
from lakehouse.spark.stream.stream_join import BEGINNING, Stand

PARTS = 64  # into how many stretches ticks of which nothing is known are divided


class Reached(NamedTuple):
    """The largest event time in a partition, named as in `Stand`, in a stretch of ticks that ends with `tick`."""

    tick: int
    partition: str
    time: int


# The records of a join's streams in the ticks (after, to], in stretches of so many ticks.
Measure = Callable[[StreamJoin, int, int, int], Iterable[Reached]]


@dataclass(slots=True)
class Stands:
    """What is known of a lake's joins of streams. Threads share it: what one forgets another asks for again."""

    known: list[tuple[tuple[StreamJoin, str | None], list[Stand]]] = field(default_factory=list)

    def begin(self, join: StreamJoin, after: int, measure: Measure, skip: str | None = None) -> Stand:
        """Return where a batch of the ticks after `after` begins to read. measure: gives what is not known yet.

        skip: the offsets of the records that lie in tick 0, for a restored table.
        """
        known = self._of((join, skip))
        stands = list(known)
        last = max((stand for stand in stands if stand.tick <= after), key=lambda stand: stand.tick, default=BEGINNING)
        if last.tick < after:
            width = -(-(after - last.tick) // PARTS)
            stands += later(last, after, measure(join, last.tick, after, width))
        begun = first_needed(join.within, stands, after)
        known[:] = [stand for stand in stands if stand.tick >= begun.tick]
        return begun

    def _of(self, read: tuple[StreamJoin, str | None]) -> list[Stand]:
        for item, stands in self.known:
            if item == read:
                return stands
        self.known.append((read, []))
        return self.known[-1][1]


def later(last: Stand, to: int, reached: Iterable[Reached]) -> list[Stand]:
    """Return the stands after a stand: at the end of each stretch, and at tick `to`."""
    stands, times = [], dict(last.times)
    by_tick: dict[int, list[Reached]] = {to: []}
    for item in reached:
        by_tick.setdefault(item.tick, []).append(item)
    for tick in sorted(by_tick):
        for item in by_tick[tick]:
            times[item.partition] = max(item.time, times.get(item.partition, item.time))
        stands.append(Stand(tick, dict(times)))
    return stands


def first_needed(within: Within, stands: Iterable[Stand], after: int) -> Stand:
    """Return the last stand up to which no record can matter after tick `after`, for which there is a stand.

    What is open at `after` is at most `span` and the grace before its stream time; its partners at most a span more.
    """
    stands = list(stands)
    now = next((stand for stand in stands if stand.tick == after), None)
    if now is None or not now.times:
        return BEGINNING
    oldest = min(_present(now.times).values()) - 2 * max(within.before, within.after) - within.grace
    past = [stand for stand in stands if stand.tick <= after and max(stand.times.values(), default=oldest) < oldest]
    return max(past, key=lambda stand: stand.tick, default=BEGINNING)


def _present(times: Mapping[str, int]) -> dict[str, int]:
    """The stream time of each number of a partition: that of its last era."""
    in_order = sorted((tuple(map(int, name.split("/"))), time) for name, time in times.items())
    return {str(number): time for (_, number), time in in_order}
