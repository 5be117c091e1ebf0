"""Read ranges of offsets record by record: slower than Spark, but in bounded memory whatever the records are.

This reads records that Spark's source can't take in: a value larger than its memory, or an impossible timestamp.
librdkafka keeps fetched data outside the JVM, and reveals the size of a record before it is copied.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lakehouse.errors import KafkaUnavailable
from lakehouse.kafka.options import librdkafka_options
from lakehouse.kafka.rights import INGEST_GROUP, describe_missing_read_right
from lakehouse.semantics.moment import Offsets

SILENCE_SECONDS = 60.0
POLL_SECONDS = 0.1
# Kafka's own limits count compressed bytes: an answer of a megabyte can hold gigabytes of values.
ANSWER_BYTES_MAX = 2_000_000_000


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as Kafka has it; `timestamp` is Kafka's number, whatever it is, and `timestamp_type` Kafka's 0 or 1."""

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
        """The size of its key, value and headers in bytes."""
        headers = sum(len(name.encode()) + len(value or b"") for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class RecordPiece:
    """Records to take in together, and the offset at which each partition continues after them.

    too_large: the next record, without its bytes, if it is larger than allowed; `size` is its real size.
    """

    records: list[RawRecord]
    ends: Offsets
    too_large: RawRecord | None = None
    size: int = 0


def split_into_pieces(
    records: Iterable[RawRecord], ends: Offsets, records_max: int, bytes_max: int, record_max: int
) -> Iterator[RecordPiece]:
    """Yield records in pieces of at most `records_max` records and `bytes_max` bytes.

    A piece of one record may be larger, up to `record_max` bytes. ends: where the ranges end, and with them the last
    piece.
    """
    piece_records: list[RawRecord] = []
    piece_bytes = 0
    reached_offsets: dict[str, dict[int, int]] = {}
    for record in records:
        is_large = record.size > record_max
        if piece_records and (is_large or len(piece_records) >= records_max or piece_bytes + record.size > bytes_max):
            yield RecordPiece(piece_records, _copy_offsets(reached_offsets))
            piece_records, piece_bytes = [], 0
        reached_offsets.setdefault(record.topic, {})[record.partition] = record.offset + 1
        if is_large:
            yield RecordPiece([], {}, replace(record, key=None, value=None, headers=()), record.size)
        else:
            piece_records.append(record)
            piece_bytes += record.size
    yield RecordPiece(piece_records, ends)


def _copy_offsets(ends: Offsets) -> dict[str, dict[int, int]]:
    return {topic: dict(partition_offsets) for topic, partition_offsets in ends.items()}


def read_ranges(
    bootstrap_servers: str, options: Mapping[str, str], starts: Offsets, ends: Offsets
) -> Iterator[RawRecord]:
    """Yield the committed records at the offsets [start, end) of each partition, in order within a partition.

    Raises KafkaUnavailable if Kafka falls silent, or for an answer that can't be read.
    """
    end_offsets = {
        (topic, p): end_offset
        for topic, partition_offsets in ends.items()
        for p, end_offset in partition_offsets.items()
        if end_offset > starts[topic].get(p, 0)
    }
    consumer = _ranges_consumer(bootstrap_servers, options)
    try:
        consumer.assign([TopicPartition(topic, p, starts[topic].get(p, 0)) for topic, p in end_offsets])
        last_heard = time.monotonic()
        while end_offsets:
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                if time.monotonic() - last_heard > SILENCE_SECONDS:
                    partition_names = ", ".join(f"{topic}/{p}" for topic, p in sorted(end_offsets))
                    raise KafkaUnavailable(f"{partition_names}: nothing arrived for {SILENCE_SECONDS:g} s.")
                continue
            if (record := _parse_message(message, options)) is None:
                # The partition ended: the rest of the range has no records (a transaction's marker). A replica that
                # lags behind the leader ends earlier, and goes on.
                place = (message.topic() or "", message.partition() or 0)
                if (message.offset() or 0) >= end_offsets.get(place, 0):
                    end_offsets.pop(place, None)
            elif (record.topic, record.partition) in end_offsets:
                end_offset = end_offsets[record.topic, record.partition]
                if record.offset < end_offset:
                    yield record
                if record.offset + 1 >= end_offset:
                    del end_offsets[record.topic, record.partition]
            last_heard = time.monotonic()  # after the record was handed over: its reader may take its time
    finally:
        consumer.close()


def _parse_message(message: Message, options: Mapping[str, str]) -> RawRecord | None:
    error = message.error()
    if error is not None and error.code() == KafkaError._PARTITION_EOF:
        return None
    if error is not None:
        missing_right = describe_missing_read_right(error, options, INGEST_GROUP, message.topic())
        if missing_right is not None:
            raise KafkaUnavailable(f"reading topics: {missing_right}")
        raise KafkaUnavailable(
            f"{message.topic()}/{message.partition()} from offset {message.offset()} on: {error.str()}."
        )
    timestamp_kind, timestamp = message.timestamp()
    header_pairs = cast(list[tuple[str, bytes | None]], message.headers() or [])
    headers = tuple(header_pairs)
    return RawRecord(
        str(message.topic()),
        int(message.partition() or 0),
        int(message.offset() or 0),
        timestamp,
        {1: 0, 2: 1}.get(timestamp_kind, -1),
        headers,
        message_bytes(message.key()),
        message_bytes(message.value()),
    )


def message_bytes(data: str | bytes | None) -> bytes | None:
    """Return a key or a value as bytes: the client's types allow texts, too."""
    return data.encode() if isinstance(data, str) else data


def _ranges_consumer(bootstrap_servers: str, options: Mapping[str, str]) -> Consumer:
    return Consumer(
        {
            **librdkafka_options(options),
            "bootstrap.servers": bootstrap_servers,
            "group.id": INGEST_GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            # A partition may end with a transaction's marker, which is not delivered as a record.
            "enable.partition.eof": True,
            "receive.message.max.bytes": ANSWER_BYTES_MAX,
            "queued.max.messages.kbytes": 65_536,
            "log_level": 0,
        }
    )
