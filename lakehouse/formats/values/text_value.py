"""Values written as text: numbers, dates, timestamps and binaries in JSON strings and delimited fields.

Dates and timestamps are read as in Spark (its cast from string): ISO, with or without a zone, which is UTC by
default; "2013", "2013-6" and "2013-6-1 9" are moments too, and so are the other forms of ISO 8601 in
`lakehouse.semantics.time.iso_text`. Texts that depend on today's date ("12:30") are refused, and so are years outside
Python's 1 to 9999.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import copysign, inf, isfinite, isinf, nextafter
from struct import pack, unpack
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from sqlglot import exp

from lakehouse.formats.values.unfit import Unfit, check_number_length, unfit_value
from lakehouse.plan.expression.schema import base_type, parse_type
from lakehouse.semantics.blanks import JAVA_BLANKS, SPARK_BLANKS
from lakehouse.semantics.number_text import NUMBER, exact_decimal
from lakehouse.semantics.time import iso_text

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
NOT_FINITE = {"NaN": float("nan")}
NOT_FINITE |= {name: float("inf") for name in ("Infinity", "+Infinity", "+INF")}
NOT_FINITE |= {name: float("-inf") for name in ("-Infinity", "-INF")}

_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")
_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ].*)?)?)?", re.DOTALL)
_MOMENT = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?[\x00-\x20]*([A-Za-z+-].*)?)?)?)?)?)?"
)
# As in Java, and with one digit, as in Spark: +1, +01, +1:30, +01:3, +0130, +01:30:15, +013015. Others are of no clear
# meaning: +530, +010:00.
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])"
    r"(?:(?P<parts>[0-9]{1,2}(?::[0-9]{1,2}|(?::[0-9]{2}){2})?)|(?P<pairs>(?:[0-9]{2}){2,3}))"
)
_PAIR = re.compile("[0-9]{2}")
_BASE64 = re.compile(r"(?:[\x00-\x20]*[^\x00-\x20]{4})*[\x00-\x20]*")
_BLANK = re.compile(r"[\x00-\x20]+")
_LAST_OF_PLANE = "\uffff"  # Java looks at one half of a character beyond it, which is no digit
_OFFSET_MAX = timedelta(hours=18)
_FIXED_ZONES = {"EST": -5, "MST": -7, "HST": -10}  # hours, as in Java in all years
_OF_PYTHON_ALONE = {"ROC", "Factory", "localtime", "posixrules"}


def precision_and_scale(kind: str) -> tuple[int, int]:
    """Return the precision and scale of a decimal type; plain DECIMAL is DECIMAL(10, 0), as in Spark."""
    type_numbers = [int(item.name) for item in parse_type(kind).find_all(exp.Literal)]
    precision, scale = (*type_numbers, *(10, 0)[len(type_numbers) :])
    return precision, scale


def check_integer_range(value: int, type_name: str) -> int:
    """Return an integer if its type can hold it; raise Unfit otherwise."""
    limit = 1 << (INTEGER_BITS[type_name] - 1)
    if not -limit <= value < limit:
        raise unfit_value(type_name, str(value))
    return value


def round_to_float32(value: float) -> float:
    """Return the nearest number that a FLOAT can hold, as in Spark."""
    try:
        rounded: float = unpack("<f", pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return rounded


def float32_of_text(text: str, number: float) -> float:
    """Return the FLOAT nearest to a number's text, as Java's Float.parseFloat. number: the DOUBLE nearest to it.

    That one, rounded again, may be another FLOAT: where it lies in the middle of two of them, the text decides.
    """
    rounded = round_to_float32(number)
    lower, upper = (round_to_float32(nextafter(number, limit)) for limit in (-inf, inf))
    if lower == upper or not isfinite(number):
        return rounded
    ends = (Fraction(copysign(2**128, end) if isinf(end) else end) for end in (lower, upper))
    exact_number = exact_decimal(text)
    if sum(ends) != 2 * Fraction(number) or exact_number == Decimal(number):
        return rounded
    return upper if exact_number > Decimal(number) else lower


def fit_decimal(value: Decimal, precision: int, scale: int) -> Decimal:
    """Return `value` rounded half up to `scale`; raise Unfit if that takes more than `precision` digits."""
    type_label = f"decimal({precision}, {scale})"
    if not value.is_zero() and value.adjusted() > precision - scale:
        raise unfit_value(type_label, str(value))  # before rounding: 1e999999 would be written out digit by digit
    with localcontext(prec=2000):
        rounded_value = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
    if len(rounded_value.as_tuple().digits) > precision:  # not abs(), which rounds to 28 digits
        raise unfit_value(type_label, str(value))
    return rounded_value.copy_abs() if rounded_value.is_zero() else rounded_value  # Java's BigDecimal has no -0


def parse_decimal(text: str, precision: int, scale: int) -> Decimal:
    """Return a number's text as a decimal of that type; as in Java, its digits may be those of another alphabet."""
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() and c <= _LAST_OF_PLANE else c for c in text)
    if not NUMBER.fullmatch(text):
        raise unfit_value(f"decimal({precision}, {scale})", repr(text))
    check_number_length(text)
    return fit_decimal(exact_decimal(text), precision, scale)


