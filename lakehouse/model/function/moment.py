"""Spark SQL's functions of dates and moments over Python values, for the model; formats with common letters only."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.java_format import MONTHS, format_parts, format_reader
from lakehouse.model.function.moment_casts import to_date, to_timestamp
from lakehouse.model.function.zone import find_zone, zone_by_short_name

# Parts of a format in Python's strftime. Other letters need Spark.
_STRFTIME_PARTS = {
    "yy": "%y", "MM": "%m", "MMM": "%b", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S",
    "a": "%p", "EEE": "%a", "E": "%a", "EEEE": "%A", "MMMM": "%B",
}  # fmt: skip
# Spark's session runs in UTC.
_UTC_PARTS = {
    "X": "Z", "XX": "Z", 3 * "X": "Z", "x": "+00", "xx": "+0000", "xxx": "+00:00", "Z": "+0000", "ZZ": "+0000",
    "ZZZ": "+0000", "z": "UTC", "zz": "UTC", "zzz": "UTC", "VV": "UTC",
}  # fmt: skip


_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def format_moment(value: Any, java_format: str) -> str | None:
    """Return date_format of a date, a moment, or a text that Spark casts to a moment."""
    moment = to_timestamp(value)
    if moment is None:
        return None
    formatted_text = ""
    for part_kind, part in format_parts(java_format):
        if part_kind == "text":
            formatted_text += part
        elif set(part) == {"S"} and len(part) <= 6:
            formatted_text += f"{moment.microsecond:06d}"[: len(part)]
        elif part in ("M", "d", "H"):
            formatted_text += str({"M": moment.month, "d": moment.day, "H": moment.hour}[part])
        elif part in _UTC_PARTS:
            formatted_text += _UTC_PARTS[part]
        elif part == "yyyy":
            formatted_text += f"{moment.year:04d}"
        elif part in _STRFTIME_PARTS:
            formatted_text += moment.strftime(_STRFTIME_PARTS[part])
        else:
            raise NeedsSpark(f"the model does not write {part!r} of the format {java_format!r}; run this on Spark.")
    return formatted_text


def parse_moment(text: Any, java_format: str | None = None) -> datetime | None:
    """Return to_timestamp of a text; None for a text that does not fit."""
    if java_format is None or not isinstance(text, str):
        raise NeedsSpark("the model reads moments of texts in a format alone; run this on Spark.")
    match = format_reader(java_format, least_fraction_digits=1).fullmatch(text)
    if match is None:
        if text[:1] in ("+", "-") and format_reader(java_format, least_fraction_digits=1).fullmatch(text[1:]):
            raise NeedsSpark(f"the model does not read a year with a sign: {text!r:.60}. Run this on Spark.")
        return None
    groups = {name: value.lower() for name, value in match.groupdict().items()}
    numbers = {name: int(value) for name, value in groups.items() if name not in "fpbzN"}
    if "b" in groups:
        month = next(month_number for month_number, name in enumerate(MONTHS, 1) if name.startswith(groups["b"]))
        if numbers.setdefault("m", month) != month:
            return None
    if ("I" in groups) != ("p" in groups) or ("I" in groups and "H" in groups):
        raise NeedsSpark(
            f"the model does not read the format {java_format!r}: hh and a belong together, without HH. Use Spark."
        )
    if "I" in groups and not 1 <= numbers["I"] <= 12:
        return None
    hour = numbers["I"] % 12 + (12 if groups["p"] == "pm" else 0) if "I" in groups else numbers.get("H", 0)
    year = numbers.get("Y", 2000 + numbers["y"] if "y" in numbers else 1970)
    try:
        moment = datetime(
            year, numbers.get("m", 1), numbers.get("d", 1), hour, numbers.get("M", 0), numbers.get("S", 0),
            int(groups.get("f", "0").ljust(6, "0")), UTC,
        )  # fmt: skip
        if "N" in groups:
            return moment.replace(tzinfo=zone_by_short_name(groups["N"])).astimezone(UTC)
        return moment - _parse_offset(groups.get("z", "z"))
    except (ValueError, OverflowError):
        return None


def _parse_offset(text: str) -> timedelta:
    """Return the offset from UTC of Z, +01, +0100 or +01:00. Raises ValueError beyond 18 hours."""
    if text.lower() == "z":
        return timedelta()
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if int(digits[2:]) > 59 or offset > timedelta(hours=18):
        raise ValueError(text)
    return -offset if text[0] == "-" else offset


# Names that Spark may know beyond Java's zones: three letters such as PST, offsets such as +1:00.
_MAY_BE_A_ZONE = re.compile(r"[A-Z]{3}|(UTC|GMT|UT)?[+-][0-9:]+")


def _require_zone(zone_name: str) -> tzinfo | None:
    named_zone = find_zone(zone_name)
    if named_zone is None and _MAY_BE_A_ZONE.fullmatch(zone_name):
        raise NeedsSpark(f"the model does not know the zone {zone_name!r}; run this on Spark.")
    return None if named_zone is None else named_zone[0]


def _from_utc(moment: Any, zone: str) -> datetime | None:
    moment, zone_info = to_timestamp(moment), _require_zone(zone)
    return None if moment is None or zone_info is None else moment.astimezone(zone_info).replace(tzinfo=UTC)


def _to_utc(moment: Any, zone: str) -> datetime | None:
    moment, zone_info = to_timestamp(moment), _require_zone(zone)
    # As in Java: the first of an hour that comes twice; a skipped hour takes the offset before it.
    return None if moment is None or zone_info is None else moment.replace(tzinfo=zone_info).astimezone(UTC)


def _day_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a day that also takes a moment or a text, which Spark casts to a day."""

    def run(value: Any, *arguments: Any) -> Any:
        day = to_date(value)
        return None if day is None else function(day, *arguments)

    return run


def _add_months(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _to_date(text: Any, java_format: str | None = None) -> date | None:
    # sqlglot drops the format yyyy-MM-dd; without a format Spark reads more texts.
    if java_format is None and isinstance(text, str) and any(map(str.isdigit, text)) and not _ISO_DATE.fullmatch(text):
        raise NeedsSpark(f"the model does not read {text!r} as a date; run this on Spark.")
    moment = parse_moment(text, java_format or "yyyy-MM-dd")
    return None if moment is None else moment.date()


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "year": _day_function(lambda day: day.year),
    "month": _day_function(lambda day: day.month),
    "date_format": format_moment,
    "to_timestamp": parse_moment,
    "to_date": _to_date,
    "from_utc_timestamp": _from_utc,
    "to_utc_timestamp": _to_utc,
    "add_months": _day_function(_add_months),
    "date_add": _day_function(lambda day, days: day + timedelta(days=days)),
}
