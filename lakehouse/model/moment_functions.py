"""Spark SQL's functions of dates and moments over Python values, for the model. Formats: the common letters alone."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.java_format import MONTHS, format_parts, format_reader
from lakehouse.model.function.moment_casts import to_date, to_timestamp
from lakehouse.model.function.zone import zone_by_short_name, zone_of

# A part of a format as Python's strftime has it. Letters that are not here belong to Spark.
_WRITTEN = {
    "yy": "%y", "MM": "%m", "MMM": "%b", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S",
    "a": "%p", "EEE": "%a", "E": "%a", "EEEE": "%A", "MMMM": "%B",
}  # fmt: skip
# The zone of all clocks in Spark is UTC.
_ZONES = {"X": "Z", "XX": "Z", 3 * "X": "Z", "x": "+00", "xx": "+0000", "xxx": "+00:00", "Z": "+0000", "ZZ": "+0000",
          "ZZZ": "+0000", "z": "UTC", "zz": "UTC", "zzz": "UTC", "VV": "UTC"}  # fmt: skip


# Spark gives a year all digits there, and reads nothing.
_FRACTION_AFTER_A_NUMBER = re.compile("yyyy[A-RT-Za-z]*S")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def formatted(value: Any, format: str) -> str | None:
    """Return date_format of a date, a moment, or a text that Spark casts to one."""
    moment = to_timestamp(value)
    if moment is None:
        return None
    made = ""
    for kind, part in format_parts(format):
        if kind == "text":
            made += part
        elif set(part) == {"S"} and len(part) <= 6:
            made += f"{moment.microsecond:06d}"[: len(part)]
        elif part in ("M", "d", "H"):
            made += str({"M": moment.month, "d": moment.day, "H": moment.hour}[part])
        elif part in _ZONES:
            made += _ZONES[part]
        elif part == "yyyy":
            made += f"{moment.year:04d}"
        elif part in _WRITTEN:
            made += moment.strftime(_WRITTEN[part])
        else:
            raise NeedsSpark(f"the model does not write {part!r} of the format {format!r}; run this on Spark.")
    return made


def parsed(text: Any, format: str | None = None) -> datetime | None:
    """Return to_timestamp of a text; None for one that does not fit."""
    if format is None or not isinstance(text, str):
        raise NeedsSpark("the model reads moments of texts in a format alone; run this on Spark.")
    if _FRACTION_AFTER_A_NUMBER.search(format):
        raise NeedsSpark(f"the model does not read a fraction that follows a number at once: {format!r}. Use Spark.")
    found = format_reader(format).fullmatch(text)
    if found is None:
        if text[:1] in ("+", "-") and format_reader(format).fullmatch(text[1:]):
            raise NeedsSpark(f"the model does not read a year with a sign: {text!r:.60}. Run this on Spark.")
        return None
    part = {name: value.lower() for name, value in found.groupdict().items()}
    number = {name: int(value) for name, value in part.items() if name not in "fpbzN"}
    if "b" in part:
        number["m"] = next(place for place, name in enumerate(MONTHS, 1) if name.startswith(part["b"]))
    if ("I" in part) != ("p" in part):
        raise NeedsSpark(f"the model does not read the format {format!r}: hh and a belong together; run this on Spark.")
    if "I" in part and not 1 <= number["I"] <= 12:
        return None
    hour = number["I"] % 12 + (12 if part["p"] == "pm" else 0) if "I" in part else number.get("H", 0)
    year = number.get("Y", 2000 + number["y"] if "y" in number else 1970)
    try:
        moment = datetime(
            year, number.get("m", 1), number.get("d", 1), hour, number.get("M", 0), number.get("S", 0),
            int(part.get("f", "0").ljust(6, "0")), UTC,
        )  # fmt: skip
        if "N" in part:
            return moment.replace(tzinfo=zone_by_short_name(part["N"])).astimezone(UTC)
        return moment - _offset(part.get("z", "z"))
    except (ValueError, OverflowError):
        return None


def _offset(text: str) -> timedelta:
    """How far a clock is ahead of UTC's: of Z, +01, +0100 or +01:00. Raises ValueError beyond 18 hours."""
    if text.lower() == "z":
        return timedelta()
    digits = text[1:].replace(":", "").ljust(4, "0")
    ahead = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if int(digits[2:]) > 59 or ahead > timedelta(hours=18):
        raise ValueError(text)
    return -ahead if text[0] == "-" else ahead


# Names of which Spark may know more than Java's zones: three letters such as PST, offsets such as +1:00.
_MAY_BE_A_ZONE = re.compile(r"[A-Z]{3}|(UTC|GMT|UT)?[+-][0-9:]+")


def _zone(name: str) -> tzinfo | None:
    known = zone_of(name)
    if known is None and _MAY_BE_A_ZONE.fullmatch(name):
        raise NeedsSpark(f"the model does not know the zone {name!r}; run this on Spark.")
    return None if known is None else known[0]


def _from_utc(moment: Any, zone: str) -> datetime | None:
    moment, of = to_timestamp(moment), _zone(zone)
    return None if moment is None or of is None else moment.astimezone(of).replace(tzinfo=UTC)


def _to_utc(moment: Any, zone: str) -> datetime | None:
    moment, of = to_timestamp(moment), _zone(zone)
    # As in Java: of an hour that comes twice the first, and what a zone leaves out by the offset before.
    return None if moment is None or of is None else moment.replace(tzinfo=of).astimezone(UTC)


def _of_day(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a day as one of a day, a moment or a text, which Spark casts to a day."""

    def run(value: Any, *more: Any) -> Any:
        day = to_date(value)
        return None if day is None else work(day, *more)

    return run


def _add_months(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _to_date(text: Any, format: str | None = None) -> date | None:
    # sqlglot leaves yyyy-MM-dd out; without a format Spark reads more than that.
    if format is None and isinstance(text, str) and any(map(str.isdigit, text)) and not _ISO_DATE.fullmatch(text):
        raise NeedsSpark(f"the model does not read {text!r} as a date; run this on Spark.")
    moment = parsed(text, format or "yyyy-MM-dd")
    return None if moment is None else moment.date()


STRICT: dict[str, Callable[..., Any]] = {
    "year": _of_day(lambda day: day.year),
    "month": _of_day(lambda day: day.month),
    "date_format": formatted,
    "to_timestamp": parsed,
    "to_date": _to_date,
    "from_utc_timestamp": _from_utc,
    "to_utc_timestamp": _to_utc,
    "add_months": _of_day(_add_months),
    "date_add": _of_day(lambda day, days: day + timedelta(days=days)),
}
