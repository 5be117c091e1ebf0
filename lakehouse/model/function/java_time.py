"""Java's DateTimeFormatter for the model: the common letters, and those of zones; NeedsSpark for others."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.java_format import format_parts, format_reader
from lakehouse.model.function.zone import offset_text, zone_by_short_name, zone_of

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DATE, _TIME, _ZONE = "yuMLdDEG", "HhKkmsSaAnN", "XxZzVO"
# Java has other short names for these than the zone database.
_NAMED_OTHERWISE = frozenset(
    ("Africa/Windhoek", "Africa/Juba", "America/Adak", "America/Atka", "Pacific/Johnston", "US/Aleutian")
)
_NAMES_SINCE = 1972  # London's summer of 1968 to 1971 has another name in Java


def _number(value: int, width: int) -> str:
    return f"{value:0{width}d}"


def _date_part(day: date, letters: str) -> str:
    letter, width = letters[0], len(letters)
    match letter:
        case "y" | "u" if width == 2:
            return _number(day.year % 100, 2)
        case "y" | "u" if width <= 4:
            return _number(day.year, width)
        case "M" | "L" if width <= 2:
            return _number(day.month, width)
        case "M" if width <= 4:
            return _MONTHS[day.month - 1][: 3 if width == 3 else None]
        case "d" if width <= 2:
            return _number(day.day, width)
        case "D" if width <= 3:
            return _number(day.timetuple().tm_yday, width)
        case "E" if width <= 4:
            return _DAYS[day.weekday()][: 3 if width <= 3 else None]
        case "G" if width <= 3:
            return "AD"
    raise NeedsSpark(f"the model does not write {letters!r} of a format; run this on Spark.")


def _time_part(at: time, letters: str) -> str:
    letter, width = letters[0], len(letters)
    if letter == "S" and width <= 9:
        return f"{at.microsecond * 1000:09d}"[:width]
    if letter == "a" and width == 1:
        return "AM" if at.hour < 12 else "PM"
    numbers = {"H": at.hour, "h": at.hour % 12 or 12, "K": at.hour % 12, "k": at.hour or 24, "m": at.minute,
               "s": at.second}  # fmt: skip
    if letter in numbers and width <= 2:
        return _number(numbers[letter], width)
    raise NeedsSpark(f"the model does not write {letters!r} of a format; run this on Spark.")


def _zone_part(moment: datetime, zone: str, letters: str) -> str:
    letter, width = letters[0], len(letters)
    seconds = round((moment.utcoffset() or timedelta()).total_seconds())
    if letter == "V" and width == 2:
        return zone
    if letter == "z" and width <= 3:
        return _short_name(moment, zone)
    if (letter == "O" and width in (1, 4)) or letters == "ZZZZ":
        return _localized(seconds, is_short=width == 1)
    if letter in "XxZ" and width <= 5:
        if seconds == 0 and (letter == "X" or letters == "ZZZZZ"):
            return "Z"
        return offset_text(seconds, 5 if letters == "ZZZZZ" else 2 if letter == "Z" else width)
    raise NeedsSpark(f"the model does not write {letters!r} of a format; run this on Spark.")


def _localized(seconds: int, *, is_short: bool) -> str:
    if not seconds:
        return "GMT"
    hours, rest = divmod(abs(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    made = f"GMT{'-' if seconds < 0 else '+'}{hours if is_short else _number(hours, 2)}"
    if minutes or rest or not is_short:
        made += f":{minutes:02d}"
    return made + (f":{rest:02d}" if rest else "")


@lru_cache(maxsize=1024)
def _names_of(zone: str) -> frozenset[str | None]:
    """The short names that a zone has these days."""
    return frozenset(datetime(2024, month, 1, tzinfo=UTC).astimezone(ZoneInfo(zone)).tzname() for month in (1, 7))


def _short_name(moment: datetime, zone: str) -> str:
    if not isinstance(moment.tzinfo, ZoneInfo):
        return zone
    if zone == "UTC":
        return zone
    name = moment.tzname() or ""
    if zone in _NAMED_OTHERWISE or moment.year < _NAMES_SINCE or not name.isalpha() or name not in _names_of(zone):
        raise NeedsSpark(f"the model does not know the short name of {zone} at {moment}; run this on Spark.")
    return name


def _format(parts: list[tuple[str, str]], letters: str, written: Callable[[str], str]) -> str | None:
    """A text of the parts of a format; None for a letter of which there is nothing here."""
    made = ""
    for kind, part in parts:
        if kind == "text":
            made += part
        elif part[0] not in letters:
            if part[0] in _DATE + _TIME + _ZONE:
                return None
            raise NeedsSpark(f"the model does not write {part!r} of a format; run this on Spark.")
        else:
            made += written(part)
    return made


def _format_timestamp(moment: datetime, format: str, zone: str) -> str | None:
    known = zone_of(zone)
    if known is None:
        return None
    try:
        local = moment.replace(microsecond=moment.microsecond // 1000 * 1000).astimezone(known[0])
    except OverflowError as error:
        raise NeedsSpark("the model has no years beyond 1 to 9999; run this on Spark.") from error

    def written(part: str) -> str:
        if part[0] in _ZONE:
            return _zone_part(local, known[1], part)
        return _date_part(local, part) if part[0] in _DATE else _time_part(local.time(), part)

    return _format(format_parts(format), _DATE + _TIME + _ZONE, written)


def _format_date(day: date, format: str) -> str | None:
    return _format(format_parts(format), _DATE, lambda part: _date_part(day, part))


def _format_time(millis: int, format: str) -> str | None:
    if not 0 <= millis < 86_400_000:
        return None
    seconds, rest = divmod(millis, 1000)
    at = time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1000)
    return _format(format_parts(format), _TIME, lambda part: _time_part(at, part))


def _fields(text: str, format: str) -> dict[str, str] | None:
    read = format_reader(format).fullmatch(text)
    if read is not None and "N" in read.groupdict():
        zone_by_short_name(read["N"])
    return None if read is None else {name: value.lower() for name, value in read.groupdict().items()}


def _parse_date(text: str, format: str) -> date | None:
    """The day that a text names, whatever its zone; the last one of the month for a 30th of February."""
    part = _fields(text, format)
    if part is None:
        return None
    if "b" in part:
        part["m"] = str(next(n for n, name in enumerate(_MONTHS, 1) if name.lower().startswith(part["b"])))
    if not (part.keys() >= {"m", "d"} and part.keys() & {"Y", "y"}):
        return None
    year = int(part["Y"]) if "Y" in part else 2000 + int(part["y"])
    month, day = int(part["m"]), int(part["d"])
    if not (1 <= month <= 12 and 1 <= day <= 31 and year) or not _is_clock(part):
        return None
    return date(year, month, min(day, monthrange(year, month)[1]))


def _is_clock(part: dict[str, str]) -> bool:
    """Say whether the parts of a time are in their ranges."""
    ends = {"H": (0, 23), "I": (1, 12), "M": (0, 59), "S": (0, 59)}
    return all(least <= int(part[name]) <= most for name, (least, most) in ends.items() if name in part)


def _parse_time(text: str, format: str) -> int | None:
    """The time of day that a text names, whatever its zone; a day in it has no place."""
    part = _fields(text, format)
    if part is None or part.keys() & {"Y", "y", "m", "d", "b"} or not part.keys() & {"H", "I"}:
        return None
    if "I" in part and ("p" not in part or not 1 <= int(part["I"]) <= 12):
        return None
    hour = int(part["H"]) if "H" in part else int(part["I"]) % 12 + (12 if part["p"] == "pm" else 0)
    minute, second = int(part.get("M", 0)), int(part.get("S", 0))
    if hour > 23 or minute > 59 or second > 59 or ("M" not in part and "S" in part):
        return None
    return ((hour * 60 + minute) * 60 + second) * 1000 + int(part.get("f", "0").ljust(9, "0")[:3])


STRICT: dict[str, Callable[..., Any]] = {
    "ksql_format_timestamp": _format_timestamp,
    "ksql_format_date": _format_date,
    "ksql_format_time": _format_time,
    "ksql_parse_date": _parse_date,
    "ksql_parse_time": _parse_time,
}
