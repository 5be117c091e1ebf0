"""Why there is no record for a reader at an offset: Kafka is asked about each one.

expired   below the first offset that Kafka still has
aborted   a record of an aborted transaction: only a reader of uncommitted records gets it
own       nobody gets a record there: a transaction's marker, or a record that compaction removed
there     a reader of committed records gets a record there: a reader without it has lost it
beyond    at or after the end of Kafka's log
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.drain import POLL_SECONDS, SILENCE_SECONDS
from lakehouse.kafka.options import for_librdkafka
from lakehouse.kafka.topics import Cluster

OffsetRange = tuple[int, int]  # half-open
FAR = 10_000  # offsets between two holes that are read over rather than skipped
HOLES_AT_ONCE = 100_000


class HoleCounts(NamedTuple):
    """How many offsets of some holes are of each kind, and the first one of kind there."""

    expired: int = 0
    aborted: int = 0
    own: int = 0
    there: int = 0
    beyond: int = 0
    first_there: int | None = None


class Holes:
    """Two readers of one Kafka. A context manager. Raises KafkaUnavailable if Kafka falls silent or refuses."""

    def __init__(self, cluster: Cluster, options: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._committed, self._uncommitted = (
            Consumer(
                {
                    **for_librdkafka(options),
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "group.id": "lakehouse.holes",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": isolation,
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 10,  # nobody waits for new records here, only for the end
                    "log_level": 0,
                }
            )
            for isolation in ("read_committed", "read_uncommitted")
        )

    def __enter__(self) -> Holes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._committed.close()
        self._uncommitted.close()

    def explain(self, topic: str, partition: int, holes: Iterable[OffsetRange]) -> HoleCounts:
        """Explain the holes of a partition, given in order. Raises NotFound if there is no such topic or partition."""
        first, end = self._cluster.offsets([(topic, partition)])[topic, partition]
        total = HoleCounts()
        for stretch in _stretches(holes):
            expired = sum(min(high, first) - low for low, high in stretch if low < first)
            beyond = sum(high - max(low, end) for low, high in stretch if high > end)
            inside = [(max(low, first), min(high, end)) for low, high in stretch if high > first and low < end]
            there, first_there = self._seen(self._committed, topic, partition, inside)
            seen, _ = self._seen(self._uncommitted, topic, partition, inside)
            asked = sum(high - low for low, high in inside)
            total = HoleCounts(
                total.expired + expired,
                total.aborted + seen - there,
                total.own + asked - seen,
                total.there + there,
                total.beyond + beyond,
                total.first_there if total.first_there is not None else first_there,
            )
        return total

    def _seen(self, consumer: Consumer, topic: str, partition: int, holes: list[OffsetRange]) -> tuple[int, int | None]:
        """The number of records that a reader gets in the holes, and the offset of the first."""
        count, first, at = 0, None, 0
        for offset in _offsets(consumer, topic, partition, holes) if holes else ():
            while at < len(holes) and holes[at][1] <= offset:
                at += 1
            if at < len(holes) and holes[at][0] <= offset:
                count += 1
                first = offset if first is None else first
        return count, first


def _offsets(consumer: Consumer, topic: str, partition: int, holes: list[OffsetRange]) -> Iterator[int]:
    """The offsets of the records that a reader gets from the start of the first hole to the end of the last."""
    consumer.assign([TopicPartition(topic, partition, holes[0][0])])
    heard = time.monotonic()
    try:
        while True:
            messages = consumer.consume(FAR, POLL_SECONDS)
            if not messages and time.monotonic() - heard > SILENCE_SECONDS:
                raise KafkaUnavailable(f"topic {topic!r}: nothing arrived for {SILENCE_SECONDS:g} s.")
            for message in messages:
                heard = time.monotonic()
                error, offset = message.error(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaUnavailable(f"topic {topic!r}: {error.str()}.")
                if error is not None or offset is None or offset >= holes[-1][1]:
                    return
                yield offset
    finally:
        consumer.unassign()


def _stretches(holes: Iterable[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Groups of holes that lie near each other: each group is read in one go."""
    stretch: list[OffsetRange] = []
    for hole in holes:
        if stretch and (hole[0] - stretch[-1][1] > FAR or len(stretch) >= HOLES_AT_ONCE):
            yield stretch
            stretch = []
        stretch.append(hole)
    if stretch:
        yield stretch
