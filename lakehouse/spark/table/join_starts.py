"""Decides where a join of streams begins to read, from the stream times after earlier ticks, while a lake is open.

A record that has closed, and is too far from all open ones, can't matter any more. So a batch need not read ticks that
have only such records: it begins after them, with the stream times as they were then. Bronze gives these times again
whenever needed; this keeps only those that the last batch knew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.plan.stream_join import StreamJoin
from lakehouse.semantics.operators.stream_join import Within
from lakehouse.spark.stream.stream_join import BEGINNING, StreamTimes

PARTS = 64  # the number of stretches into which ticks with unknown times are divided


class ReachedTime(NamedTuple):
    """The largest event time in a partition, named as in `StreamTimes`, in a stretch of ticks that ends with `tick`."""

    tick: int
    partition: str
    time: int


# Called with a join, after_tick, to_tick and width: gives the largest event times of the ticks (after_tick, to_tick],
# in stretches of `width` ticks.
Measure = Callable[[StreamJoin, int, int, int], Iterable[ReachedTime]]


@dataclass(slots=True)
class Stands:
    """The known stream times of a lake's joins. Threads share it: a thread measures again what another has dropped."""

    known: list[tuple[tuple[StreamJoin, str | None], list[StreamTimes]]] = field(default_factory=list)

    def begin(self, join: StreamJoin, after_tick: int, measure: Measure, skip: str | None = None) -> StreamTimes:
        """Return where a batch of the ticks after `after_tick` begins to read.

        measure: called for ticks whose times are unknown. skip: the offsets of the records that lie in tick 0, for a
        restored table.
        """
        known_stands = self._stands_of((join, skip))
        stands = list(known_stands)
        last_stand = max(
            (stand for stand in stands if stand.tick <= after_tick), key=lambda stand: stand.tick, default=BEGINNING
        )
        if last_stand.tick < after_tick:
            width = -(-(after_tick - last_stand.tick) // PARTS)
            stands += later_stands(last_stand, after_tick, measure(join, last_stand.tick, after_tick, width))
        first_stand = first_needed(join.within, stands, after_tick)
        known_stands[:] = [stand for stand in stands if stand.tick >= first_stand.tick]
        return first_stand

    def _stands_of(self, join_read: tuple[StreamJoin, str | None]) -> list[StreamTimes]:
        for item, stands in self.known:
            if item == join_read:
                return stands
        self.known.append((join_read, []))
        return self.known[-1][1]


def later_stands(last_stand: StreamTimes, to_tick: int, reached_times: Iterable[ReachedTime]) -> list[StreamTimes]:
    """Return the stands after a stand: at the end of each stretch, and at `to_tick`."""
    stands, times = [], dict(last_stand.times)
    reached_by_tick: dict[int, list[ReachedTime]] = {to_tick: []}
    for item in reached_times:
        reached_by_tick.setdefault(item.tick, []).append(item)
    for tick in sorted(reached_by_tick):
        for item in reached_by_tick[tick]:
            times[item.partition] = max(item.time, times.get(item.partition, item.time))
        stands.append(StreamTimes(tick, dict(times)))
    return stands


def first_needed(within: Within, stands: Iterable[StreamTimes], after_tick: int) -> StreamTimes:
    """Return the last stand up to which no record can matter after `after_tick`, which must have a stand itself.

    A record open at `after_tick` is at most the larger of `before` and `after`, and the grace, before its stream time;
    its partners at most that span more.
    """
    stands = list(stands)
    current_stand = next((stand for stand in stands if stand.tick == after_tick), None)
    if current_stand is None or not current_stand.times:
        return BEGINNING
    oldest_time = (
        min(_present_times(current_stand.times).values()) - 2 * max(within.before, within.after) - within.grace
    )
    past_stands = [
        stand
        for stand in stands
        if stand.tick <= after_tick and max(stand.times.values(), default=oldest_time) < oldest_time
    ]
    return max(past_stands, key=lambda stand: stand.tick, default=BEGINNING)


def _present_times(times: Mapping[str, int]) -> dict[str, int]:
    """Return the stream time of each partition number, in its last era."""
    ordered_times = sorted((tuple(map(int, name.split("/"))), time) for name, time in times.items())
    return {str(number): time for (_, number), time in ordered_times}
