"""Java's DateTimeFormatter for the model: the common letters and those of zones; NeedsSpark for others."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from lakehouse.errors import NeedsSpark
from lakehouse.model.function.java_format import format_parts, format_reader
from lakehouse.model.function.zone import find_zone, offset_text, zone_by_short_name

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip
_DATE, _TIME, _ZONE = "yuMLdDEG", "HhKkmsSaAnN", "XxZzVO"
# Java has other short names for these than the zone database.
_NAMED_OTHERWISE = frozenset(
    ("Africa/Windhoek", "Africa/Juba", "America/Adak", "America/Atka", "Pacific/Johnston", "US/Aleutian")
)
_NAMES_SINCE = 1972  # Java has another name for London's time from 1968 to 1971


def _pad_number(value: int, digit_count: int) -> str:
    return f"{value:0{digit_count}d}"


def _date_part(day: date, letters: str) -> str:
    letter, letter_count = letters[0], len(letters)
    match letter:
        case "y" | "u" if letter_count == 2:
            return _pad_number(day.year % 100, 2)
        case "y" | "u" if letter_count <= 4:
            return _pad_number(day.year, letter_count)
        case "M" | "L" if letter_count <= 2:
            return _pad_number(day.month, letter_count)
        case "M" if letter_count <= 4:
            return _MONTHS[day.month - 1][: 3 if letter_count == 3 else None]
        case "d" if letter_count <= 2:
            return _pad_number(day.day, letter_count)
        case "D" if letter_count <= 3:
            return _pad_number(day.timetuple().tm_yday, letter_count)
        case "E" if letter_count <= 4:
            return _DAYS[day.weekday()][: 3 if letter_count <= 3 else None]
        case "G" if letter_count <= 3:
            return "AD"
    raise NeedsSpark(f"the model does not write {letters!r} of a format; run this on Spark.")


def _time_part(time_of_day: time, letters: str) -> str:
    letter, letter_count = letters[0], len(letters)
    if letter == "S" and letter_count <= 9:
        return f"{time_of_day.microsecond * 1000:09d}"[:letter_count]
    if letter == "a" and letter_count == 1:
        return "AM" if time_of_day.hour < 12 else "PM"
    hour, minute, second = time_of_day.hour, time_of_day.minute, time_of_day.second
    numbers = {"H": hour, "h": hour % 12 or 12, "K": hour % 12, "k": hour or 24, "m": minute, "s": second}
    if letter in numbers and letter_count <= 2:
        return _pad_number(numbers[letter], letter_count)
    raise NeedsSpark(f"the model does not write {letters!r} of a format; run this on Spark.")


def _zone_part(moment: datetime, zone_name: str, letters: str) -> str:
    letter, letter_count = letters[0], len(letters)
    offset_seconds = round((moment.utcoffset() or timedelta()).total_seconds())
    if letter == "V" and letter_count == 2:
        return zone_name
    if letter == "z" and letter_count <= 3:
        return _short_name(moment, zone_name)
    if (letter == "O" and letter_count in (1, 4)) or letters == "ZZZZ":
        return _localized_offset(offset_seconds, is_short=letter_count == 1)
    if letter in "XxZ" and letter_count <= 5:
        if offset_seconds == 0 and (letter == "X" or letters == "ZZZZZ"):
            return "Z"
        return offset_text(offset_seconds, 5 if letters == "ZZZZZ" else 2 if letter == "Z" else letter_count)
    raise NeedsSpark(f"the model does not write {letters!r} of a format; run this on Spark.")


def _localized_offset(offset_seconds: int, *, is_short: bool) -> str:
    if not offset_seconds:
        return "GMT"
    hours, remaining_seconds = divmod(abs(offset_seconds), 3600)
    minutes, remaining_seconds = divmod(remaining_seconds, 60)
    localized_text = f"GMT{'-' if offset_seconds < 0 else '+'}{hours if is_short else _pad_number(hours, 2)}"
    if minutes or remaining_seconds or not is_short:
        localized_text += f":{minutes:02d}"
    return localized_text + (f":{remaining_seconds:02d}" if remaining_seconds else "")


@lru_cache(maxsize=1024)
def _short_names_of(zone_name: str) -> frozenset[str | None]:
    """Return the short names that a zone has today."""
    return frozenset(datetime(2024, month, 1, tzinfo=UTC).astimezone(ZoneInfo(zone_name)).tzname() for month in (1, 7))


def _short_name(moment: datetime, zone_name: str) -> str:
    if not isinstance(moment.tzinfo, ZoneInfo):
        return zone_name
    if zone_name == "UTC":
        return zone_name
    short_name = moment.tzname() or ""
    if (
        zone_name in _NAMED_OTHERWISE
        or moment.year < _NAMES_SINCE
        or not short_name.isalpha()
        or short_name not in _short_names_of(zone_name)
    ):
        raise NeedsSpark(f"the model does not know the short name of {zone_name} at {moment}; run this on Spark.")
    return short_name


def _format_letters(parts: list[tuple[str, str]], allowed_letters: str, write_part: Callable[[str], str]) -> str | None:
    """Return the text of a format's parts; None for a letter that the value has no part for."""
    formatted_text = ""
    for part_kind, part in parts:
        if part_kind == "text":
            formatted_text += part
        elif part[0] not in allowed_letters:
            if part[0] in _DATE + _TIME + _ZONE:
                return None
            raise NeedsSpark(f"the model does not write {part!r} of a format; run this on Spark.")
        else:
            formatted_text += write_part(part)
    return formatted_text


