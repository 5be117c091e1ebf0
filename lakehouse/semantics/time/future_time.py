"""A time from the future: an event time that lies too far ahead of its record's own timestamp.

One such record would close every window for ever. Whether a time lies too far ahead depends on the record alone, never
on a machine's clock, so that a rebuild gives the same. A record without a timestamp of Kafka's (-1) can't be judged,
and counts. A record that was fixed by hand counts too: a person has decided about it, and a fixed record moves no
clock.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.semantics.epoch_time import to_datetime

NO_TIMESTAMP = -1
HEADER = "lakehouse.fixed"  # the header of a fixed record


def is_judged(timestamp: int, headers: Iterable[tuple[str, bytes | None]]) -> bool:
    """Say whether a record's event time is compared with its own timestamp (in milliseconds, as bronze has it)."""
    return timestamp != NO_TIMESTAMP and all(name != HEADER for name, _ in headers)


def ahead_message(subject: str, limit_text: str, event_ms: int, record_ms: int) -> str:
    """Return the message about an event time too far ahead; the part before "; found" is the same for all records."""
    iso_times = (to_datetime(epoch_ms).replace(tzinfo=None).isoformat() for epoch_ms in (event_ms, record_ms))
    return "{} is more than {} ahead of the record's own timestamp; found {}Z, the record's is {}Z".format(
        subject, limit_text, *iso_times
    )
