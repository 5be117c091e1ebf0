"""Produce records, and parse records to produce from lines of text."""

from __future__ import annotations

import difflib
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from lakehouse.errors import KafkaUnavailable, LakehouseError
from lakehouse.kafka.options import librdkafka_options, refused_options_error
from lakehouse.kafka.topics import Cluster
from lakehouse.semantics.time import iso_text

Writers = Mapping[str, Callable[[str], bytes]]  # by "key", "value"; they raise ValueError for a text that does not fit
NO_WRITERS: Writers = {}
DELIVERY_TIMEOUT_SECONDS = 60.0
LARGEST_TIMESTAMP_MS = 2**63 - 1
_ONE_AT_A_TIME = threading.Lock()
# A number in a value is only skipped, so a long one may stay text; a timestamp has few digits.
_DECODER = json.JSONDecoder(parse_int=lambda text: int(text) if len(text) < 30 else text, parse_float=str)
# A JSON string, which stays as it is, or blanks between parts, which are dropped.
_BLANKS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record to produce. ``timestamp_ms`` since 1970 (None: now); ``partition`` None: by the key's hash.

    ``place``: for a publisher that does not know the partitions yet: bytes to hash, or a number, for the partition.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    place: bytes | int | None = None


@dataclass(frozen=True, slots=True)
class StateRecord(ProducerRecord):
    """A record for a table's state topic, see `lakehouse.kafka.covers`."""


def produce(bootstrap_servers: str, options: Mapping[str, str], topic: str, records: Iterable[ProducerRecord]) -> int:
    """Write ``records`` to ``topic``, in order per partition, and wait until all are acknowledged.

    Keys go to the same partition as with Java's producer. Returns the number of records.
    Raises NotFound (no such topic), KafkaUnavailable (how many records were not delivered, and why).
    """
    # Check first: a producer would wait half a minute for a topic that does not exist.
    partitions = Cluster(bootstrap_servers, options).topics([topic])[topic].partitions
    sent_count, delivered_count, failed_count, reason = 0, 0, 0, ""

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        nonlocal delivered_count, failed_count, reason
        delivered_count += 1
        if error is not None:
            failed_count, reason = failed_count + 1, reason or error.str()

    with _ONE_AT_A_TIME:
        producer = _open_producer(bootstrap_servers, frozenset(options.items()))
        try:
            for record in records:
                _check_record(record, sent_count + 1, topic, partitions)
                _send_record(producer, topic, record, on_delivery)
                sent_count += 1
                if failed_count:
                    break
        finally:
            deadline = time.monotonic() + DELIVERY_TIMEOUT_SECONDS + 5.0
            while delivered_count < sent_count and time.monotonic() < deadline:
                producer.poll(0.1)
            missing_count = failed_count + sent_count - delivered_count
            if missing_count:
                _open_producer.cache_clear()  # the producer may be in a state from which it can't recover
    if missing_count:
        raise KafkaUnavailable(
            f"{missing_count} of {sent_count} records were not delivered to topic {topic!r} on {bootstrap_servers}: "
            f"{reason or 'no answer'}. {sent_count - missing_count} are in the topic. "
            "Correct the cause and produce the rest again."
        )
    return sent_count


@lru_cache(maxsize=4)
def _open_producer(bootstrap_servers: str, options: frozenset[tuple[str, str]]) -> Producer:
    """Return a producer, cached: a new idempotent producer waits half a second for its producer id."""
    producer_settings = {
        "linger.ms": "5",
        **librdkafka_options(dict(options)),
        "bootstrap.servers": bootstrap_servers,
        "log_level": 0,
        "acks": "all",
        "enable.idempotence": "true",
        "partitioner": "murmur2_random",
        "delivery.timeout.ms": str(int(DELIVERY_TIMEOUT_SECONDS * 1000)),
    }
    try:
        return Producer(producer_settings)
    except KafkaException as error:
        raise refused_options_error(error) from None


def _check_record(record: ProducerRecord, number: int, topic: str, partitions: int) -> None:
    # librdkafka silently takes 0 for "now".
    if record.timestamp_ms is not None and record.timestamp_ms < 1:
        raise LakehouseError(
            f"Record {number}: found the timestamp {record.timestamp_ms}; expected milliseconds after "
            "1970-01-01T00:00Z."
        )
    if record.timestamp_ms is not None and record.timestamp_ms > LARGEST_TIMESTAMP_MS:
        raise LakehouseError(
            f"Record {number}: found the timestamp {record.timestamp_ms}; expected at most {LARGEST_TIMESTAMP_MS}, "
            "which is Kafka's largest."
        )
    for name, _ in record.headers:
        try:
            _check_header_name(name)
        except ValueError as error:
            raise LakehouseError(f"Record {number}: {error}") from None
    if record.partition is not None and not 0 <= record.partition < partitions:
        raise LakehouseError(
            f"Record {number}: found partition {record.partition}; expected 0 to {partitions - 1}, which "
            f"topic {topic!r} has."
        )


def _send_record(producer: Producer, topic: str, record: ProducerRecord, on_delivery: Any) -> None:
    placement: dict[str, Any] = {}
    if record.timestamp_ms is not None:
        placement["timestamp"] = record.timestamp_ms
    if record.partition is not None:
        placement["partition"] = record.partition
    while True:
        try:
            producer.produce(
                topic,
                record.value,
                record.key,
                on_delivery=on_delivery,
                headers=list(record.headers) or None,
                **placement,
            )
        except BufferError:  # the queue is full: wait for the broker
            producer.poll(0.1)
        except KafkaException as error:
            raise KafkaUnavailable(f"A record for topic {topic!r} was refused: {error.args[0].str()}.") from None
        else:
            producer.poll(0)
            return


