"""Publish a changelog in Kafka transactions, each with its cover inside.

A reader with isolation level read_committed sees only whole transactions, each once and in order, whatever was killed
when. The progress is in the cover (`lakehouse.kafka.covers`), which is written together with the records or not at all,
and which Kafka keeps forever. A file in the lake has a copy for upkeep, which does not ask Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from lakehouse.errors import KafkaUnavailable, LakehouseError
from lakehouse.kafka.covers import Cover, covers_topic
from lakehouse.kafka.headers import LIMIT, fit_record, record_room
from lakehouse.kafka.options import SILENT_LOGGER, librdkafka_options
from lakehouse.kafka.partitioner import choose_partition
from lakehouse.kafka.produce import ProducerRecord, StateRecord
from lakehouse.kafka.rights import PUBLISH_PREFIX, Right, describe_missing_right
from lakehouse.kafka.topics import Cluster
from lakehouse.plan.expression.schema import state_topic

TIMEOUT_SECONDS = 60.0
# Readers wait this long for a transaction whose publisher was killed and not restarted. 80 MB can be written in it.
TRANSACTION_SECONDS = 300
LARGEST_RECORD_BYTES = 1_000_000  # librdkafka's own limit for a record, for a topic whose limit is unknown


class Publisher:
    """The only publisher of a topic, and of the table's state topic if there is one. A new one fences an older one.

    keep_progress: called with a copy of the progress, the topic's id and the tick, after each transaction. Raises
    KafkaUnavailable if Kafka does not take part.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: Mapping[str, str],
        topic: str,
        keep_progress: Callable[[Mapping[str, Any]], None],
        *,
        with_state: bool = False,
    ) -> None:
        self.topic = topic
        topics = [topic, state_topic(topic)] if with_state else [topic]
        topic_facts = cluster.topics(topics)
        self.topic_id = topic_facts[topic].id
        self._partitions = {name: facts_of_topic.partitions for name, facts_of_topic in topic_facts.items()}
        self._largest_bytes = {name: _largest_batch_bytes(cluster, name) for name in topics}
        self._keep_progress = keep_progress
        self._producer = Producer(
            {
                **librdkafka_options(options),
                "bootstrap.servers": cluster.bootstrap_servers,
                "logger": SILENT_LOGGER,
                "transactional.id": f"{PUBLISH_PREFIX}{topic}",
                "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
                "partitioner": "murmur2_random",
                "compression.type": "lz4",
                "linger.ms": 20,
                "queue.buffering.max.messages": 500_000,
                # The topic's own limit counts: `fit_record` keeps a record within it, and this setting a batch.
                "message.max.bytes": max(*self._largest_bytes.values(), LARGEST_RECORD_BYTES),
                "batch.size": min(record_room(min(self._largest_bytes.values())), LARGEST_RECORD_BYTES),
            }
        )
        try:
            self._producer.init_transactions(TIMEOUT_SECONDS)
        except KafkaException as error:
            right = Right("Write", "transactional-id", f"{PUBLISH_PREFIX}{topic}")
            reason = describe_missing_right(error.args[0], options, right) or f"{error}. Check its log."
            raise KafkaUnavailable(f"topic {topic!r}: Kafka did not begin a transaction: {reason}") from None

    def publish(self, records: Iterable[ProducerRecord], cover: Cover) -> int:
        """Write the records and their cover in one transaction; return the number of the changelog's records.

        Raises KafkaUnavailable; LakehouseError if another publisher has taken over the topic.
        """
        published_count = 0
        delivery_errors: list[str] = []

        def on_delivery(error: Any, _message: Any) -> None:
            if error is not None:
                delivery_errors.append(error.str())

        try:
            self._producer.begin_transaction()
            for record in records:
                target_topic = state_topic(self.topic) if isinstance(record, StateRecord) else self.topic
                self._send(
                    target_topic, fit_record(record, target_topic, self._largest_bytes[target_topic]), on_delivery
                )
                published_count += target_topic == self.topic
            # Stamped with the present time: Kafka closes segments by record times, and compacts only closed ones.
            cover_record = ProducerRecord(self.topic.encode(), cover.data(), time.time_ns() // 1_000_000, partition=0)
            self._send(covers_topic(self.topic), cover_record, on_delivery)
            self._producer.commit_transaction(TRANSACTION_SECONDS)
        except KafkaException as error:
            self._abort()
            reason = delivery_errors[0] if delivery_errors else error.args[0].str()
            raise KafkaUnavailable(
                f"topic {self.topic!r}: {published_count} changes up to tick {cover.tick} were not published: "
                f"{reason}. They stay in the lake; run again to publish them."
            ) from None
        except BaseException:
            self._abort()
            raise
        self.remember(cover.tick)
        return published_count

    def _send(self, topic: str, record: ProducerRecord, on_delivery: Any) -> None:
        # librdkafka takes 0 for "now", and Kafka has no time before 1970; the true event time is in a header.
        placement: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
        if record.place is not None:
            placement["partition"] = choose_partition(record.place, self._partitions[topic])
        while True:
            try:
                self._producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    timestamp=max(record.timestamp_ms or 0, 1),
                    headers=list(record.headers),
                    on_delivery=on_delivery,
                    **placement,
                )
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(TIMEOUT_SECONDS)
        except KafkaException as error:
            # If the transaction can't be aborted here, the broker or the next publisher ends it.
            if error.args[0].fatal():
                raise LakehouseError(
                    f"topic {self.topic!r}: another publisher has taken over; this one stops."
                ) from None

    def remember(self, tick: int) -> None:
        """Keep a copy of the progress."""
        self._keep_progress({"topic_id": self.topic_id, "tick": tick})


def _largest_batch_bytes(cluster: Cluster, topic: str) -> int:
    """Return the largest batch that the topic takes, in bytes; librdkafka's own limit if that is unknown."""
    try:
        limit_text = cluster.config(topic).get(LIMIT)
    except KafkaUnavailable:
        limit_text = None  # this client may not be allowed to ask
    return int(limit_text) if limit_text else LARGEST_RECORD_BYTES
