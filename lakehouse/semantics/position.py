"""The place of a record in the lake's one order, and its identity.

All meaning that depends on order uses `Position` and nothing else (DESIGN.md, decision 2):

    (tick, order_time, topic, partition, offset, ordinal)

A *tick* is one micro-batch of the lake's one ingest query. Inside a tick, records of several partitions are put in
order by their *order time*: the running maximum of the record timestamp in its partition. A running maximum never
goes back, so the order of a partition is always the order of its offsets:

    offset      0   1   2   3
    timestamp  10  30  20  40
    order time 10  30  30  40        right: offset 2 stays behind offset 1
               10  20  30  40        wrong: sorting by timestamp would put offset 2 before offset 1
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

# A step that makes several records from one (explode, merge) numbers them in this many bits of the ordinal.
LEVEL_BITS = 20


class Position(NamedTuple):
    """The place of a record in the order of the lake; compares like the tuple that it is.

    `order_time` is in milliseconds since the epoch; `ordinal` numbers the rows derived from one record, from 0.
    """

    tick: int
    order_time: int
    topic: str
    partition: int
    offset: int
    ordinal: int = 0


class Identity(NamedTuple):
    """The identity of a record: a topic that was deleted and recreated has another id, so it is another topic."""

    topic_id: str
    partition: int
    offset: int


def order_times(timestamps_ms: Iterable[int], carried_ms: int | None = None) -> list[int]:
    """Return the running maximum of the timestamps of one partition, in offset order.

    `carried_ms` is the order time of the partition's last record before these; None for its first records.
    """
    running: list[int] = []
    highest = carried_ms
    for timestamp in timestamps_ms:
        highest = timestamp if highest is None else max(highest, timestamp)
        running.append(highest)
    return running
