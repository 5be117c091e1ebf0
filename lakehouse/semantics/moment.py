"""Moments: all times of the meaning are milliseconds since 1970, those of rows are timestamps in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(ms: int) -> datetime:
    """Return milliseconds since the epoch as a timestamp."""
    return EPOCH + timedelta(milliseconds=ms)


def milliseconds(time: Any) -> int:
    """Return a timestamp as milliseconds since the epoch; microseconds below are cut off, as Kafka has none."""
    return int((time - EPOCH) // timedelta(milliseconds=1))
