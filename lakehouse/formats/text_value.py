"""Values written as text: numbers, dates, timestamps and binaries in JSON strings and delimited fields.

Dates and timestamps are read as in Spark (its cast from string): ISO, with or without a zone, which is UTC by
default; "2013", "2013-6" and "2013-6-1 9" are moments too. So are ISO 8601's other forms that programs write, see
`lakehouse.semantics.iso_text`. Texts that depend on today ("12:30") are refused, and so are years that Python does not
have; it has 1 to 9999.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import lru_cache
from struct import pack, unpack
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from lakehouse.formats.unfit import Unfit, check_length, expected
from lakehouse.plan.schema import base_type, parse_type
from lakehouse.semantics import iso_text
from lakehouse.semantics.number_text import NUMBER, exact

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
NOT_FINITE = {"NaN": float("nan")}
NOT_FINITE |= {name: float("inf") for name in ("Infinity", "+Infinity", "+INF")}
NOT_FINITE |= {name: float("-inf") for name in ("-Infinity", "-INF")}

_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ].*)?)?)?", re.DOTALL)
_MOMENT = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?\s*([A-Za-z+-].*)?)?)?)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?:(?::([0-9]{1,2})|([0-9]{2}))(?::?([0-9]{2}))?)?")
_BASE64 = re.compile(r"(?:[\x00-\x20]*[^\x00-\x20]{4})*[\x00-\x20]*")
_BLANK = re.compile(r"[\x00-\x20]+")
_OFFSET_MAX = timedelta(hours=18)


def decimal_parts(kind: str) -> tuple[int, int]:
    """Return precision and scale of a decimal type; plain DECIMAL is DECIMAL(10, 0), as in Spark."""
    numbers = [int(item.name) for item in parse_type(kind).find_all(exp.Literal)]
    precision, scale = (*numbers, *(10, 0)[len(numbers) :])
    return precision, scale


def integer_in_range(value: int, kind: str) -> int:
    """Return an integer that its type can hold; Unfit otherwise."""
    limit = 1 << (INTEGER_BITS[kind] - 1)
    if not -limit <= value < limit:
        raise expected(kind, str(value))
    return value


def float32(value: float) -> float:
    """Return the nearest number that a FLOAT can hold, as in Spark."""
    try:
        rounded: float = unpack("<f", pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def fit_decimal(value: Decimal, precision: int, scale: int) -> Decimal:
    """Return `value` rounded half up to `scale`; Unfit if that takes more than `precision` digits."""
    what = f"decimal({precision}, {scale})"
    if not value.is_zero() and value.adjusted() > precision - scale:
        raise expected(what, str(value))  # before rounding: 1e999999 would be written out digit by digit
    with localcontext(prec=2000):
        rounded = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
    if len(rounded.as_tuple().digits) > precision:  # its digits, not abs(): that rounds to 28
        raise expected(what, str(value))
    return rounded.copy_abs() if rounded.is_zero() else rounded  # Java's BigDecimal has no -0


def parse_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return a number's text as a decimal of that type."""
    if not NUMBER.fullmatch(text):
        raise expected(f"decimal({precision}, {scale})", repr(text))
    check_length(text)
    return fit_decimal(exact(text), precision, scale)


def parse_timestamp(text: str) -> datetime:
    """Return the moment in an ISO text, in UTC. Digits after the microseconds are cut off."""
    found = _moment(text.strip()) or _moment(iso_text.plain(text))
    if found is None:
        raise expected("timestamp", repr(text))
    return found


def _moment(text: str) -> datetime | None:
    """The moment in a text as Spark reads it; None if there is none."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day = (int(part or 1) for part in found.group(1, 2, 3))
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    micros = int((found[7] or "")[:6].ljust(6, "0"))
    try:
        zone = _zone(found[8].strip()) if found[8] else UTC
        return datetime(year, month, day, hour, minute, second, micros, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError, KeyError, OSError):
        return None


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if (found := _OFFSET.fullmatch(name)) is None:
        return ZoneInfo(name)  # raises KeyError, a ValueError or an OSError for an unknown zone
    sign, hours, *rest = found.groups(default="0")
    minutes, seconds = max(int(rest[0]), int(rest[1])), int(rest[2])
    offset = timedelta(hours=int(hours), minutes=minutes, seconds=seconds)
    if offset > _OFFSET_MAX or minutes > 59 or seconds > 59:
        raise ValueError(f"zone {name!r}")
    return timezone(-offset if sign == "-" else offset)


def parse_date(text: str) -> date:
    """Return the date in an ISO text; for a timestamp's text, the date as written."""
    found = _DATE.fullmatch(text.strip()) or _DATE.fullmatch(iso_text.plain(text))
    if found is None:
        raise expected("date", repr(text))
    year, month, day = found.groups()
    try:
        return date(int(year), int(month or 1), int(day or 1))
    except ValueError as error:
        raise expected("date", repr(text)) from error


def parse_binary(text: str) -> bytes:
    """Return the bytes of a base64 text; blanks are allowed between its groups of four."""
    if not _BASE64.fullmatch(text):
        raise expected("base64", repr(text))
    try:
        return base64.b64decode(_BLANK.sub("", text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise expected("base64", repr(text)) from error


@lru_cache(maxsize=1024)
def from_text(kind: str) -> Callable[[str], Any]:
    """Return the reader of a type's values from plain text, in the form of a delimited field.

    Blanks around numbers, booleans, dates and timestamps are ignored; a string is taken unchanged.
    """
    base = base_type(kind)
    if base in INTEGER_BITS:
        return lambda text: _integer(text, base)
    if base == "float":
        return lambda text: float32(_double(text, base))
    if base == "decimal":
        precision, scale = decimal_parts(kind)
        return lambda text: parse_decimal(text.strip(), precision, scale)
    readers: dict[str, Callable[[str], Any]] = {
        "string": str,
        "double": lambda text: _double(text, base),
        "boolean": _boolean,
        "timestamp": parse_timestamp,
        "date": parse_date,
        "binary": parse_binary,
    }
    if base not in readers:
        raise Unfit(f"a {kind} has no plain text form")
    return readers[base]


def _integer(text: str, kind: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise expected(kind, repr(text))
    return integer_in_range(int(text), kind)


def _double(text: str, kind: str) -> float:
    stripped = text.strip()
    if stripped in NOT_FINITE:
        return NOT_FINITE[stripped]
    if not NUMBER.fullmatch(stripped):
        raise expected(kind, repr(text))
    check_length(stripped)
    return float(stripped)


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise expected("boolean", repr(text))
    return lowered == "true"
