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
from lakehouse.semantics.operators.stream_join import JoinWindow
from lakehouse.spark.stream.stream_join import BEGINNING, StreamTimes

PARTS = 64  # the number of stretches into which ticks with unknown times are divided


class StretchTime(NamedTuple):
    """The largest event time in a partition, named as in `StreamTimes`, in a stretch of ticks that ends with `tick`."""

    tick: int
    partition: str
    time: int


# Called with a join, after_tick, to_tick and width; returns the largest event times of the ticks (after_tick, to_tick],
# in stretches of `width` ticks.
MeasureTimes = Callable[[StreamJoin, int, int, int], Iterable[StretchTime]]


@dataclass(slots=True)
class JoinStarts:
    """The known stream times of a lake's joins. Threads share it: a thread measures again what another has dropped."""

    known_times: list[tuple[tuple[StreamJoin, str | None], list[StreamTimes]]] = field(default_factory=list)

    def find_start(
        self, join: StreamJoin, after_tick: int, measure_times: MeasureTimes, skip: str | None = None
    ) -> StreamTimes:
        """Return where a batch of the ticks after `after_tick` begins to read.

        measure_times: called for ticks whose times are unknown. skip: the offsets of the records that lie in tick 0,
        for a restored table.
        """
        known_times = self._known_times_of((join, skip))
        stream_times = list(known_times)
        last_times = max(
            (times for times in stream_times if times.tick <= after_tick),
            key=lambda times: times.tick,
            default=BEGINNING,
        )
        if last_times.tick < after_tick:
            width = -(-(after_tick - last_times.tick) // PARTS)
            stretch_times = measure_times(join, last_times.tick, after_tick, width)
            stream_times += times_after_stretches(last_times, after_tick, stretch_times)
        start_times = find_start_times(join.within, stream_times, after_tick)
        known_times[:] = [times for times in stream_times if times.tick >= start_times.tick]
        return start_times

    def _known_times_of(self, join_read: tuple[StreamJoin, str | None]) -> list[StreamTimes]:
        for item, known_times in self.known_times:
            if item == join_read:
                return known_times
        self.known_times.append((join_read, []))
        return self.known_times[-1][1]


def times_after_stretches(
    last_times: StreamTimes, to_tick: int, stretch_times: Iterable[StretchTime]
) -> list[StreamTimes]:
    """Return the stream times after `last_times`: at the end of each stretch, and at `to_tick`."""
    later_times, time_by_partition = [], dict(last_times.times)
    stretch_times_by_tick: dict[int, list[StretchTime]] = {to_tick: []}
    for item in stretch_times:
        stretch_times_by_tick.setdefault(item.tick, []).append(item)
    for tick in sorted(stretch_times_by_tick):
        for item in stretch_times_by_tick[tick]:
            time_by_partition[item.partition] = max(item.time, time_by_partition.get(item.partition, item.time))
        later_times.append(StreamTimes(tick, dict(time_by_partition)))
    return later_times


def find_start_times(within: JoinWindow, known_times: Iterable[StreamTimes], after_tick: int) -> StreamTimes:
    """Return the last stream times up to which no record can matter after `after_tick`, whose times must be known.

    A record open at `after_tick` is at most the larger of `before` and `after`, and the grace, before its stream time;
    its partners at most that span more.
    """
    known_times = list(known_times)
    present_times = next((times for times in known_times if times.tick == after_tick), None)
    if present_times is None or not present_times.times:
        return BEGINNING
    oldest_time = (
        min(_last_era_times(present_times.times).values()) - 2 * max(within.before, within.after) - within.grace
    )
    past_times = [
        times
        for times in known_times
        if times.tick <= after_tick and max(times.times.values(), default=oldest_time) < oldest_time
    ]
    return max(past_times, key=lambda times: times.tick, default=BEGINNING)


def _last_era_times(times: Mapping[str, int]) -> dict[str, int]:
    """Return the stream time of each partition number, in its last era."""
    ordered_times = sorted((tuple(map(int, name.split("/"))), time) for name, time in times.items())
    return {str(number): time for (_, number), time in ordered_times}
