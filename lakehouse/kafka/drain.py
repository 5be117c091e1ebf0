"""Reading a topic: what it holds at the time of the call, what comes, or single records. Committed records only."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.options import for_librdkafka
from lakehouse.kafka.topics import Cluster

SILENCE_SECONDS = 30.0
POLL_SECONDS = 0.1
# Nobody waits for new records here: by default the broker says that a partition has ended after half a second.
AT_ONCE = {"fetch.wait.max.ms": "10"}


def drain(cluster: Cluster, options: Mapping[str, str], topic: str, *, back: int | None = None) -> Iterator[Message]:
    """Yield a topic's committed records from the first to its present end; in order within a partition.

    back: only the last `back` offsets of each partition. Raises NotFound if there is no such topic, KafkaUnavailable
    when Kafka falls silent.
    """
    partitions = cluster.topics([topic])[topic].partitions
    offsets = cluster.offsets((topic, partition) for partition in range(partitions))
    left = {partition: end for (_, partition), (first, end) in offsets.items() if end > first}
    begin = {
        partition: first if back is None else max(first, end - back) for (_, partition), (first, end) in offsets.items()
    }
    consumer = _consumer(cluster, {**options, **AT_ONCE})
    try:
        consumer.assign([TopicPartition(topic, partition, begin[partition]) for partition in left])
        heard = time.monotonic()
        while left:
            # It waits until the number is reached or the time is over: at the end, a long time would be waited in full.
            messages = consumer.consume(10_000, POLL_SECONDS)
            if not messages and time.monotonic() - heard > SILENCE_SECONDS:
                raise KafkaUnavailable(
                    f"topic {topic!r}: nothing arrived for {SILENCE_SECONDS:g} s; expected {len(left)} more partitions."
                )
            for message in messages:
                is_end, partition, offset = _is_end(message, topic), message.partition(), message.offset()
                if partition is None or offset is None or partition not in left:
                    continue
                if not is_end and offset < left[partition]:
                    yield message
                if is_end or offset + 1 >= left[partition]:
                    del left[partition]
            if messages:
                heard = time.monotonic()  # now, not before they were handed over: their reader may take its time
    finally:
        consumer.close()


def follow(cluster: Cluster, options: Mapping[str, str], topic: str, *, from_beginning: bool) -> Iterator[Message]:
    """Yield a topic's committed records as they come, without end: from the first, or those written after the call.

    Raises NotFound if there is no such topic, KafkaUnavailable for an error of Kafka.
    """
    partitions = cluster.topics([topic])[topic].partitions
    offsets = cluster.offsets((topic, partition) for partition in range(partitions))
    consumer = _consumer(cluster, options)
    try:
        consumer.assign(
            [TopicPartition(topic, of, first if from_beginning else end) for (_, of), (first, end) in offsets.items()]
        )
        while True:
            message = consumer.poll(POLL_SECONDS)
            if message is not None and not _is_end(message, topic):
                yield message
    finally:
        consumer.close()


def pick(
    cluster: Cluster, options: Mapping[str, str], topic: str, places: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], Message]:
    """Return single records of a topic by (partition, offset); offsets without a record are left out.

    Raises KafkaUnavailable when Kafka falls silent.
    """
    found: dict[tuple[int, int], Message] = {}
    wanted = sorted(set(places))
    consumer = _consumer(cluster, {**options, **AT_ONCE})
    try:
        while wanted:
            # One record of each partition at a time: a partition is assigned with one offset to read from.
            now = dict(reversed(wanted))
            wanted = [(partition, offset) for partition, offset in wanted if now[partition] != offset]
            found |= _first_of(consumer, topic, now)
    finally:
        consumer.close()
    return found


def _first_of(consumer: Consumer, topic: str, places: Mapping[int, int]) -> dict[tuple[int, int], Message]:
    """Return the record at an offset of each partition."""
    found: dict[tuple[int, int], Message] = {}
    left = dict(places)
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in left.items()])
    while left:
        message = consumer.poll(SILENCE_SECONDS)
        if message is None:
            raise KafkaUnavailable(
                f"topic {topic!r}: nothing arrived for {SILENCE_SECONDS:g} s; expected the records at "
                f"{', '.join(f'{partition}/{offset}' for partition, offset in sorted(left.items()))}."
            )
        is_end, partition = _is_end(message, topic), message.partition()
        wanted = None if partition is None else left.pop(partition, None)
        if partition is not None and not is_end and wanted is not None and message.offset() == wanted:
            found[partition, wanted] = message
    return found


def _is_end(message: Message, topic: str) -> bool:
    """Say whether this is the end of a partition, and no record. Raises KafkaUnavailable for an error of Kafka."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaUnavailable(f"topic {topic!r}: {error.str()}.")
    return error is not None


def _consumer(cluster: Cluster, options: Mapping[str, str]) -> Consumer:
    return Consumer(
        {
            **for_librdkafka(options),
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "lakehouse.drain",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            # The end of a partition may be a transaction's marker, which comes as no record.
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
