"""Read a topic's records: those that it has now, those that come later, or single ones. No group is left behind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.options import librdkafka_options
from lakehouse.kafka.rights import DRAIN_GROUP, describe_missing_read_right
from lakehouse.kafka.topics import Cluster

SILENCE_SECONDS = 30.0
POLL_SECONDS = 0.1
# Nobody waits for new records here; by default the broker reports the end of a partition only after half a second.
AT_ONCE = {"fetch.wait.max.ms": "10"}


def read_topic(
    cluster: Cluster, options: Mapping[str, str], topic: str, *, last_offsets: int | None = None
) -> Iterator[Message]:
    """Yield a topic's committed records from the first to its present end; in order within a partition.

    last_offsets: how many offsets before the end of each partition to read; all if None. Raises NotFound if there is no
    such topic, KafkaUnavailable when Kafka falls silent.
    """
    offsets = topic_offsets(cluster, topic)
    return read_offsets(
        cluster,
        options,
        topic,
        {
            partition: (
                first_offset if last_offsets is None else max(first_offset, end_offset - last_offsets),
                end_offset,
            )
            for partition, (first_offset, end_offset) in offsets.items()
        },
    )


def topic_offsets(cluster: Cluster, topic: str, *, committed: bool = True) -> dict[int, tuple[int, int]]:
    """Return the (earliest, latest) offset of each partition of a topic. Raises NotFound, KafkaUnavailable."""
    partitions = range(cluster.topics([topic])[topic].partitions)
    offsets = cluster.offsets(((topic, partition) for partition in partitions), committed=committed)
    return {partition: bounds for (_, partition), bounds in offsets.items()}


def read_offsets(
    cluster: Cluster,
    options: Mapping[str, str],
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    *,
    committed: bool = True,
) -> Iterator[Message]:
    """Yield the records in ranges of offsets by partition, each from the first to before the second.

    committed: without records of transactions that are open, or were given up. Raises KafkaUnavailable when Kafka falls
    silent.
    """
    end_offsets = {
        partition: end_offset for partition, (begin_offset, end_offset) in ranges.items() if end_offset > begin_offset
    }
    if not end_offsets:
        return
    consumer = _drain_consumer(cluster, {**options, **AT_ONCE}, committed=committed)
    try:
        consumer.assign([TopicPartition(topic, partition, ranges[partition][0]) for partition in end_offsets])
        last_heard = time.monotonic()
        while end_offsets:
            # consume() waits for the full number of messages or the full time: at the end, a long time would be lost.
            messages = consumer.consume(10_000, POLL_SECONDS)
            if not messages and time.monotonic() - last_heard > SILENCE_SECONDS:
                raise KafkaUnavailable(
                    f"topic {topic!r}: nothing arrived for {SILENCE_SECONDS:g} s; expected {len(end_offsets)} more "
                    "partitions."
                )
            for message in messages:
                is_end, partition, offset = (
                    _is_partition_end(message, topic, options),
                    message.partition(),
                    message.offset(),
                )
                if partition is None or offset is None or partition not in end_offsets:
                    continue
                if not is_end and offset < end_offsets[partition]:
                    yield message
                # A replica that lags behind the leader ends before the range does, and goes on.
                if offset + (0 if is_end else 1) >= end_offsets[partition]:
                    del end_offsets[partition]
            if messages:
                last_heard = time.monotonic()  # after the records were handed over: their reader may take its time
    finally:
        consumer.close()


def follow_topic(
    cluster: Cluster, options: Mapping[str, str], topic: str, *, from_beginning: bool
) -> Iterator[Message]:
    """Yield a topic's committed records as they come, without end: from the first, or those written after the call.

    Raises NotFound if there is no such topic, KafkaUnavailable for an error of Kafka.
    """
    offsets = topic_offsets(cluster, topic)
    begin_offsets = {partition: bounds[0 if from_beginning else 1] for partition, bounds in offsets.items()}
    return follow_offsets(cluster, options, topic, begin_offsets)


def follow_offsets(
    cluster: Cluster,
    options: Mapping[str, str],
    topic: str,
    begin_offsets: Mapping[int, int],
    *,
    committed: bool = True,
) -> Iterator[Message]:
    """Yield records from an offset of each partition on, as they come, without end. Raises KafkaUnavailable."""
    consumer = _drain_consumer(cluster, options, committed=committed)
    try:
        consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in begin_offsets.items()])
        while True:
            message = consumer.poll(POLL_SECONDS)
            if message is not None and not _is_partition_end(message, topic, options):
                yield message
    finally:
        consumer.close()


def read_single_records(
    cluster: Cluster, options: Mapping[str, str], topic: str, places: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], Message]:
    """Return single records of a topic by (partition, offset); offsets without a record are left out.

    Raises KafkaUnavailable when Kafka falls silent.
    """
    messages_by_place: dict[tuple[int, int], Message] = {}
    wanted_places = sorted(set(places))
    consumer = _drain_consumer(cluster, {**options, **AT_ONCE})
    try:
        while wanted_places:
            # One record of each partition at a time, since assigning a partition sets one offset to read from.
            offsets_now = dict(reversed(wanted_places))
            wanted_places = [
                (partition, offset) for partition, offset in wanted_places if offsets_now[partition] != offset
            ]
            messages_by_place |= _read_one_each(consumer, topic, offsets_now, options)
    finally:
        consumer.close()
    return messages_by_place


def _read_one_each(
    consumer: Consumer, topic: str, places: Mapping[int, int], options: Mapping[str, str]
) -> dict[tuple[int, int], Message]:
    """Return the record at an offset of each partition."""
    messages_by_place: dict[tuple[int, int], Message] = {}
    offsets_left = dict(places)
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in offsets_left.items()])
    while offsets_left:
        message = consumer.poll(SILENCE_SECONDS)
        if message is None:
            raise KafkaUnavailable(
                f"topic {topic!r}: nothing arrived for {SILENCE_SECONDS:g} s; expected the records at "
                f"{', '.join(f'{partition}/{offset}' for partition, offset in sorted(offsets_left.items()))}."
            )
        is_end, partition = _is_partition_end(message, topic, options), message.partition()
        wanted_offset = None if partition is None else offsets_left.pop(partition, None)
        if partition is not None and not is_end and wanted_offset is not None and message.offset() == wanted_offset:
            messages_by_place[partition, wanted_offset] = message
    return messages_by_place


def _is_partition_end(message: Message, topic: str, options: Mapping[str, str]) -> bool:
    """Say whether a message is the end of a partition, not a record. Raises KafkaUnavailable for an error of Kafka."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        missing_right = describe_missing_read_right(error, options, DRAIN_GROUP, topic)
        raise KafkaUnavailable(f"topic {topic!r}: {missing_right or f'{error.str()}.'}")
    return error is not None


def _drain_consumer(cluster: Cluster, options: Mapping[str, str], *, committed: bool = True) -> Consumer:
    return Consumer(
        {
            **librdkafka_options(options),
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": DRAIN_GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            # A partition may end with a transaction's marker, which is not delivered as a record.
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
