"""Publish a changelog in Kafka transactions, each with its cover inside.

A reader with isolation level read_committed sees only whole transactions, each once and in order, whatever was killed
when. The progress is in the cover (`lakehouse.kafka.covers`), which is written together with the records or not at all,
and which Kafka keeps forever. A file in the lake has a copy for upkeep, which does not ask Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lakehouse.errors import KafkaUnavailable, StorageError
from lakehouse.kafka.covers import Cover, covers_topic
from lakehouse.kafka.headers import fit_record
from lakehouse.kafka.partitioner import choose_partition
from lakehouse.kafka.produce import ProducerRecord, StateRecord
from lakehouse.kafka.rights import PUBLISH_PREFIX
from lakehouse.kafka.topics import Cluster
from lakehouse.kafka.transactional import (
    OnDelivery,
    TransactionFailed,
    largest_batch_bytes,
    open_transaction,
    produce_one,
    transactional_producer,
)
from lakehouse.plan.names.beside_topic import state_topic

# A broker learns of a new topic a little later than the one that was asked to create it.
SETTLING_SECONDS = 5.0


class Publisher:
    """The only publisher of a topic, and of the table's state topic if there is one. A new one fences an older one.

    keep_progress: called with a copy of the progress, the topic's id, the tick and the number of records sent, after
    each transaction. Raises KafkaUnavailable if Kafka does not take part.
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
        self.topic, self._cluster = topic, cluster
        topics = [topic, state_topic(topic)] if with_state else [topic]
        self._topics = cluster.topics([*topics, covers_topic(topic)])
        self.topic_id = self._topics[topic].id
        self._largest_bytes = {name: largest_batch_bytes(cluster, name) for name in topics}
        self._keep_progress = keep_progress
        largest_bytes = self._largest_bytes.values()
        self._producer = transactional_producer(cluster, options, topic, f"{PUBLISH_PREFIX}{topic}", largest_bytes)

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has to which this publisher writes; 0 for another topic."""
        return self._topics[topic].partitions if topic in self._topics else 0

    def publish(self, records: Iterable[ProducerRecord], cover: Cover) -> int:
        """Write the records and their cover in one transaction; return the number of the changelog's records.

        Raises KafkaUnavailable; LakehouseError if another publisher has taken over the topic; StorageError if a topic
        is no longer the one that this publisher began to write to.
        """
        self._check_topics(is_table=bool(cover.of))
        published_count = 0
        taken_over = f"topic {self.topic!r}: another publisher has taken over; this one stops."
        try:
            with open_transaction(self._producer, taken_over) as on_delivery:
                for record in records:
                    target_topic = state_topic(self.topic) if isinstance(record, StateRecord) else self.topic
                    fitted_record = fit_record(record, target_topic, self._largest_bytes[target_topic])
                    self._send(target_topic, fitted_record, on_delivery)
                    published_count += target_topic == self.topic
                # Stamped with the present time: Kafka closes segments by record times, and compacts only closed ones.
                now_ms = time.time_ns() // 1_000_000
                cover_record = ProducerRecord(self.topic.encode(), cover.data(), now_ms, partition=0)
                self._send(covers_topic(self.topic), cover_record, on_delivery)
        except TransactionFailed as error:
            raise KafkaUnavailable(
                f"topic {self.topic!r}: {published_count} changes up to tick {cover.tick} were not published: "
                f"{error}. They stay in the lake; run again to publish them."
            ) from None
        self.remember(cover.tick, cover.sent)
        return published_count

    def _send(self, topic: str, record: ProducerRecord, on_delivery: OnDelivery) -> None:
        # A time before 1970 is written as 1 ms: the true event time is in a header.
        placement: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
        if record.place is not None:
            placement["partition"] = choose_partition(record.place, self.partitions(topic))
        produce_one(self._producer, topic, record, placement, on_delivery)

    def _check_topics(self, *, is_table: bool) -> None:
        """Raise StorageError for a topic that was deleted, made anew or, for a table, given more partitions.

        A job may run for months. Under a cover that names the earlier topic, all would be published a second time.
        """
        deadline = time.monotonic() + SETTLING_SECONDS
        while fault := self._topics_fault(is_table=is_table):
            if time.monotonic() > deadline:
                raise StorageError(
                    f"{fault}, while a job published to topic {self.topic!r}. Nothing more was published. Start the "
                    "job again: it says whether it can go on in the topics that there are now."
                )
            time.sleep(0.1)

    def _topics_fault(self, *, is_table: bool) -> str | None:
        topics_now = self._cluster.existing_topics(self._topics)
        for name in self._topics:
            if name not in topics_now:
                return f"topic {name!r} was deleted"
        for name, facts in topics_now.items():
            if facts.id != (id_before := self._topics[name].id):
                return f"topic {name!r} was deleted and made anew (its id was {id_before}, and is {facts.id})"
            is_keyed = is_table and name != covers_topic(self.topic)
            if is_keyed and facts.partitions != (count_before := self._topics[name].partitions):
                return f"topic {name!r} was given {facts.partitions:,} partitions (it had {count_before:,})"
        self._topics = topics_now
        return None

    def remember(self, tick: int, sent_count: int) -> None:
        """Keep a copy of the progress. sent_count: how many records of the ticks after it are in the topic, too."""
        self._keep_progress({"topic_id": self.topic_id, "tick": tick, "sent": sent_count})
