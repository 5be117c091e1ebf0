"""Explain holes, offsets at which a reader got no record, by asking Kafka about each one.

expired   below the first offset that Kafka still has
aborted   a record of an aborted transaction, which only a reader of uncommitted records gets
own       Kafka's own: a transaction's marker, or a record that compaction removed; no reader gets a record
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
from lakehouse.kafka.options import librdkafka_options
from lakehouse.kafka.rights import HOLES_GROUP, describe_missing_read_right
from lakehouse.kafka.topics import Cluster

OffsetRange = tuple[int, int]  # half-open
FAR_OFFSETS = 10_000  # holes at most this far apart are read in one go, with the offsets between them
HOLES_AT_ONCE = 100_000


class HoleCounts(NamedTuple):
    """The numbers of offsets in some holes by their kind, and the first offset of kind `there`."""

    expired: int = 0
    aborted: int = 0
    own: int = 0
    there: int = 0
    beyond: int = 0
    first_there: int | None = None


class Holes:
    """Two consumers of one Kafka, for committed and for all records. A context manager.

    Its methods raise KafkaUnavailable if Kafka falls silent or refuses.
    """

    def __init__(self, cluster: Cluster, options: Mapping[str, str]) -> None:
        self._cluster, self._options = cluster, options
        self._committed, self._uncommitted = (
            Consumer(
                {
                    **librdkafka_options(options),
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "group.id": HOLES_GROUP,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "isolation.level": isolation,
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 10,  # nobody waits for new records here, only for the end of a partition
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
        first_offset, end_offset = self._cluster.offsets([(topic, partition)])[topic, partition]
        hole_counts = HoleCounts()
        for stretch in _walk_stretches(holes):
            expired_count = sum(min(high, first_offset) - low for low, high in stretch if low < first_offset)
            beyond_count = sum(high - max(low, end_offset) for low, high in stretch if high > end_offset)
            inside_holes = [
                (max(low, first_offset), min(high, end_offset))
                for low, high in stretch
                if high > first_offset and low < end_offset
            ]
            committed_count, first_there = self._count_records(self._committed, topic, partition, inside_holes)
            uncommitted_count, _ = self._count_records(self._uncommitted, topic, partition, inside_holes)
            inside_count = sum(high - low for low, high in inside_holes)
            hole_counts = HoleCounts(
                hole_counts.expired + expired_count,
                hole_counts.aborted + uncommitted_count - committed_count,
                hole_counts.own + inside_count - uncommitted_count,
                hole_counts.there + committed_count,
                hole_counts.beyond + beyond_count,
                hole_counts.first_there if hole_counts.first_there is not None else first_there,
            )
        return hole_counts

    def _count_records(
        self, consumer: Consumer, topic: str, partition: int, holes: list[OffsetRange]
    ) -> tuple[int, int | None]:
        """Return the number of records that a consumer gets in the holes, and the offset of the first."""
        record_count, first_offset, hole_index = 0, None, 0
        for offset in _walk_record_offsets(consumer, topic, partition, holes, self._options) if holes else ():
            while hole_index < len(holes) and holes[hole_index][1] <= offset:
                hole_index += 1
            if hole_index < len(holes) and holes[hole_index][0] <= offset:
                record_count += 1
                first_offset = offset if first_offset is None else first_offset
        return record_count, first_offset


def _walk_record_offsets(
    consumer: Consumer, topic: str, partition: int, holes: list[OffsetRange], options: Mapping[str, str]
) -> Iterator[int]:
    """Yield the offsets of the records that a consumer gets from the start of the first hole to the end of the last."""
    consumer.assign([TopicPartition(topic, partition, holes[0][0])])
    last_heard = time.monotonic()
    try:
        while True:
            messages = consumer.consume(FAR_OFFSETS, POLL_SECONDS)
            if not messages and time.monotonic() - last_heard > SILENCE_SECONDS:
                raise KafkaUnavailable(f"topic {topic!r}: nothing arrived for {SILENCE_SECONDS:g} s.")
            for message in messages:
                last_heard = time.monotonic()
                error, offset = message.error(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    missing_right = describe_missing_read_right(error, options, HOLES_GROUP, topic)
                    raise KafkaUnavailable(f"topic {topic!r}: {missing_right or f'{error.str()}.'}")
                if error is not None or offset is None or offset >= holes[-1][1]:
                    return
                yield offset
    finally:
        consumer.unassign()


def _walk_stretches(holes: Iterable[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Yield groups of holes that lie close together: each group is read in one go."""
    stretch: list[OffsetRange] = []
    for hole in holes:
        if stretch and (hole[0] - stretch[-1][1] > FAR_OFFSETS or len(stretch) >= HOLES_AT_ONCE):
            yield stretch
            stretch = []
        stretch.append(hole)
    if stretch:
        yield stretch
