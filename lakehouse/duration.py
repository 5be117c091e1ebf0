"""Durations as text: "10 minutes", "1 hour 30 minutes"; the plan holds them as milliseconds."""

from __future__ import annotations

import re

from lakehouse.errors import PlanError
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS

UNITS_MS = {
    "millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
LONGEST_MS = LAST_MS - FIRST_MS
_DURATION_PART = re.compile(r"\s*(\d{1,30})\s*([a-z]+?)s?(?=\s|$|\d)", re.IGNORECASE)


def duration_ms(text: str, label: str, *, least: int = 0) -> int:
    """Return a duration text as milliseconds. Raises PlanError for other texts, or if below `least` or too long."""
    text_position, total_ms, part_count = 0, 0, 0
    while isinstance(text, str) and (match := _DURATION_PART.match(text, text_position)):
        unit = UNITS_MS.get(match.group(2).lower())
        if unit is None:
            break
        total_ms, part_count, text_position = total_ms + int(match.group(1)) * unit, part_count + 1, match.end()
    if not part_count or text[text_position:].strip():
        raise PlanError(
            f'{label}={text!r}: expected a duration such as "10 minutes" or "1 hour 30 minutes", '
            f"in {', '.join(unit + 's' for unit in UNITS_MS)}."
        )
    if total_ms < least:
        raise PlanError(f"{label}={text!r} is {total_ms} ms; expected at least {least} ms.")
    if total_ms > LONGEST_MS:
        raise PlanError(f"{label}={text!r} is longer than the years 1 to 9999. Choose a shorter one.")
    return total_ms


def duration_text(ms: int) -> str:
    """Return milliseconds as a duration text: "1 day 2 hours"."""
    unit_texts = []
    for unit, unit_ms in sorted(UNITS_MS.items(), key=lambda item: -item[1]):
        unit_count, ms = divmod(ms, unit_ms)
        if unit_count:
            unit_texts.append(f"{unit_count} {unit}{'s' * (unit_count > 1)}")
    return " ".join(unit_texts) or "0 milliseconds"
