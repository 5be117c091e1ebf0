"""Times as numbers of milliseconds or microseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(ms: int) -> datetime:
    """Return milliseconds since the epoch as a timestamp."""
    return EPOCH + timedelta(milliseconds=ms)


def to_milliseconds(time: Any) -> int:
    """Return a timestamp as milliseconds since the epoch, without its microseconds, which Kafka does not have."""
    return int((time - EPOCH) // timedelta(milliseconds=1))


def to_microseconds(time: Any) -> int:
    """Return a timestamp as microseconds since the epoch, its full precision."""
    return int((time - EPOCH) // timedelta(microseconds=1))


def moment_text(ms: int) -> str:
    """Return a moment as text: 2013-06-01T18:00:00Z."""
    utc_time = to_datetime(ms).replace(tzinfo=None)
    return utc_time.isoformat(timespec="milliseconds" if ms % 1000 else "seconds") + "Z"
