"""Ranges of offsets, read record by record: slower than Spark, and in bounded memory whatever the records are.

For records that Spark's source can't take in: a value larger than its memory, or an impossible timestamp. librdkafka
keeps what it fetched outside the JVM, and tells the size of a record before anything is made of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.options import for_librdkafka
from lakehouse.semantics.moment import Offsets

SILENCE_SECONDS = 60.0
POLL_SECONDS = 0.1
# Kafka's own limits are on compressed bytes: an answer of a megabyte can hold gigabytes of values.
ANSWER_BYTES_MAX = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Raw:
    """A record as Kafka has it; `timestamp` is whatever number Kafka has, its type 0 or 1 (Kafka's own)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]
    key: bytes | None
    value: bytes | None

    @property
    def size(self) -> int:
        """The bytes of its key, value and headers."""
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class Piece:
    """Records that are taken in together, and the offset at which each partition goes on after them.

    too_large: the record after them, emptied, if it is larger than allowed; `size` is the size that it had.
    """

    records: list[Raw]
    ends: Offsets
    too_large: Raw | None = None
    size: int = 0


def pieces(records: Iterable[Raw], ends: Offsets, records_max: int, bytes_max: int, record_max: int) -> Iterator[Piece]:
    """Yield records in pieces of at most so many records and bytes; a single record may be larger, up to `record_max`.

    ends: where the ranges of the records end; the last piece ends there.
    """
    held: list[Raw] = []
    size = 0
    reached: dict[str, dict[int, int]] = {}
    for record in records:
        large = record.size > record_max
        if held and (large or len(held) >= records_max or size + record.size > bytes_max):
            yield Piece(held, _copied(reached))
            held, size = [], 0
        reached.setdefault(record.topic, {})[record.partition] = record.offset + 1
        if large:
            yield Piece([], {}, replace(record, key=None, value=None, headers=()), record.size)
        else:
            held.append(record)
            size += record.size
    yield Piece(held, ends)


def _copied(ends: Offsets) -> dict[str, dict[int, int]]:
    return {topic: dict(of) for topic, of in ends.items()}


def read_ranges(bootstrap_servers: str, options: Mapping[str, str], starts: Offsets, ends: Offsets) -> Iterator[Raw]:
    """Yield the committed records at the offsets [start, end) of each partition, in order within a partition.

    Raises KafkaUnavailable if Kafka falls silent, or for an answer that can't be read.
    """
    left = {(topic, p): end for topic, of in ends.items() for p, end in of.items() if end > starts[topic].get(p, 0)}
    consumer = _consumer(bootstrap_servers, options)
    try:
        consumer.assign([TopicPartition(topic, p, starts[topic].get(p, 0)) for topic, p in left])
        heard = time.monotonic()
        while left:
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                if time.monotonic() - heard > SILENCE_SECONDS:
                    places = ", ".join(f"{topic}/{p}" for topic, p in sorted(left))
                    raise KafkaUnavailable(f"{places}: nothing arrived for {SILENCE_SECONDS:g} s.")
                continue
            if (record := _record(message)) is None:
                # The end of a partition: the rest of the range has no records (a transaction's marker).
                left.pop((message.topic() or "", message.partition() or 0), None)
            elif (record.topic, record.partition) in left:
                end = left[record.topic, record.partition]
                if record.offset < end:
                    yield record
                if record.offset + 1 >= end:
                    del left[record.topic, record.partition]
            heard = time.monotonic()  # now, not before the record was handed over: its reader may take its time
    finally:
        consumer.close()


def _record(message: Message) -> Raw | None:
    error = message.error()
    if error is not None and error.code() == KafkaError._PARTITION_EOF:
        return None
    if error is not None:
        raise KafkaUnavailable(
            f"{message.topic()}/{message.partition()} from offset {message.offset()} on: {error.str()}."
        )
    kind, timestamp = message.timestamp()
    pairs = cast(list[tuple[str, bytes | None]], message.headers() or [])
    headers = tuple(pairs)
    return Raw(
        str(message.topic()), int(message.partition() or 0), int(message.offset() or 0),
        timestamp, {1: 0, 2: 1}.get(kind, -1), headers, _bytes(message.key()), _bytes(message.value()),
    )  # fmt: skip


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


def _consumer(bootstrap_servers: str, options: Mapping[str, str]) -> Consumer:
    return Consumer(
        {
            **for_librdkafka(options),
            "bootstrap.servers": bootstrap_servers,
            "group.id": "lakehouse.ingest",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            # The end of a partition may be a transaction's marker, which comes as no record.
            "enable.partition.eof": True,
            "receive.message.max.bytes": ANSWER_BYTES_MAX,
            "queued.max.messages.kbytes": 65_536,
            "log_level": 0,
        }
    )
