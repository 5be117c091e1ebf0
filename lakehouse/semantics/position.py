"""The place of a record in the order of the lake, and its identity.

All meaning that depends on order uses `Position` and nothing else (docs/decisions/order-is-the-position.md):

    (tick, order_time, topic, partition, offset, ordinals)

A *tick* is one micro-batch of the lake's ingest query. Inside a tick, records of several partitions are ordered by
their *order time*: the running maximum of the record timestamps in a partition. A running maximum never goes back, so
the order of a partition is always the order of its offsets:

    offset      0   1   2   3
    timestamp  10  30  20  40
    order time 10  30  30  40        right: offset 2 stays behind offset 1
               10  20  30  40        wrong: sorting by timestamp would put offset 2 before offset 1

A step that makes several records from one (explode, a table's changes) appends each record's number to its *ordinals*,
and a merge puts the number of the stream before them. Ordinals never run out of numbers, and sort as lists of numbers:

    record      ()
    explode     (0,)            (1,)
    explode     (0, 0) (0, 1)   (1, 0)        right: what is made from (0,) stays before (1,)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class RecordPlace(NamedTuple):
    """The place of a record in Kafka: topic/partition/offset."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Position(NamedTuple):
    """The place of a record in the order of the lake; compares as a tuple.

    `order_time` is in milliseconds since the epoch. `ordinals` has a number, from 0, for each step that makes several
    records from one; it is empty for a record of a topic.
    """

    tick: int
    order_time: int
    topic: str
    partition: int
    offset: int
    ordinals: tuple[int, ...] = ()

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Position:
        """Return a position from its fields in the form of Spark, Arrow and JSON, with the ordinals as a list."""
        # By name and without a copy: this runs for each record of a fold in Python.
        place_fields = (fields["tick"], fields["order_time"], fields["topic"], fields["partition"], fields["offset"])
        return cls(*place_fields, tuple(fields["ordinals"]))

    @property
    def text(self) -> str:
        """The position as text, unique in the lake: tick/topic/partition/offset/ordinals."""
        place_fields = (self.tick, self.topic, self.partition, self.offset, ".".join(map(str, self.ordinals)))
        return "/".join(map(str, place_fields))

    @property
    def record_position(self) -> Position:
        """The position of the topic's record from which this one was made."""
        return self._replace(ordinals=())

    def with_number(self, number: int) -> Position:
        """Return the position of one of several records that a step makes from the record at this position."""
        return self._replace(ordinals=(*self.ordinals, number))

    def with_stream_number(self, number: int) -> Position:
        """Return the position in a merge of streams; records of the first stream come first."""
        return self._replace(ordinals=(number, *self.ordinals))


class Identity(NamedTuple):
    """The identity of a record: a topic that was deleted and recreated has another id, so it is another topic."""

    topic_id: str
    partition: int
    offset: int


def order_times(timestamps_ms: Iterable[int], carried_ms: int | None = None) -> list[int]:
    """Return the running maximum of the timestamps of one partition, in offset order.

    `carried_ms` is the order time of the partition's last record before these; None for its first records.
    """
    running_times: list[int] = []
    highest_time = carried_ms
    for timestamp in timestamps_ms:
        highest_time = timestamp if highest_time is None else max(highest_time, timestamp)
        running_times.append(highest_time)
    return running_times
