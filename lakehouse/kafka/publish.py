"""Publishing a changelog: one Kafka transaction a batch, with the progress inside of it.

A reader with isolation level read_committed sees whole batches only, each once, in order, whatever was killed when. The
progress (the last tick published) is the committed offset of a consumer group that nobody else uses, so it is written
with the records or not at all. Kafka forgets a group that is idle for a week; a file in the lake remembers. A tick is a
number of one lake only, so the group carries the lake's id: a lake that was restored from the topic and publishes to it
begins with its own first tick.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from lakehouse.errors import KafkaUnavailable, LakehouseError
from lakehouse.kafka.options import for_librdkafka
from lakehouse.kafka.partitioner import partition
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.kafka.topics import Cluster

TIMEOUT_SECONDS = 60.0
# The broker's own limit; a first batch may publish a table's whole history.
TRANSACTION_SECONDS = 900
POSITION = "lakehouse.position"
ACCUMULATORS = "lakehouse.accumulators"
OFFSETS = "lakehouse.offsets"
EVENT_TIME = "lakehouse.event-time"


class Publisher:
    """The one publisher of a topic. Opening one fences an older one that still runs. A context manager.

    `lake` is the lake's id, `remembered` the file that remembers the progress. Raises KafkaUnavailable when Kafka does
    not take part.
    """

    def __init__(self, cluster: Cluster, options: Mapping[str, str], topic: str, lake: str, remembered: str) -> None:
        self.topic = topic
        facts = cluster.topics([topic])[topic]
        self._id, self._partitions = facts.id, facts.partitions
        self._remembered = Path(remembered) if "://" not in remembered else None
        common = {**for_librdkafka(options), "bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
        group = f"lakehouse.publish.{topic}.{self._id}.{lake}"
        self._consumer = Consumer({**common, "group.id": group, "enable.auto.commit": False})
        self._producer = Producer(
            {
                **common,
                "transactional.id": f"lakehouse.publish.{topic}",
                "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
                "partitioner": "murmur2_random",
                "compression.type": "lz4",
                "linger.ms": 20,
                "queue.buffering.max.messages": 500_000,
            }
        )
        try:
            self._producer.init_transactions(TIMEOUT_SECONDS)
        except KafkaException as error:
            self._consumer.close()
            raise KafkaUnavailable(
                f"topic {topic!r}: Kafka does not take part in a transaction: {error}. Check its log."
            ) from None

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def progress(self) -> int:
        """Return the last tick that was published; 0 for none."""
        committed = self._consumer.committed([TopicPartition(self.topic, 0)], timeout=TIMEOUT_SECONDS)[0]
        return max(committed.offset, self._remembered_tick(), 0)

    def _remembered_tick(self) -> int:
        if self._remembered is None or not self._remembered.exists():
            return 0
        said = json.loads(self._remembered.read_text())
        return int(said["tick"]) if said["topic_id"] == self._id else 0

    def publish(self, records: Iterable[ProducerRecord], tick: int) -> int:
        """Write the records and the progress in one transaction; return how many. Raises KafkaUnavailable."""
        sent = 0
        failed: list[str] = []

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error.str())

        try:
            self._producer.begin_transaction()
            for record in records:
                self._send(record, delivered)
                sent += 1
            position = TopicPartition(self.topic, 0, tick)
            group = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([position], group, TIMEOUT_SECONDS)
            self._producer.commit_transaction(TRANSACTION_SECONDS)
        except KafkaException as error:
            self._abort()
            why = failed[0] if failed else error.args[0].str()
            raise KafkaUnavailable(
                f"topic {self.topic!r}: {sent} changes up to tick {tick} were not published: {why}. "
                "They stay in the lake; run again to publish them."
            ) from None
        except BaseException:
            self._abort()
            raise
        self._remember(tick)
        return sent

    def _send(self, record: ProducerRecord, delivered: Any) -> None:
        # librdkafka takes 0 for "now", and Kafka knows no time before 1970: the true event time is in a header.
        place: dict[str, Any] = {}
        if record.place is not None:
            place["partition"] = partition(record.place, self._partitions)
        while True:
            try:
                self._producer.produce(
                    self.topic, value=record.value, key=record.key, timestamp=max(record.timestamp_ms or 0, 1),
                    headers=list(record.headers), on_delivery=delivered, **place,
                )  # fmt: skip
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _abort(self) -> None:
        try:
            self._producer.abort_transaction(TIMEOUT_SECONDS)
        except KafkaException as error:
            # A transaction that can't be aborted is ended by the broker, or by the next publisher.
            if error.args[0].fatal():
                raise LakehouseError(
                    f"topic {self.topic!r}: another publisher has taken over; this one stops."
                ) from None

    def _remember(self, tick: int) -> None:
        if self._remembered is not None:
            self._remembered.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._remembered.with_suffix(".new")
            fresh.write_text(json.dumps({"topic_id": self._id, "tick": tick}))
            fresh.replace(self._remembered)
