"""Timestamps of Kafka's that are no time: any number of 64 bits can stand there, such as nanoseconds.

A record must not be lost for it, nor may it move the clocks of others. So bronze holds such a record at the first or
the last time that there is, and what Kafka said stands in a header of its own beside it; no clock is moved by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakehouse.semantics.record import Record
from lakehouse.semantics.years import FIRST_MS, LAST_MS, in_range

HEADER = "lakehouse.kafka-timestamp"
NUMBER = re.compile(rb"-?[0-9]{1,19}")


def held(ms: int) -> tuple[int, tuple[tuple[str, bytes], ...]]:
    """Return the time at which a record is held, milliseconds since 1970, and the header that says what Kafka said."""
    if in_range(ms):
        return ms, ()
    return LAST_MS if ms > LAST_MS else FIRST_MS, ((HEADER, str(ms).encode()),)


def no_time(ms: int, headers: Iterable[tuple[str, bytes | None]]) -> int | None:
    """Return what Kafka said of a record's time where that is no time; None where the record's time is one.

    A record that a producer gave such a header is not taken for one: its time is another.
    """
    if ms not in (FIRST_MS, LAST_MS):
        return None
    return next((int(value) for name, value in headers if name == HEADER and value and NUMBER.fullmatch(value)), None)


def of(record: Record) -> int:
    """Return a record's own time, milliseconds since 1970: what Kafka said, also where that is no time."""
    said = no_time(record.timestamp, record.headers)
    return record.timestamp if said is None else said
