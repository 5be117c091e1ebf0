"""Casts to dates and timestamps over Python values, for the model. No argument is null here: see `evaluate`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any, TypeVar

from lakehouse.errors import NeedsSpark
from lakehouse.semantics.moment import EPOCH
from lakehouse.semantics.years import LAST_MS, is_possible_time

T = TypeVar("T")


def to_date(value: Any) -> date | None:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return _or_null(date.fromisoformat, value)
    _check_no_moment(value, "date")
    return None


def to_timestamp(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?", value):
        return _or_null(datetime.fromisoformat, f"{value}+00:00")
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _from_seconds(value)
    _check_no_moment(value, "timestamp")
    return None


def _from_seconds(value: float | Decimal) -> datetime | None:
    """The time so many seconds after 1970, microseconds cut off; null outside the years 1 to 9999, and for NaN."""
    if not -LAST_MS <= value <= LAST_MS:  # nor is NaN
        return None
    with localcontext(prec=100):
        micros = int(value * 1_000_000)
    return EPOCH + timedelta(microseconds=micros) if is_possible_time(micros // 1000) else None


def _check_no_moment(value: Any, kind: str) -> None:
    """Raise NeedsSpark but for a text without a digit: Spark reads more forms of moments than the model."""
    if not isinstance(value, str) or any(map(str.isdigit, value)):
        raise NeedsSpark(f"the model does not cast {value!r} to a {kind}; run this on Spark.")


def _or_null(read: Callable[[str], T], value: str) -> T | None:
    """What is read of a text; null for a day or a time that there is not, such as February 30."""
    try:
        return read(value)
    except ValueError:
        return None