def parse_timestamp(text: str) -> datetime:
    """Return the moment in an ISO text, in UTC; digits after the microseconds are cut off."""
    moment = _parse_moment(text.strip(SPARK_BLANKS)) or _parse_moment(iso_text.normal_form(text))
    if moment is None:
        raise unfit_value("timestamp", repr(text))
    return moment


def _parse_moment(text: str) -> datetime | None:
    """Return the moment in a text as Spark reads it; None if the text has none."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(digits or 1) for digits in match.group(1, 2, 3))
    hour, minute, second = (int(digits or 0) for digits in match.group(4, 5, 6))
    microseconds = int((match[7] or "")[:6].ljust(6, "0"))
    try:
        time_zone = _parse_zone(match[8].strip(JAVA_BLANKS)) if match[8] else UTC
        return datetime(year, month, day, hour, minute, second, microseconds, tzinfo=time_zone).astimezone(UTC)
    except (ValueError, OverflowError, KeyError, OSError):
        return None


@lru_cache(maxsize=1024)
def _parse_zone(zone_name: str) -> tzinfo:
    if zone_name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if (match := _OFFSET.fullmatch(zone_name)) is None:
        return _named_zone(zone_name)
    parts = _PAIR.findall(match["pairs"]) if match["pairs"] else match["parts"].split(":")
    hours, minutes, seconds = (*map(int, parts), 0, 0)[:3]
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if offset > _OFFSET_MAX or minutes > 59 or seconds > 59:
        raise ValueError(f"zone {zone_name!r}")
    return timezone(-offset if match["sign"] == "-" else offset)


def _named_zone(zone_name: str) -> tzinfo:
    """Return a zone by its name in the tz database. Raises ValueError for names that Java's does not have."""
    if zone_name in _FIXED_ZONES:
        return timezone(timedelta(hours=_FIXED_ZONES[zone_name]))
    if zone_name not in _zone_names():
        raise ValueError(f"zone {zone_name!r}")
    return ZoneInfo(zone_name)


@lru_cache(maxsize=1)
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones()) - _OF_PYTHON_ALONE


def parse_date(text: str) -> date:
    """Return the date in an ISO text; for a timestamp's text, the date as written."""
    match = _DATE.fullmatch(text.strip(SPARK_BLANKS)) or _DATE.fullmatch(iso_text.normal_form(text))
    if match is None:
        raise unfit_value("date", repr(text))
    year, month, day = match.groups()
    try:
        return date(int(year), int(month or 1), int(day or 1))
    except ValueError as error:
        raise unfit_value("date", repr(text)) from error


def parse_binary(text: str) -> bytes:
    """Return the bytes of a base64 text; blanks are allowed between its groups of four."""
    if not _BASE64.fullmatch(text):
        raise unfit_value("base64", repr(text))
    try:
        return base64.b64decode(_BLANK.sub("", text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise unfit_value("base64", repr(text)) from error


@lru_cache(maxsize=1024)
def text_reader(type_text: str) -> Callable[[str], Any]:
    """Return the reader of a type's values from plain text, in the form of a delimited field.

    Blanks around numbers, booleans, dates and timestamps are ignored; a string is taken unchanged.
    """
    base_name = base_type(type_text)
    if base_name in INTEGER_BITS:
        return lambda text: _text_integer(text, base_name)
    if base_name == "float":
        return _text_float
    if base_name == "decimal":
        precision, scale = precision_and_scale(type_text)
        return lambda text: parse_decimal(text.strip(), precision, scale)
    readers_by_type: dict[str, Callable[[str], Any]] = {
        "string": str,
        "double": lambda text: _text_double(text, base_name),
        "boolean": _text_boolean,
        "timestamp": parse_timestamp,
        "date": parse_date,
        "binary": parse_binary,
    }
    if base_name not in readers_by_type:
        raise Unfit(f"a {type_text} has no plain text form")
    return readers_by_type[base_name]


def _text_integer(text: str, kind: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise unfit_value(kind, repr(text))
    return check_integer_range(int(text.strip()), kind)


def _text_double(text: str, kind: str) -> float:
    stripped_text = text.strip()
    if stripped_text in NOT_FINITE:
        return NOT_FINITE[stripped_text]
    if not NUMBER.fullmatch(stripped_text):
        raise unfit_value(kind, repr(text))
    check_number_length(stripped_text)
    return float(stripped_text)


def _text_float(text: str) -> float:
    return float32_of_text(text.strip(), _text_double(text, "float"))


def _text_boolean(text: str) -> bool:
    lowered_text = text.strip().lower()
    if lowered_text not in ("true", "false"):
        raise unfit_value("boolean", repr(text))
    return lowered_text == "true"
