"""Stream time and watermark: an operator's time, which comes from the records, never from a machine's clock.

Stream time is the largest event time of the records that have reached the operator, by partition of the topic, record
by record, the current one included (rule 13). The stream time of its own partition decides whether a record is late:

    event time     10  30  20  40
    stream time    10  30  30  40      20 is late for a window that closes at 25

The watermark is the smallest of the partitions' stream times; it never goes back. Final results wait for it. It ignores
a partition whose last record is older than the newest of all by more than `idle` (by order times).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Partition = str  # "topic/topic id/partition"


def is_superseded(old_partition: Partition, new_partition: Partition) -> bool:
    """Say whether a partition belongs to a deleted topic, and `new_partition` to the topic recreated under its name.

    The new partition begins a new time, and the deleted one must not hold back the watermark forever.
    """
    old_parts, new_parts = old_partition.split("/"), new_partition.split("/")
    return len(old_parts) == len(new_parts) == 3 and old_parts[0] == new_parts[0] and old_parts[1] != new_parts[1]


@dataclass(slots=True)
class Clock:
    """The stream times and the watermark of one operator. `idle_ms`: None to wait for every partition forever."""

    idle_ms: int | None = None
    stream_times: dict[Partition, int] = field(default_factory=dict)
    order_times: dict[Partition, int] = field(default_factory=dict)
    watermark: int | None = None

    def observe(self, partition: Partition, event_time: int, order_time: int) -> int:
        """Take in a record; return its partition's stream time."""
        if partition not in self.stream_times:
            for deleted_partition in [name for name in self.stream_times if is_superseded(name, partition)]:
                del self.stream_times[deleted_partition], self.order_times[deleted_partition]
        partition_time = max(event_time, self.stream_times.get(partition, event_time))
        self.stream_times[partition] = partition_time
        self.order_times[partition] = order_time
        newest_order = max(self.order_times.values())
        smallest_time = min(
            stream_time
            for name, stream_time in self.stream_times.items()
            if self.idle_ms is None or newest_order - self.order_times[name] <= self.idle_ms
        )
        self.watermark = smallest_time if self.watermark is None else max(self.watermark, smallest_time)
        return partition_time


@dataclass(frozen=True, slots=True)
class ClockState:
    """The state of a clock between batches: see `Clock`. Times are in milliseconds."""

    stream_times: Mapping[Partition, int] = field(default_factory=dict)
    order_times: Mapping[Partition, int] = field(default_factory=dict)
    watermark: int | None = None

    def plain(self) -> dict[str, Any]:
        """Return the form in which a property, an anchor and a cover keep it."""
        return {"stream_times": self.stream_times, "order_times": self.order_times, "watermark": self.watermark}

    def after(self, tails: list[Any], watermark: int | None) -> ClockState:
        """Return the clock after a batch: `tails` are its partitions' last records (part, time, order, tick)."""
        stream_times, order_times = dict(self.stream_times), dict(self.order_times)
        for tail in sorted(tails, key=lambda tail: tail.tick):
            for superseded_name in [name for name in stream_times if is_superseded(name, tail.part)]:
                del stream_times[superseded_name], order_times[superseded_name]
            stream_times[tail.part], order_times[tail.part] = tail.time, tail.order
        return ClockState(stream_times, order_times, watermark if watermark is not None else self.watermark)


def clock_from_plain(values: Mapping[str, Any]) -> ClockState:
    """Return the clock from its plain form."""
    return ClockState(values["stream_times"], values["order_times"], values["watermark"])
