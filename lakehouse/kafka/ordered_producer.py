"""Produce to given partitions so that each always holds a prefix of what was sent: no gap, no duplicate.

So a process that goes on after a crash only needs to count the records that are there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, Producer

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.options import librdkafka_options, refused_options_error

SILENCE_SECONDS = 120.0
POLL_SECONDS = 0.05
LEAVING_SECONDS = 5.0
BATCH_BYTES = 1_000_000
QUEUE_KBYTES = 64 * 1024
# Fatal errors arrive as exceptions with a reason; librdkafka would also print them.
_QUIET = logging.getLogger("lakehouse.kafka.ordered_producer")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False
Headers = list[tuple[str, str | bytes | None]]
# Partition, milliseconds since the epoch, headers, key, value.
PlacedRecord = tuple[int, int, Headers | None, bytes | None, bytes | None]


class OrderedProducer:
    """A producer for one topic, for one thread. A context manager: leaving it gives up unacknowledged records.

    `batch_bytes_max`: the largest batch that the topic takes (its max.message.bytes).
    """

    def __init__(
        self, bootstrap_servers: str, options: Mapping[str, str], topic: str, batch_bytes_max: int = BATCH_BYTES
    ) -> None:
        self.topic, self.sent = topic, 0
        self._failed: list[str] = []
        producer_settings: dict[str, Any] = {
            "linger.ms": 20,
            "compression.type": "lz4",
            **librdkafka_options(options),
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            "acks": "all",
            "enable.idempotence": True,
            # A record that can't be delivered must stop those after it.
            "enable.gapless.guarantee": True,
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 200_000,
            "queue.buffering.max.kbytes": QUEUE_KBYTES,
            "batch.size": min(BATCH_BYTES, max(1, batch_bytes_max * 9 // 10)),
            # The topic, not the client, limits the size of a record.
            "message.max.bytes": 1_000_000_000,
        }
        try:
            self._producer = Producer(producer_settings, logger=_QUIET)
        except KafkaException as error:
            raise refused_options_error(error) from None

    def __enter__(self) -> OrderedProducer:
        return self

    def __exit__(self, *_: object) -> None:
        # Unsent records are given up; those on their way must arrive before anybody counts the records.
        deadline = time.monotonic() + LEAVING_SECONDS
        while len(self._producer) and time.monotonic() < deadline:
            self._producer.purge(in_flight=False)  # repeated: a record that failed on its way returns to the queue
            with suppress(KafkaException):
                self._producer.poll(POLL_SECONDS)

    @property
    def acknowledged(self) -> int:
        """The number of records that are certainly in the topic."""
        return self.sent - len(self._producer)

    def send(self, records: Iterable[PlacedRecord]) -> None:
        """Send records in order. Raises KafkaUnavailable if one could not be delivered."""
        produce_record, topic, on_delivery = self._producer.produce, self.topic, self._on_delivery
        for partition, timestamp, headers, key, value in records:
            while True:
                try:
                    produce_record(topic, value, key, partition, on_delivery, timestamp=timestamp, headers=headers)
                    break
                except BufferError:  # the queue is full: wait for the broker
                    self._wait(len(self._producer))
                except KafkaException as error:
                    self._poll()
                    raise self._refusal_error(error.args[0].str()) from None
            self.sent += 1
        self._poll()

    def flush(self) -> None:
        """Wait until every record is acknowledged. Raises KafkaUnavailable."""
        while queue_length := len(self._producer):
            self._wait(queue_length)
        self._poll()

    def _wait(self, queue_length: int) -> None:
        """Wait until fewer than `queue_length` records are queued. Raises KafkaUnavailable after too long a silence."""
        deadline = time.monotonic() + SILENCE_SECONDS
        while len(self._producer) >= queue_length:
            self._poll(POLL_SECONDS)
            if time.monotonic() > deadline:
                raise self._refusal_error(f"nothing was acknowledged for {SILENCE_SECONDS:g} s")

    def _poll(self, seconds: float = 0.0) -> None:
        try:
            self._producer.poll(seconds)
        except KafkaException as error:  # a fatal error; its cause comes with the reports of the records
            with suppress(KafkaException):
                self._producer.poll(POLL_SECONDS)
            raise self._refusal_error(error.args[0].str()) from None
        if self._failed:
            raise self._refusal_error(self._failed[0])

    def _on_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error.str())

    def _refusal_error(self, reason: str) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"topic {self.topic!r}: a record was not accepted: {self._failed[0] if self._failed else reason}. "
            "Those before it are in the topic, none after it. Correct the cause and run the same again: it continues "
            "from there."
        )
