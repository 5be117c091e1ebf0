"""Kafka timestamps that are not possible times: the field can contain any 64-bit number, such as nanoseconds.

Such a record must not be lost, nor may it move the clocks of others. So bronze keeps it at the first or the last
possible time, with Kafka's own number in a header, and the record moves no clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS, is_possible_time

INT64 = range(-(2**63), 2**63)

HEADER = "lakehouse.kafka-timestamp"
NUMBER = re.compile(rb"-?[0-9]{1,19}")


def bronze_time(ms: int) -> tuple[int, tuple[tuple[str, bytes], ...]]:
    """Return a record's time in bronze, in milliseconds since 1970, and the header with Kafka's own number."""
    if is_possible_time(ms):
        return ms, ()
    return LAST_MS if ms > LAST_MS else FIRST_MS, ((HEADER, str(ms).encode()),)


def find_impossible_time(ms: int, headers: Iterable[tuple[str, bytes | None]]) -> int | None:
    """Return Kafka's own number for a record's time if it is not a possible time, else None.

    A record with such a header from its producer is not mistaken for one: its time in bronze differs.
    """
    if ms not in (FIRST_MS, LAST_MS):
        return None
    return next((int(value) for name, value in headers if name == HEADER and value and NUMBER.fullmatch(value)), None)


def order_time(ms: int, carried_ms: int | None) -> int:
    """Return a record's order time, see `lakehouse.semantics.position`; an impossible time does not move it.

    ms: Kafka's own number, milliseconds since 1970. carried_ms: the order time of the record before, if there is one.
    """
    [running_time] = order_times([ms if is_possible_time(ms) else FIRST_MS], carried_ms)
    return running_time


def record_time(record: Record) -> int:
    """Return a record's own time in milliseconds since 1970: Kafka's number, even if it is not a possible time."""
    kafka_number = find_impossible_time(record.timestamp, record.headers)
    return record.timestamp if kafka_number is None else kafka_number