def parse_lines(
    lines: Iterable[str], format: Literal["json", "tsv"], writers: Writers = NO_WRITERS
) -> Iterator[ProducerRecord]:
    """Yield records from lines of text; empty lines are skipped. Raises LakehouseError with the line's number.

    ``json``: an object ``{"key":, "value":, "timestamp":, "headers":, "partition":}``; only value is required. A JSON
    string gives its text, null is null, and anything else gives its text in the line unchanged: parsing a number and
    writing it again could change it. Blanks between the parts of a key are dropped, so that equal keys have equal bytes
    and one partition. ``tsv``: key, value and timestamp, separated by tabs; an empty key is a null key, and without a
    tab after the key the value is null. A timestamp is milliseconds since 1970, or ISO 8601 (UTC by default).
    writers: for lines of JSON, write the text of a "key" or a "value" that is not null in another way.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            line = line.rstrip("\r\n")
            yield _parse_json_line(line, writers) if format == "json" else _parse_tsv_line(line)
        except ValueError as error:
            raise LakehouseError(f"Line {number}: {error}") from None


def _parse_json_line(line: str, writers: Writers) -> ProducerRecord:
    try:
        parsed = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f'found text that is not JSON ({error.msg} at column {error.colno}); expected {{"key": ..., "value": ...}}'
        ) from None
    except RecursionError:
        raise ValueError("found JSON that is nested too deeply to be read; expected fewer levels") from None
    if not isinstance(parsed, dict) or "value" not in parsed:
        raise ValueError(f'found {line[:60]}; expected an object with a "value" (null for a delete)')
    field_names = [field.name.removesuffix("_ms") for field in fields(ProducerRecord)]
    for name in parsed:
        if name not in field_names:
            close_names = difflib.get_close_matches(name, field_names, n=1)
            hint = f"Did you mean {close_names[0]!r}? " if close_names else ""
            raise ValueError(f"found the field {name!r}. {hint}Expected some of: {', '.join(field_names)}")
    member_texts = _member_texts(line)
    headers = parsed.get("headers") or {}
    if not isinstance(headers, dict):
        raise ValueError(f"found headers {headers!r}; expected an object of names and values")
    header_texts = _member_texts(member_texts["headers"]) if headers else {}
    partition = parsed.get("partition")
    if partition is not None and (isinstance(partition, bool) or not isinstance(partition, int)):
        raise ValueError(f"found partition {partition!r}; expected a whole number")
    return ProducerRecord(
        _written_part("key", parsed.get("key"), _BLANKS.sub(r"\1", member_texts.get("key", "")), writers),
        _written_part("value", parsed["value"], member_texts["value"], writers),
        _parse_timestamp_ms(parsed.get("timestamp")),
        tuple((_check_header_name(name), _value_bytes(value, header_texts[name])) for name, value in headers.items()),
        partition,
    )


def _written_part(part_name: str, value: object, text: str, writers: Writers) -> bytes | None:
    if value is None or part_name not in writers:
        return _value_bytes(value, text)
    try:
        return writers[part_name](text)
    except ValueError as error:
        raise ValueError(f"{part_name}: {error}") from error


def _member_texts(text: str) -> dict[str, str]:
    """Return the text of each member's value in a JSON object, as written. The last of repeated names counts."""
    members: dict[str, str] = {}
    position = _skip_blanks(text, text.index("{") + 1)
    while text[position] != "}":
        name, position = _DECODER.raw_decode(text, _skip_blanks(text, position))
        value_begin = _skip_blanks(text, text.index(":", position) + 1)
        _, value_end = _DECODER.raw_decode(text, value_begin)
        members[name] = text[value_begin:value_end]
        position = _skip_blanks(text, value_end)
        position += text[position] == ","
    return members


def _skip_blanks(text: str, position: int) -> int:
    """Return the first position from ``position`` on that is not white space."""
    while text[position] in " \t\r\n":
        position += 1
    return position


def _parse_tsv_line(line: str) -> ProducerRecord:
    columns = line.split("\t")
    if len(columns) > 3:
        raise ValueError(
            f"found {len(columns)} columns; expected key, value and timestamp with tabs between (or use JSON lines)"
        )
    key, value, timestamp = (*columns, None, None)[:3]
    return ProducerRecord(
        key.encode() if key else None,
        None if value is None else value.encode(),
        _parse_timestamp_ms(timestamp or None),
    )


def _value_bytes(value: object, text: str) -> bytes | None:
    """Return the bytes of a value whose text in the line is ``text``."""
    try:
        return None if value is None else (value if isinstance(value, str) else text).encode()
    except UnicodeEncodeError:
        raise ValueError("found half of a surrogate pair (such as \\ud800), which no UTF-8 text can hold") from None


def _check_header_name(name: str) -> str:
    """Return a header's name. Raises ValueError for one that ends librdkafka's process, or that it would cut."""
    if "\0" in name:
        raise ValueError(f"found the header {name!r}; expected a name without the character \\u0000")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"found the header {name!a}, with half of a surrogate pair; expected UTF-8 text") from None
    return name


def _parse_timestamp_ms(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        if value.strip().lstrip("-").isdigit():
            return int(value)
        try:
            parsed_time = datetime.fromisoformat(iso_text.normal_form(value))
        except ValueError:
            pass
        else:
            aware_time = parsed_time if parsed_time.tzinfo else parsed_time.replace(tzinfo=UTC)
            return (aware_time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    raise ValueError(
        f"found the timestamp {value!r}; expected milliseconds since 1970 or ISO 8601, such as 2013-06-01T00:00:00Z"
    )
