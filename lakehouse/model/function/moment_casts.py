"""Casts to dates and timestamps over Python values, for the model. No argument is null here: see `evaluate`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any, TypeVar

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.zone import zone_of
from lakehouse.semantics.moment import EPOCH
from lakehouse.semantics.years import LAST_MS, in_range

T = TypeVar("T")
_BLANKS = "".join(map(chr, (*range(33), 127)))  # what Spark trims
# What Spark reads of a text: a year at least; after a whole day anything may follow, for a date.
_DAY = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?)?)?",
    re.ASCII,
)


def to_date(value: Any) -> date | None:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, str):
        read = _DAY.fullmatch(value.strip(_BLANKS))
        return None if read is None else _or_null(lambda: date(*_day(value, *read.groups())))
    raise NeedsSpark(f"the model does not cast {value!r} to a date; run this on Spark.")


def _day(text: str, year: str, month: str | None, day: str | None) -> tuple[int, int, int]:
    if not 1 <= int(year) <= MAXYEAR:
        raise NeedsSpark(f"the model has the years 1 to 9999, and {text!r} is none of them; run this on Spark.")
    return int(year), int(month or 1), int(day or 1)


def to_timestamp(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    if isinstance(value, str):
        return _read_timestamp(value.strip(_BLANKS))
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _from_seconds(value)
    raise NeedsSpark(f"the model does not cast {value!r} to a timestamp; run this on Spark.")


def _read_timestamp(text: str) -> datetime | None:
    read = _TIMESTAMP.match(text)
    if read is None:
        return None
    year, month, day, hour, minute, second, fraction = read.groups()
    rest = text[read.end() :]
    zone = zone_of(rest.strip()) if rest and second else (UTC, "")
    if rest and (zone is None or not second):
        if hour is None:
            return None
        raise NeedsSpark(f"the model does not read the zone of {text!r:.60}; run this on Spark.")
    hours, minutes, seconds = (int(part or 0) for part in (hour, minute, second))
    micros = int((fraction or "")[:6].ljust(6, "0"))
    clock = _or_null(lambda: time(hours, minutes, seconds, micros, zone[0] if zone is not None else UTC))
    of = _or_null(lambda: date(*_day(text, year, month, day)))
    local = None if of is None or clock is None else datetime.combine(of, clock)
    try:
        return None if local is None else local.astimezone(UTC)
    except OverflowError:
        raise NeedsSpark(f"the model has the years 1 to 9999, and {text!r} is outside; run this on Spark.") from None


def _from_seconds(value: float | Decimal) -> datetime | None:
    """The time so many seconds after 1970, microseconds cut off; null outside the years 1 to 9999, and for NaN."""
    if not -LAST_MS <= value <= LAST_MS:  # nor is NaN
        return None
    with localcontext(prec=100):
        micros = int(value * 1_000_000)
    return EPOCH + timedelta(microseconds=micros) if in_range(micros // 1000) else None


def _or_null(read: Callable[[], T]) -> T | None:
    """What is read; null for a day or a time that there is not, such as February 30."""
    try:
        return read()
    except ValueError:
        return None
