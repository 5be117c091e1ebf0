"""Durations as text: "10 minutes", "1 hour 30 minutes"; the plan holds them as milliseconds."""

from __future__ import annotations

import re

from lakehouse.errors import PlanError
from lakehouse.semantics.years import FIRST_MS, LAST_MS

UNITS_MS = {
    "millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
LONGEST_MS = LAST_MS - FIRST_MS
_PART = re.compile(r"\s*(\d{1,30})\s*([a-z]+?)s?(?=\s|$|\d)", re.IGNORECASE)


def duration_ms(text: str, what: str, *, least: int = 0) -> int:
    """Return a duration text as milliseconds; PlanError for other texts, or if shorter than `least` or too long."""
    position, total, parts = 0, 0, 0
    while isinstance(text, str) and (found := _PART.match(text, position)):
        unit = UNITS_MS.get(found.group(2).lower())
        if unit is None:
            break
        total, parts, position = total + int(found.group(1)) * unit, parts + 1, found.end()
    if not parts or text[position:].strip():
        raise PlanError(
            f'{what}={text!r}: expected a duration such as "10 minutes" or "1 hour 30 minutes", '
            f"in {', '.join(unit + 's' for unit in UNITS_MS)}."
        )
    if total < least:
        raise PlanError(f"{what}={text!r} is {total} ms; expected at least {least} ms.")
    if total > LONGEST_MS:
        raise PlanError(f"{what}={text!r} is longer than the years 1 to 9999. Choose a shorter one.")
    return total


def duration_text(ms: int) -> str:
    """Return milliseconds as a duration text: "1 day 2 hours"."""
    parts = []
    for unit, length in sorted(UNITS_MS.items(), key=lambda item: -item[1]):
        number, ms = divmod(ms, length)
        if number:
            parts.append(f"{number} {unit}{'s' * (number > 1)}")
    return " ".join(parts) or "0 milliseconds"