def _format_timestamp(moment: datetime, java_format: str, zone_name: str) -> str | None:
    named_zone = find_zone(zone_name)
    if named_zone is None:
        return None
    try:
        local_moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000).astimezone(named_zone[0])
    except OverflowError as error:
        raise NeedsSpark("the model has no years beyond 1 to 9999; run this on Spark.") from error

    def write_part(part: str) -> str:
        if part[0] in _ZONE:
            return _zone_part(local_moment, named_zone[1], part)
        return _date_part(local_moment, part) if part[0] in _DATE else _time_part(local_moment.time(), part)

    return _format_letters(format_parts(java_format), _DATE + _TIME + _ZONE, write_part)


def _format_date(day: date, java_format: str) -> str | None:
    return _format_letters(format_parts(java_format), _DATE, lambda part: _date_part(day, part))


def _format_time(millis: int, java_format: str) -> str | None:
    if not 0 <= millis < 86_400_000:
        return None
    seconds, remaining_millis = divmod(millis, 1000)
    time_of_day = time(seconds // 3600, seconds // 60 % 60, seconds % 60, remaining_millis * 1000)
    return _format_letters(format_parts(java_format), _TIME, lambda part: _time_part(time_of_day, part))


def _parse_fields(text: str, java_format: str) -> dict[str, str] | None:
    match = format_reader(java_format).fullmatch(text)
    if match is None:
        return None
    fields = match.groupdict()
    if "N" in fields:
        zone_by_short_name(match["N"])
    # Java compares hours that are given twice, and half a day alone is the middle of it.
    if ("H" in fields and fields.keys() & {"I", "p"}) or ("p" in fields and "I" not in fields):
        raise NeedsSpark(f"the model does not read HH, hh and a as in {java_format!r}; run this on Spark.")
    return {group_name: value.lower() for group_name, value in fields.items()}


def _parse_date(text: str, java_format: str) -> date | None:
    """Return the day that a text names, whatever its zone; a 30th of February becomes the month's last day."""
    fields = _parse_fields(text, java_format)
    if fields is None:
        return None
    if "b" in fields:
        fields["m"] = str(
            next(
                month_number
                for month_number, month_name in enumerate(_MONTHS, 1)
                if month_name.lower().startswith(fields["b"])
            )
        )
    if not (fields.keys() >= {"m", "d"} and fields.keys() & {"Y", "y"}):
        return None
    year = int(fields["Y"]) if "Y" in fields else 2000 + int(fields["y"])
    month, day = int(fields["m"]), int(fields["d"])
    if not (1 <= month <= 12 and 1 <= day <= 31 and year) or not _is_clock(fields):
        return None
    return date(year, month, min(day, monthrange(year, month)[1]))


def _is_clock(part: dict[str, str]) -> bool:
    """Say whether the parts of a time are in range."""
    ends = {"H": (0, 23), "I": (1, 12), "M": (0, 59), "S": (0, 59)}
    return all(least <= int(part[name]) <= most for name, (least, most) in ends.items() if name in part)


def _parse_time(text: str, java_format: str) -> int | None:
    """Return the time of day that a text names, whatever its zone; a format with a day does not fit."""
    fields = _parse_fields(text, java_format)
    if fields is None or fields.keys() & {"Y", "y", "m", "d", "b"} or not fields.keys() & {"H", "I"}:
        return None
    if "I" in fields and ("p" not in fields or not 1 <= int(fields["I"]) <= 12):
        return None
    hour = int(fields["H"]) if "H" in fields else int(fields["I"]) % 12 + (12 if fields["p"] == "pm" else 0)
    minute, second = int(fields.get("M", 0)), int(fields.get("S", 0))
    # A part of a time needs all the larger ones.
    is_whole = [name in fields for name in "MSf"] in (
        [False] * 3,
        [True, False, False],
        [True, True, False],
        [True] * 3,
    )
    if hour > 23 or minute > 59 or second > 59 or not is_whole:
        return None
    return ((hour * 60 + minute) * 60 + second) * 1000 + int(fields.get("f", "0").ljust(9, "0")[:3])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ksql_format_timestamp": _format_timestamp,
    "ksql_format_date": _format_date,
    "ksql_format_time": _format_time,
    "ksql_parse_date": _parse_date,
    "ksql_parse_time": _parse_time,
}
