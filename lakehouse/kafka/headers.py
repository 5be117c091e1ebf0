"""The headers of a changelog's records, and how a record is made to fit the topic's size limit.

lakehouse.position       JSON list: tick, order time, topic, partition, offset, list of ordinals of the change's cause
lakehouse.event-time     milliseconds since 1970
lakehouse.origin         "<origin>/<table>": whose ticks these are, see `lakehouse.kafka.covers`
lakehouse.accumulators   JSON object with what a table needs to go on, if its visible columns are not enough
lakehouse.accumulators-deflated    the same, compressed by zlib, if the record would be too large with it
lakehouse.accumulators-left-out    its number of bytes, if the record would be too large even with the compressed one
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
from lakehouse.semantics.position import Position

POSITION = "lakehouse.position"
EVENT_TIME = "lakehouse.event-time"
ORIGIN = "lakehouse.origin"
ACCUMULATORS = "lakehouse.accumulators"
DEFLATED = "lakehouse.accumulators-deflated"
FORMAT = "lakehouse.format"
LEFT_OUT = "lakehouse.accumulators-left-out"
LARGEST_INFLATED = 1 << 30  # a header of a few kilobytes could ask for any amount of memory
LIMIT = "max.message.bytes"
EARLIER = (
    "An earlier release of lakehouse published it. Build the table from bronze, and publish it to a new topic: this "
    "release can't continue from what that topic has."
)
HELP = "It may have been written by another program, or with other headers: only lakehouse may write to the topic."


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """The headers of one record. accumulators: JSON, None without any; left_out: the number of bytes left out.

    formats: of the value and of the key, as its sink has them.
    """

    where: str
    position: Position
    event_ms: int
    origin: str
    of: str
    accumulators: bytes | None = None
    left_out: int | None = None
    formats: tuple[str, str] = ("json", "")


def said_by(message: Message) -> RecordHeaders:
    """Return a record's headers. Raises NotFound, with its place, for a record that lakehouse did not publish."""
    where = f"{message.topic()}/{message.partition()}@{message.offset()}"
    pairs: Mapping[str, bytes | None] = dict(message.headers() or [])  # type: ignore[arg-type]
    for name in (POSITION, EVENT_TIME, ORIGIN):
        if pairs.get(name) is None:
            raise NotFound(
                f"record {where} has no {name} header: expected a changelog that lakehouse published. {HELP}"
            )
    origin, _, of = _text(pairs, ORIGIN, where).partition("/")
    left_out = _whole(_text(pairs, LEFT_OUT, where), LEFT_OUT, where) if LEFT_OUT in pairs else None
    return RecordHeaders(
        where, _position(_text(pairs, POSITION, where), where),
        _whole(_text(pairs, EVENT_TIME, where), EVENT_TIME, where), origin, of, _accumulators(pairs, where), left_out,
        _formats(pairs, where),
    )  # fmt: skip


def _text(pairs: Mapping[str, bytes | None], name: str, where: str) -> str:
    try:
        return (pairs[name] or b"").decode()
    except UnicodeDecodeError:
        raise NotFound(f"record {where}: its {name} header is not text. {HELP}") from None


def _formats(pairs: Mapping[str, bytes | None], where: str) -> tuple[str, str]:
    if FORMAT not in pairs:
        return "json", ""
    text = _text(pairs, FORMAT, where)
    try:
        value, key = json.loads(text)
        return str(value), str(key)
    except (ValueError, TypeError, RecursionError):
        raise NotFound(f"record {where}: its {FORMAT} header is {text[:60]!r}, expected two formats. {HELP}") from None


def _whole(text: str, name: str, where: str) -> int:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not _is_bigint(value):
        raise NotFound(f"record {where}: its {name} header is {text[:60]!r}, expected a whole number. {HELP}")
    return int(value)


def _position(text: str, where: str) -> Position:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    is_earlier = False
    if isinstance(value, list) and len(value) == 6:
        tick, order_time, topic, partition, offset, ordinals = value
        is_earlier = _is_bigint(ordinals)
        path: list[Any] = ordinals if isinstance(ordinals, list) else [None]
        if isinstance(topic, str) and all(map(_is_bigint, (tick, order_time, partition, offset, *path))):
            return Position(tick, order_time, topic, partition, offset, tuple(path))
    raise NotFound(
        f"record {where}: its {POSITION} header is {text[:100]!r}, expected a list of tick, order time, topic, "
        f"partition, offset, list of ordinals. {EARLIER if is_earlier else HELP}"
    )


def _is_bigint(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _accumulators(pairs: Mapping[str, bytes | None], where: str) -> bytes | None:
    if (plain := pairs.get(ACCUMULATORS)) is not None:
        return plain
    if (deflated := pairs.get(DEFLATED)) is None:
        return None
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(deflated, LARGEST_INFLATED)
        if unpack.eof:
            return data
    except zlib.error:
        pass
    raise NotFound(f"record {where}: its {DEFLATED} header can't be decompressed. {HELP}")


def room(largest: int) -> int:
    """Return how large a record may be if Kafka takes batches of `largest` bytes: less the overhead of the batch."""
    return largest - largest // 100 - 1024


def size(record: ProducerRecord) -> int:
    """Return the bytes of a record: key, value and headers."""
    headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def fitted(record: ProducerRecord, topic: str, largest: int) -> ProducerRecord:
    """Return the record so that it fits: with its accumulators, or with these deflated, or with only their size.

    largest: the topic's max.message.bytes. Raises KafkaUnavailable for a record that is too large without them.
    """
    if size(record) <= room(largest):
        return record
    kept = dict(record.headers).get(ACCUMULATORS) or b""
    others = tuple(pair for pair in record.headers if pair[0] != ACCUMULATORS)
    for header in ((DEFLATED, zlib.compress(kept)), (LEFT_OUT, str(len(kept)).encode())):
        smaller = replace(record, headers=(*others, header))
        if kept and size(smaller) <= room(largest):
            return smaller
    needed = size(replace(record, headers=others)) + 2048
    raise KafkaUnavailable(
        f"topic {topic!r}: the record of key {(record.key or b'')[:60]!r} has {size(record):,} bytes, and the topic "
        f"takes {largest:,} ({LIMIT}). Raise the topic's setting {LIMIT} to {needed + needed // 50:,} or more "
        f"(kafka-configs --alter --entity-type topics --entity-name {topic} --add-config {LIMIT}=...), then run "
        "again: what is not published yet is published then. Until then, leave the sink out: the table continues "
        "in the lake."
    )
