"""Zones by the names that Java's ZoneId takes."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from lakehouse.errors import NeedsSpark

_OFFSET = re.compile(r"(UTC|GMT|UT|)([+-])(\d\d?)(?:(:?)(\d\d)(?:\4(\d\d))?)?", re.ASCII)

# Short names that mean a single zone to Java; others (BST, IST) depend on Java's release.
_BY_SHORT_NAME = {
    f"{letter}{season}T": f"America/{city}"
    for letter, city in (("P", "Los_Angeles"), ("M", "Denver"), ("C", "Chicago"), ("E", "New_York"))
    for season in "SD"
}


def offset_text(seconds: int, width: int) -> str:
    """Return an offset in Java's form for so many letters x: +01, +0130, +01:30; with seconds from four letters on."""
    hours, remaining_seconds = divmod(abs(seconds), 3600)
    minutes, remaining_seconds = divmod(remaining_seconds, 60)
    colon = ":" if width in (3, 5) else ""
    offset = f"{hours:02d}"
    if width > 1 or minutes:
        offset += f"{colon}{minutes:02d}"
    if width >= 4 and remaining_seconds:
        offset += f"{colon}{remaining_seconds:02d}"
    is_zero = not hours and not minutes and not (width >= 4 and remaining_seconds)
    return ("+" if seconds >= 0 or is_zero else "-") + offset


def zone_by_short_name(name: str) -> tzinfo:
    """Return the zone that Java takes for a short name, of either season. Raises NeedsSpark for unknown names."""
    if name.upper() in ("UTC", "GMT", "Z"):
        return UTC
    if name.upper() not in _BY_SHORT_NAME:
        raise NeedsSpark(f"the model does not know the zone {name!r}; run this on Spark.")
    return ZoneInfo(_BY_SHORT_NAME[name.upper()])


@lru_cache(maxsize=1024)
def find_zone(zone_name: str) -> tuple[tzinfo, str] | None:
    """Return a zone, and its name as Java writes it; None for an unknown zone."""
    if zone_name == "Z":
        return UTC, zone_name
    if (offset := _OFFSET.fullmatch(zone_name)) is not None:
        prefix, sign, *parts = offset.group(1, 2, 3, 5, 6)
        hours, minutes, seconds = (int(part or 0) for part in parts)
        total_seconds = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total_seconds > 18 * 3600 or (len(parts[0]) == 1 and parts[1]):
            return None
        signed_seconds = total_seconds if sign == "+" else -total_seconds
        offset_name = offset_text(signed_seconds, 5) if total_seconds else "" if prefix else "Z"
        return timezone(timedelta(seconds=signed_seconds)), prefix + offset_name
    return (ZoneInfo(zone_name), zone_name) if zone_name in available_timezones() else None
