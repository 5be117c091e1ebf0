"""Producers whose records become visible together or not at all; a new one of the same id fences an older one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lakehouse.errors import KafkaUnavailable, LakehouseError
from lakehouse.kafka.headers import LIMIT, record_room
from lakehouse.kafka.options import SILENT_LOGGER, librdkafka_options
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.kafka.rights import Right, describe_missing_right
from lakehouse.kafka.topics import Cluster

OnDelivery = Callable[[KafkaError | None, Message], None]
TIMEOUT_SECONDS = 60.0
# Readers wait this long for a transaction whose producer was killed and not restarted. 80 MB can be written in it.
TRANSACTION_SECONDS = 300
LARGEST_RECORD_BYTES = 1_000_000  # librdkafka's own limit for a record, for a topic whose limit is unknown


def transactional_producer(
    cluster: Cluster, options: Mapping[str, str], topic: str, transactional_id: str, largest_bytes: Iterable[int]
) -> Producer:
    """Return a producer that has fenced those before it. largest_bytes: the largest batches of the topics it writes.

    Raises KafkaUnavailable if Kafka does not take part.
    """
    limits = list(largest_bytes)
    producer = Producer(
        {
            **librdkafka_options(options),
            "bootstrap.servers": cluster.bootstrap_servers,
            "logger": SILENT_LOGGER,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            # The topic's own limit counts: `fit_record` keeps a record within it, and this setting a batch.
            "message.max.bytes": max(*limits, LARGEST_RECORD_BYTES),
            "batch.size": min(record_room(min(limits)), LARGEST_RECORD_BYTES),
        }
    )
    try:
        producer.init_transactions(TIMEOUT_SECONDS)
    except KafkaException as error:
        right = Right("Write", "transactional-id", transactional_id)
        reason = describe_missing_right(error.args[0], options, right) or f"{error}. Check its log."
        raise KafkaUnavailable(f"topic {topic!r}: Kafka did not begin a transaction: {reason}") from None
    return producer


class TransactionFailed(Exception):
    """A transaction was given up: no reader sees a record of it. The message is Kafka's reason, `error` its error."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


@contextmanager
def open_transaction(producer: Producer, taken_over: str) -> Iterator[OnDelivery]:
    """Commit the records that a block produces with the callback it is given; give them up if the block fails.

    Raises TransactionFailed; LakehouseError with the message `taken_over` if another producer has fenced this one.
    """
    delivery_errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            delivery_errors.append(error)

    try:
        producer.begin_transaction()
        yield on_delivery
        producer.commit_transaction(TRANSACTION_SECONDS)
    except KafkaException as error:
        if error.args[0].fatal():
            raise LakehouseError(taken_over) from None
        _abort_transaction(producer, taken_over)
        raise TransactionFailed(delivery_errors[0] if delivery_errors else error.args[0]) from None
    except BaseException:
        _abort_transaction(producer, taken_over)
        raise


def produce_one(
    producer: Producer, topic: str, record: ProducerRecord, placement: Mapping[str, Any], on_delivery: OnDelivery
) -> None:
    """Hand a record to a producer, and wait while its queue is full. placement: {"partition": ...}, or nothing."""
    # librdkafka takes 0 for "now", and Kafka has no time before 1970.
    timestamp_ms = max(record.timestamp_ms or 0, 1)
    while True:
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                timestamp=timestamp_ms,
                headers=list(record.headers),
                on_delivery=on_delivery,
                **placement,
            )
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)


def _abort_transaction(producer: Producer, taken_over: str) -> None:
    try:
        producer.abort_transaction(TIMEOUT_SECONDS)
    except KafkaException as error:
        # If the transaction can't be aborted here, the broker or the next producer ends it.
        if error.args[0].fatal():
            raise LakehouseError(taken_over) from None


def largest_batch_bytes(cluster: Cluster, topic: str) -> int:
    """Return the largest batch that the topic takes, in bytes; librdkafka's own limit if that is unknown."""
    try:
        limit_text = cluster.config(topic).get(LIMIT)
    except KafkaUnavailable:
        limit_text = None  # this client may not be allowed to ask
    return int(limit_text) if limit_text else LARGEST_RECORD_BYTES
