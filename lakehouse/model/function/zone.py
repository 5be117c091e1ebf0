"""Zones by the names that Java's ZoneId takes."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from lakehouse.errors import NeedsSpark

_OFFSET = re.compile(r"(UTC|GMT|UT|)([+-])(\d\d?)(?::?(\d\d))?(?::?(\d\d))?", re.ASCII)

# Short names that mean one zone alone to Java; others (BST, IST) depend on its release.
_BY_SHORT_NAME = {
    f"{letter}{season}T": f"America/{city}"
    for letter, city in (("P", "Los_Angeles"), ("M", "Denver"), ("C", "Chicago"), ("E", "New_York"))
    for season in "SD"
}


def offset_text(seconds: int, width: int) -> str:
    """Return an offset in Java's form of so many letters x: +01, +0130, +01:30; with seconds from four letters on."""
    hours, rest = divmod(abs(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    colon = ":" if width in (3, 5) else ""
    made = f"{hours:02d}"
    if width > 1 or minutes:
        made += f"{colon}{minutes:02d}"
    if width >= 4 and rest:
        made += f"{colon}{rest:02d}"
    is_zero = not hours and not minutes and not (width >= 4 and rest)
    return ("+" if seconds >= 0 or is_zero else "-") + made


def zone_by_short_name(name: str) -> tzinfo:
    """Return the zone that Java takes for a short name in a text, whatever season it is of. NeedsSpark for others."""
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if name.upper() not in _BY_SHORT_NAME:
        raise NeedsSpark(f"the model does not know the zone {name!r}; run this on Spark.")
    return ZoneInfo(_BY_SHORT_NAME[name.upper()])


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tuple[tzinfo, str] | None:
    """Return a zone, and its name as Java writes it; None for one that there is not."""
    if name == "Z":
        return UTC, name
    if (offset := _OFFSET.fullmatch(name)) is not None:
        prefix, sign, *parts = offset.groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > 18 * 3600 or (len(parts[0]) == 1 and parts[1]):
            return None
        signed = total if sign == "+" else -total
        shown = offset_text(signed, 5) if total else "" if prefix else "Z"
        return timezone(timedelta(seconds=signed)), prefix + shown
    return (ZoneInfo(name), name) if name in available_timezones() else None
