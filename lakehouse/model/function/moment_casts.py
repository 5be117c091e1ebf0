"""Casts to dates and timestamps over Python values, for the model. No argument is null here: see `evaluate`."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any, TypeVar

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.zone import find_zone
from lakehouse.semantics.blanks import SPARK_BLANKS
from lakehouse.semantics.epoch_time import EPOCH
from lakehouse.semantics.time.years import LAST_MS, is_possible_time

T = TypeVar("T")
# The texts that Spark reads: at least a year; for a date anything may follow a whole day.
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
        match = _DAY.fullmatch(value.strip(SPARK_BLANKS))
        return None if match is None else _null_if_invalid(lambda: date(*_date_parts(value, *match.groups())))
    raise NeedsSpark(f"the model does not cast {value!r} to a date; run this on Spark.")


def _date_parts(text: str, year: str, month: str | None, day: str | None) -> tuple[int, int, int]:
    if not 1 <= int(year) <= MAXYEAR:
        raise NeedsSpark(f"the model has the years 1 to 9999, and {text!r} is none of them; run this on Spark.")
    return int(year), int(month or 1), int(day or 1)


def to_timestamp(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    if isinstance(value, str):
        return _read_timestamp(value.strip(SPARK_BLANKS))
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _from_seconds(value)
    raise NeedsSpark(f"the model does not cast {value!r} to a timestamp; run this on Spark.")


def _read_timestamp(text: str) -> datetime | None:
    match = _TIMESTAMP.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    zone_text = text[match.end() :]
    named_zone = find_zone(zone_text.strip()) if zone_text and second else (UTC, "")
    if zone_text and (named_zone is None or not second):
        if hour is None:
            return None
        raise NeedsSpark(f"the model does not read the zone of {text!r:.60}; run this on Spark.")
    hours, minutes, seconds = (int(part or 0) for part in (hour, minute, second))
    micros = int((fraction or "")[:6].ljust(6, "0"))
    clock_parts = _null_if_invalid(
        lambda: time(hours, minutes, seconds, micros, named_zone[0] if named_zone is not None else UTC)
    )
    of = _null_if_invalid(lambda: date(*_date_parts(text, year, month, day)))
    local_moment = None if of is None or clock_parts is None else datetime.combine(of, clock_parts)
    try:
        return None if local_moment is None else local_moment.astimezone(UTC)
    except OverflowError:
        raise NeedsSpark(f"the model has the years 1 to 9999, and {text!r} is outside; run this on Spark.") from None


def _from_seconds(value: float | Decimal) -> datetime | None:
    """Return the time so many seconds after 1970, cut to microseconds; null beyond the years 1 to 9999, and for NaN."""
    if not -LAST_MS <= value <= LAST_MS:  # NaN fails this comparison, too
        return None
    with localcontext(prec=100):
        micros = int(value * 1_000_000)
    return EPOCH + timedelta(microseconds=micros) if is_possible_time(micros // 1000) else None


def _null_if_invalid(construct: Callable[[], T]) -> T | None:
    """Return the constructed value; null for an impossible day or time, such as February 30."""
    try:
        return construct()
    except ValueError:
        return None
