"""Bronze back into a Kafka topic: the same bytes, headers, timestamps and partitions, in the same order.

The topic itself says how far an interrupted run got. The records in a partition are always the first ones that bronze
has for it (`lakehouse.kafka.ordered`), so their number is the number to leave out; the first and the last of them are
compared with bronze's before anything is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Message

from lakehouse.errors import ConfigError, KafkaUnavailable
from lakehouse.kafka.drain import pick
from lakehouse.kafka.ordered import Headers, OrderedProducer, Placed
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.lake.record.bronze_rows import BronzeRow, BronzeRows, PartitionRows
from lakehouse.plan.schema import check_topic
from lakehouse.run.repair.refilled import Target, target
from lakehouse.semantics.kafka_time import HEADER, no_time

POSITIONS = ("topic_id", "offset", "tick")
# librdkafka takes 0 for "now", and Kafka has no time before 1970.
FIRST_MS = 1


@dataclass(frozen=True, slots=True)
class Moved:
    """One partition, under one id of the source: `part` in bronze, from `offset` on in the topic."""

    part: PartitionRows
    offset: int

    @property
    def holes(self) -> int:
        """How many offsets between the first and the last one have no record in bronze, or none that was chosen."""
        return self.part.last_offset - self.part.first_offset + 1 - self.part.records

    @property
    def keeps_offsets(self) -> bool:
        return self.offset == self.part.first_offset and self.holes == 0


@dataclass(frozen=True, slots=True)
class Rehydrated:
    """The result of a rehydrate. `records` are in the topic now, `written` of them by this run.

    untimed: how many have a time that Kafka's client can't write (1970-01-01T00:00Z or before); they got the first
    millisecond after it.
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
    to: str,
    *,
    partitions: int | None = None,
    append: bool = False,
    positions: bool = False,
    listen: Callable[[int, int], None] = lambda done, total: None,
) -> Rehydrated:
    """Write records of bronze to a Kafka topic, which is created if it does not exist.

    partitions: of a new topic; as many as the source has if left out. append: after the records that it has already.
    positions: with headers that give each record's place in bronze. listen: is told how many records are in the topic,
    and the total. Run again, it goes on where it ended. Raises ConfigError for a topic that can't be written to,
    LeaseHeld, KafkaUnavailable.
    """
    remembered = Path(layout.rehydrated(check_topic(to)))
    with Lease(layout.lease(f"rehydrate-{to}"), f"topic {to!r}"):
        cluster = Cluster(bootstrap_servers, options)
        into = target(cluster, source, to, partitions, append, remembered)
        there = _there(cluster, options, source, into, positions, remembered)
        total, done = source.records, sum(there.values())
        if done < total:
            into.remember(remembered)
            with OrderedProducer(bootstrap_servers, options, to, into.largest) as producer:
                for rows in source.read(there):
                    producer.send(_placed(row, positions) for row in rows)
                    listen(done + producer.acknowledged, total)
                producer.flush()
            listen(total, total)
        _verify(cluster, source, into)
        remembered.unlink(missing_ok=True)
    moved = _moved(source, into)
    return Rehydrated(source.topic, to, total, total - done, into.partitions, into.created, moved, source.untimed)


def _placed(row: BronzeRow, positions: bool) -> Placed:
    pairs = [(header["key"], header["value"]) for header in row.headers or ()]
    timestamp = row.timestamp // 1000
    if (said := no_time(timestamp, pairs)) is not None:
        timestamp, pairs = said, [(name, value) for name, value in pairs if name != HEADER]
    headers: Headers = [*pairs]
    if positions:
        headers += [(f"lakehouse.{name}", str(getattr(row, name)).encode()) for name in POSITIONS]
    return row.partition, max(timestamp, FIRST_MS), headers or None, row.key, row.value


def _there(
    cluster: Cluster, options: Mapping[str, str], source: BronzeRows, into: Target, positions: bool, remembered: Path
) -> dict[int, int]:
    """Return how many of the records each partition has already; ConfigError if it holds others."""
    there = {partition: end - into.begin[partition] for partition, (_, end) in into.ends(cluster).items()}
    there = {partition: count for partition, count in there.items() if count}
    known = [(p, n) for p, count in there.items() for n in (0, count - 1) if count <= source.counts.get(p, 0)]
    rows = source.find(known)
    found = pick(cluster, options, into.name, [(p, into.begin[p] + n) for p, n in known])
    remove = f"remove {remembered}, which an interrupted run left, and " if remembered.exists() else ""
    for partition, count in sorted(there.items()):
        begin = into.begin[partition]
        same = count <= source.counts.get(partition, 0) and all(
            (message := found.get((partition, begin + n))) is not None
            and _same(message, _placed(rows[partition, n], positions))
            for n in (0, count - 1)
        )
        if not same:
            raise ConfigError(
                f"topic {into.name!r}: partition {partition} holds {count} records from offset {begin} on which are "
                "not the first of the chosen records; expected an empty topic, or what an interrupted run of the "
                f"same command left. Name another topic, or {remove}append to them: --append."
            )
    return there


def _same(message: Message, record: Placed) -> bool:
    _, timestamp, headers, key, value = record
    found = (message.timestamp()[1], message.headers() or None, message.key(), message.value())
    return found == (timestamp, headers, key, value)


def _verify(cluster: Cluster, source: BronzeRows, into: Target) -> None:
    """Raise KafkaUnavailable if the topic does not hold exactly the intended records."""
    for partition, (first, end) in into.ends(cluster).items():
        begin, expected = into.begin[partition], source.counts.get(partition, 0)
        if end - begin != expected or first > begin:
            raise KafkaUnavailable(
                f"topic {into.name!r}: partition {partition} has offsets {first} to {end}, exclusive; expected "
                f"{expected} records from {begin} on. Somebody else writes to it, or Kafka drops its records. "
                "Rehydrate into another topic."
            )


def _moved(source: BronzeRows, into: Target) -> tuple[Moved, ...]:
    following = dict(into.begin)
    moved = []
    for part in source.parts:
        moved.append(Moved(part, following[part.partition]))
        following[part.partition] += part.records
    return tuple(moved)
