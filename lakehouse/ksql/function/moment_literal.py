"""Texts that ksqlDB reads as moments: their forms, and the moments of literals.

A DATE may lack its day, or its month and its day; they are the first. The time of a TIMESTAMP may end anywhere in
12:30:00.000, with zeros for the rest; before it is a whole day and a T. An offset may follow, but no zone's name.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time

from lakehouse.errors import SqlError
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax.kind import Kind

# Patterns for the whole of a text, for Java and for Python.
_END = r"(?![\s\S])"
DATE_PATTERN = "^[0-9]{4}(-[0-9]{2}){0,2}" + _END
TIME_PATTERN = "^[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?" + _END
_CLOCK_BEGIN = "".join(f"(?:{part}" for part in "DD:DD:DD").replace("D", "[0-9]") + "(?:[.][0-9]{0,3}" + ")?" * 9
_SIXTY = "[0-5][0-9]"
_OFFSET = (  # at most 18 hours, as in Java
    f"Z|[+-](?:[0-9]|(?:0[0-9]|1[0-7])(?::{_SIXTY}(?::{_SIXTY})?|{_SIXTY}(?:{_SIXTY})?)?|18(?::?00(?::?00)?)?)"
)
TIMESTAMP_PATTERN = f"^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})T({_CLOCK_BEGIN})({_OFFSET}|){_END}"  # with its three parts
NO_CLOCK = "00:00:00.000"


def moment_literal(text: str, kind: Kind, position: int) -> Sql:
    """Return the DATE, TIME or TIMESTAMP of a literal text, in UTC unless it has an offset."""
    try:
        match kind.name:
            case "DATE":
                return Sql(f"date'{_read_date(text).isoformat()}'", kind)
            case "TIME":
                time_of_day = time.fromisoformat(_matched(TIME_PATTERN, text)[0])
                total_seconds = time_of_day.hour * 3600 + time_of_day.minute * 60 + time_of_day.second
                return Sql(str(total_seconds * 1000 + time_of_day.microsecond // 1000), kind)
        moment = _read_timestamp(text)
    except ValueError:
        right_forms = "2026-01-31, 12:30:00 or 2026-01-31T12:30:00"
        raise SqlError(f"{text!r} is not a {kind}. Write it as {right_forms}", position) from None
    try:
        timestamp_text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    except OverflowError:
        raise SqlError(f"{text!r} is outside the years 1 to 9999", position) from None
    return Sql(f"timestamp'{timestamp_text.zfill(26)}'", kind)


def _matched(pattern: str, text: str) -> re.Match[str]:
    if (match := re.match(pattern, text)) is None:
        raise ValueError(text)
    return match


def _read_date(text: str) -> date:
    day = _matched(DATE_PATTERN, text)[0]
    return date.fromisoformat(day + "2000-01-01"[len(day) :])


def _read_timestamp(text: str) -> datetime:
    if "T" not in text:
        return datetime.combine(_read_date(text), time(), UTC)
    day, clock, offset = _matched(TIMESTAMP_PATTERN, text).groups()
    sign, digits = offset[:1].replace("Z", "+") or "+", offset[1:].replace(":", "")
    digits = digits.zfill(2).ljust(6, "0")
    whole_offset = f"{sign}{digits[:2]}:{digits[2:4]}:{digits[4:]}"
    return datetime.fromisoformat(f"{day}T{clock}{NO_CLOCK[len(clock) :]}{whole_offset}")
