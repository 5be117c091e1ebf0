"""Zones by the names that Java's ZoneId takes."""

from __future__ import annotations

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

_OFFSET = re.compile(r"(UTC|GMT|UT|)([+-])(\d\d?)(?::?(\d\d))?(?::?(\d\d))?", re.ASCII)


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
