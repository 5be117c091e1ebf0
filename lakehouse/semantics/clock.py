"""Stream time and watermark: what time it is for an operator. It is the records that say so, never a machine's clock.

Stream time is the largest event time of the records that have reached the operator, by partition of the topic, record
by record, the current one included (rule 13; DESIGN.md, decision 7). A record is judged by its own partition's:

    event time     10  30  20  40
    stream time    10  30  30  40      20 is late for a window that closes at 25

The watermark is the smallest of the partitions' stream times; it never goes back. Final results wait for it. A
partition whose last record is older than the newest of all by more than `idle` (by order times) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Partition = str  # "topic/topic id/partition"


def superseded(old: Partition, new: Partition) -> bool:
    """Say whether a partition is of a topic that was deleted: `new` is of the topic that was made anew.

    It begins a new time, and what is gone must not hold the watermark back for ever.
    """
    before, after = old.split("/"), new.split("/")
    return len(before) == len(after) == 3 and before[0] == after[0] and before[1] != after[1]


@dataclass(slots=True)
class Clock:
    """The stream times and the watermark of one operator. `idle_ms`: None to wait for every partition for ever."""

    idle_ms: int | None = None
    stream_times: dict[Partition, int] = field(default_factory=dict)
    order_times: dict[Partition, int] = field(default_factory=dict)
    watermark: int | None = None

    def observe(self, partition: Partition, time: int, order_time: int) -> int:
        """Take a record in; return its partition's stream time."""
        if partition not in self.stream_times:
            for gone in [name for name in self.stream_times if superseded(name, partition)]:
                del self.stream_times[gone], self.order_times[gone]
        now = max(time, self.stream_times.get(partition, time))
        self.stream_times[partition] = now
        self.order_times[partition] = order_time
        newest = max(self.order_times.values())
        smallest = min(
            stream_time
            for name, stream_time in self.stream_times.items()
            if self.idle_ms is None or newest - self.order_times[name] <= self.idle_ms
        )
        self.watermark = smallest if self.watermark is None else max(self.watermark, smallest)
        return now
