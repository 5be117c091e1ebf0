"""Writes bronze back into a Kafka topic: the same bytes, headers, timestamps and partitions, in the same order.

The topic itself says how far an interrupted run got. The records in a partition are always the first that bronze has
for it (`lakehouse.kafka.ordered_producer`), so their number is the number to leave out; a run compares the first and
the last of them with bronze's before it adds anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Message

from lakehouse.errors import ConfigError, KafkaUnavailable
from lakehouse.kafka.drain import read_single_records
from lakehouse.kafka.ordered_producer import Headers, OrderedProducer, PlacedRecord
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import store
from lakehouse.lake.control import note
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.bronze_rows import BronzeRow, BronzeRows, PartitionRows
from lakehouse.plan.expression.schema import check_topic
from lakehouse.run.repair.refilled_topic import Target, open_target
from lakehouse.semantics.time.kafka_time import HEADER, find_impossible_time

POSITIONS = ("topic_id", "offset", "tick")
# librdkafka takes 0 for "now", and Kafka has no time before 1970.
FIRST_MS = 1


@dataclass(frozen=True, slots=True)
class Moved:
    """A partition, under one id of the source: `part` in bronze, from `offset` on in the topic."""

    part: PartitionRows
    offset: int

    @property
    def holes(self) -> int:
        """The number of offsets between the first and the last whose record bronze lacks, or was not chosen."""
        return self.part.last_offset - self.part.first_offset + 1 - self.part.records

    @property
    def keeps_offsets(self) -> bool:
        return self.offset == self.part.first_offset and self.holes == 0


@dataclass(frozen=True, slots=True)
class Rehydrated:
    """The result of a rehydrate. `records` are in the topic now, `written` of them by this run.

    untimed: how many records have a time that Kafka's client can't write (1970-01-01T00:00Z or before); they got the
    first millisecond after it.
    """

    topic: str
    to: str
    records: int
    written: int
    partitions: int
    created: bool
    moved: tuple[Moved, ...]
    untimed: int


def rehydrate(
    layout: Layout,
    bootstrap_servers: str,
    options: Mapping[str, str],
    source: BronzeRows,
    target_topic: str,
    *,
    partitions: int | None = None,
    append: bool = False,
    positions: bool = False,
    listen: Callable[[int, int], None] = lambda done, total: None,
) -> Rehydrated:
    """Write records of bronze to a Kafka topic; create the topic if it does not exist.

    partitions: of a new topic; as many as the source has if left out. append: write after the records that the topic
    has already. positions: add headers that give each record's place in bronze. listen: called with the number of
    records in the topic, and the total. Run again, it goes on where it ended. Raises ConfigError for a topic that can't
    take the records, LeaseHeld, KafkaUnavailable.
    """
    progress_path = layout.rehydrated(check_topic(target_topic))
    with Lease(layout.lease(f"rehydrate-{target_topic}"), f"topic {target_topic!r}"):
        cluster = Cluster(bootstrap_servers, options)
        destination = open_target(cluster, source, target_topic, partitions, append, progress_path)
        present_counts = _count_present(cluster, options, source, destination, positions, progress_path)
        total_count, done_count = source.records, sum(present_counts.values())
        if done_count < total_count:
            destination.remember(progress_path)
            with OrderedProducer(bootstrap_servers, options, target_topic, destination.largest) as producer:
                for row_chunk in source.read(present_counts):
                    producer.send(_place_row(row, positions) for row in row_chunk)
                    listen(done_count + producer.acknowledged, total_count)
                producer.flush()
            listen(total_count, total_count)
        _verify(cluster, source, destination)
        note.remove(progress_path)
    moved_partitions = _moved_partitions(source, destination)
    return Rehydrated(
        source.topic,
        target_topic,
        total_count,
        total_count - done_count,
        destination.partitions,
        destination.created,
        moved_partitions,
        source.untimed,
    )


def _place_row(row: BronzeRow, positions: bool) -> PlacedRecord:
    pairs = [(header["key"], header["value"]) for header in row.headers or ()]
    timestamp = row.timestamp // 1000
    if (original_time := find_impossible_time(timestamp, pairs)) is not None:
        timestamp, pairs = original_time, [(name, value) for name, value in pairs if name != HEADER]
    headers: Headers = [*pairs]
    if positions:
        headers += [(f"lakehouse.{name}", str(getattr(row, name)).encode()) for name in POSITIONS]
    return row.partition, max(timestamp, FIRST_MS), headers or None, row.key, row.value


def _count_present(
    cluster: Cluster,
    options: Mapping[str, str],
    source: BronzeRows,
    destination: Target,
    positions: bool,
    progress_path: str,
) -> dict[int, int]:
    """Return how many of the records each partition has already. Raises ConfigError if it has other records."""
    present_counts = {
        partition: end_offset - destination.begin[partition]
        for partition, (_, end_offset) in destination.ends(cluster).items()
    }
    present_counts = {partition: record_count for partition, record_count in present_counts.items() if record_count}
    edge_places = [
        (p, n)
        for p, record_count in present_counts.items()
        for n in (0, record_count - 1)
        if record_count <= source.counts.get(p, 0)
    ]
    rows_by_place = source.find(edge_places)
    messages = read_single_records(
        cluster, options, destination.name, [(p, destination.begin[p] + n) for p, n in edge_places]
    )
    removal_advice = (
        f"remove {progress_path}, which an interrupted run left, and " if store.file_exists(progress_path) else ""
    )
    for partition, record_count in sorted(present_counts.items()):
        begin_offset = destination.begin[partition]
        is_same = record_count <= source.counts.get(partition, 0) and all(
            (message := messages.get((partition, begin_offset + n))) is not None
            and _is_same_record(message, _place_row(rows_by_place[partition, n], positions))
            for n in (0, record_count - 1)
        )
        if not is_same:
            raise ConfigError(
                f"topic {destination.name!r}: partition {partition} holds {record_count} records from offset "
                f"{begin_offset} on which are not the first of the chosen records; expected an empty topic, or what an "
                f"interrupted run of the same command left. Name another topic, or {removal_advice}append to them: "
                "--append."
            )
    return present_counts


def _is_same_record(message: Message, record: PlacedRecord) -> bool:
    _, timestamp, headers, key, value = record
    actual = (message.timestamp()[1], message.headers() or None, message.key(), message.value())
    return actual == (timestamp, headers, key, value)


def _verify(cluster: Cluster, source: BronzeRows, destination: Target) -> None:
    """Raise KafkaUnavailable if the topic does not hold exactly the intended records."""
    for partition, (first, end) in destination.ends(cluster).items():
        begin_offset, expected_count = destination.begin[partition], source.counts.get(partition, 0)
        if end - begin_offset != expected_count or first > begin_offset:
            raise KafkaUnavailable(
                f"topic {destination.name!r}: partition {partition} has offsets {first} to {end}, exclusive; expected "
                f"{expected_count} records from {begin_offset} on. Somebody else writes to it, or Kafka drops its "
                "records. Rehydrate into another topic."
            )


def _moved_partitions(source: BronzeRows, destination: Target) -> tuple[Moved, ...]:
    next_offsets = dict(destination.begin)
    moved = []
    for part in source.parts:
        moved.append(Moved(part, next_offsets[part.partition]))
        next_offsets[part.partition] += part.records
    return tuple(moved)
