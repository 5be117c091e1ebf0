"""The headers of a changelog's records, and how a record is fitted to the topic's size limit.

lakehouse.position       JSON list: tick, order time, topic, partition, offset, list of ordinals of the change's cause
lakehouse.event-time     milliseconds since 1970
lakehouse.origin         "<origin>/<table>": the origin of the ticks, see `lakehouse.kafka.covers`
lakehouse.accumulators   JSON object with what a table needs to go on, if its visible columns are not enough
lakehouse.accumulators-deflated    the same, compressed by zlib, if it would make the record too large
lakehouse.accumulators-left-out    its number of bytes, if even the compressed form would make the record too large
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Message

from lakehouse.errors import KafkaUnavailable, NotFound
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.plan.names.record_format import USUAL_FORMATS
from lakehouse.semantics.position import Position

POSITION = "lakehouse.position"
EVENT_TIME = "lakehouse.event-time"
ORIGIN = "lakehouse.origin"
ACCUMULATORS = "lakehouse.accumulators"
DEFLATED = "lakehouse.accumulators-deflated"
FORMAT = "lakehouse.format"
LEFT_OUT = "lakehouse.accumulators-left-out"
LARGEST_INFLATED = 1 << 30  # a compressed header of a few kilobytes could take any amount of memory
LIMIT = "max.message.bytes"
HELP = "It may have been written by another program, or with other headers: only lakehouse may write to the topic."


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """The headers of one record.

    where: the record's place. of: the table's name. accumulators: JSON; None without any. left_out: the number of bytes
    left out. formats: of the value and of the key, as declared for the sink.
    """

    where: str
    position: Position
    event_ms: int
    origin: str
    of: str
    accumulators: bytes | None = None
    left_out: int | None = None
    formats: tuple[str, str] = USUAL_FORMATS


def parse_headers(message: Message) -> RecordHeaders:
    """Return a record's headers. Raises NotFound, with its place, for a record that lakehouse did not publish."""
    record_place = f"{message.topic()}/{message.partition()}@{message.offset()}"
    header_values: Mapping[str, bytes | None] = dict(message.headers() or [])  # type: ignore[arg-type]
    for name in (POSITION, EVENT_TIME, ORIGIN):
        if header_values.get(name) is None:
            raise NotFound(
                f"record {record_place} has no {name} header: expected a changelog that lakehouse published. {HELP}"
            )
    origin, _, table_name = _header_text(header_values, ORIGIN, record_place).partition("/")
    left_out = (
        _parse_whole_number(_header_text(header_values, LEFT_OUT, record_place), LEFT_OUT, record_place)
        if LEFT_OUT in header_values
        else None
    )
    return RecordHeaders(
        record_place,
        _parse_position(_header_text(header_values, POSITION, record_place), record_place),
        _parse_whole_number(_header_text(header_values, EVENT_TIME, record_place), EVENT_TIME, record_place),
        origin,
        table_name,
        _inflate_accumulators(header_values, record_place),
        left_out,
        _parse_formats(header_values, record_place),
    )


def _header_text(header_values: Mapping[str, bytes | None], name: str, record_place: str) -> str:
    try:
        return (header_values[name] or b"").decode()
    except UnicodeDecodeError:
        raise NotFound(f"record {record_place}: its {name} header is not text. {HELP}") from None


def _parse_formats(header_values: Mapping[str, bytes | None], record_place: str) -> tuple[str, str]:
    if FORMAT not in header_values:
        return USUAL_FORMATS
    formats_json = _header_text(header_values, FORMAT, record_place)
    try:
        value_format, key_format = json.loads(formats_json)
        return str(value_format), str(key_format)
    except (ValueError, TypeError, RecursionError):
        raise NotFound(
            f"record {record_place}: its {FORMAT} header is {formats_json[:60]!r}, expected two formats. {HELP}"
        ) from None


def _parse_whole_number(text: str, name: str, record_place: str) -> int:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not _is_bigint(value):
        raise NotFound(f"record {record_place}: its {name} header is {text[:60]!r}, expected a whole number. {HELP}")
    return int(value)


def _parse_position(position_text: str, record_place: str) -> Position:
    try:
        position_json = json.loads(position_text)
    except (ValueError, RecursionError):
        position_json = None
    if isinstance(position_json, list) and len(position_json) == 6:
        tick, order_time, topic, partition, offset, ordinals = position_json
        ordinal_path: list[Any] = ordinals if isinstance(ordinals, list) else [None]
        if isinstance(topic, str) and all(map(_is_bigint, (tick, order_time, partition, offset, *ordinal_path))):
            return Position(tick, order_time, topic, partition, offset, tuple(ordinal_path))
    raise NotFound(
        f"record {record_place}: its {POSITION} header is {position_text[:100]!r}, expected a list of tick, order "
        f"time, topic, partition, offset, list of ordinals. {HELP}"
    )


def _is_bigint(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _inflate_accumulators(header_values: Mapping[str, bytes | None], record_place: str) -> bytes | None:
    if (plain := header_values.get(ACCUMULATORS)) is not None:
        return plain
    if (deflated := header_values.get(DEFLATED)) is None:
        return None
    try:
        decompressor = zlib.decompressobj()
        inflated = decompressor.decompress(deflated, LARGEST_INFLATED)
        if decompressor.eof:
            return inflated
    except zlib.error:
        pass
    raise NotFound(f"record {record_place}: its {DEFLATED} header can't be decompressed. {HELP}")


def record_room(largest_bytes: int) -> int:
    """Return how large a record may be if Kafka takes batches of `largest_bytes`, after the overhead of the batch."""
    return largest_bytes - largest_bytes // 100 - 1024


def record_size(record: ProducerRecord) -> int:
    """Return the size of a record in bytes: key, value and headers."""
    header_bytes = sum(len(name.encode()) + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + header_bytes


def fit_record(record: ProducerRecord, topic: str, largest_bytes: int) -> ProducerRecord:
    """Return the record in a form that fits: with its accumulators, with these deflated, or with only their size.

    largest_bytes: the topic's max.message.bytes. Raises KafkaUnavailable for a record that is too large without them.
    """
    if record_size(record) <= record_room(largest_bytes):
        return record
    accumulators = dict(record.headers).get(ACCUMULATORS) or b""
    other_headers = tuple(pair for pair in record.headers if pair[0] != ACCUMULATORS)
    for header in ((DEFLATED, zlib.compress(accumulators)), (LEFT_OUT, str(len(accumulators)).encode())):
        smaller_record = replace(record, headers=(*other_headers, header))
        if accumulators and record_size(smaller_record) <= record_room(largest_bytes):
            return smaller_record
    needed_bytes = record_size(replace(record, headers=other_headers)) + 2048
    raise KafkaUnavailable(
        f"topic {topic!r}: the record of key {(record.key or b'')[:60]!r} has {record_size(record):,} bytes, and the "
        f"topic takes {largest_bytes:,} ({LIMIT}). Raise the topic's setting {LIMIT} to "
        f"{needed_bytes + needed_bytes // 50:,} or more "
        f"(kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {LIMIT}=...), then run "
        "again: what is not published yet is published then. Until then, leave the sink out: the table continues "
        "in the lake."
    )
