"""Checks that Airflow will accept a text as a schedule: a bad one would make all DAGs of its file disappear."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakehouse.errors import ConfigError

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
DAYS_OF = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Least and most; the names for numbers, from the least.
FieldBounds = tuple[int, int, tuple[str, ...]]
FIELDS: tuple[tuple[str, FieldBounds], ...] = (
    ("minute", (0, 59, ())),
    ("hour", (0, 23, ())),
    ("day of the month", (1, 31, ())),
    ("month", (1, 12, MONTHS)),
    ("day of the week", (0, 7, DAYS)),
)
PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/([1-9]\d?))?")


def check(text: str, what: str) -> str:
    """Return a preset or a cron expression of five fields. Raises ConfigError for anything else; `what` names it."""
    if text in PRESETS:
        return text
    fields = text.split(" ")
    if len(fields) != len(FIELDS):
        raise ConfigError(
            f'{what} {text!r}: expected five fields with a space between, such as "30 2 * * *" (half past two every '
            f"night, UTC), or one of {', '.join(PRESETS)}."
        )
    days, months, weekdays = [
        {number for part in field.split(",") for number in _numbers(part, field, f"{what} {text!r}: {name}", of)}
        for field, (name, of) in zip(fields, FIELDS, strict=True)
    ][2:]
    # If both kinds of day are set, cron runs on either. Airflow would show the DAG, and never run it.
    if len({day % 7 for day in weekdays}) == 7 and min(days) > max(DAYS_OF[month - 1] for month in months):
        raise ConfigError(f"{what} {text!r}: this date never occurs; expected one that does.")
    return text


def _numbers(part: str, field: str, what: str, of: FieldBounds) -> Iterable[int]:
    """Return the numbers that a part of a field means. Raises ConfigError."""
    least, most, words = of
    expected = f"expected *, a number from {least} to {most}, 1-5, */15, or several with commas between"
    match = PART.fullmatch(part)
    if match is None:
        raise ConfigError(f"{what}: found {field!r}; {expected}.")
    first, last, step = match.groups()
    low = least if first is None else _number(first, least, words)
    high = (low if first else most) if last is None else _number(last, least, words)
    if low is None or high is None or low < least or max(low, high) > most:
        raise ConfigError(f"{what}: found {field!r}; {expected}.")
    if low > high:
        raise ConfigError(f"{what}: found {field!r}, a range that ends before it begins.")
    return range(low, high + 1, int(step or 1))


def _number(text: str, least: int, words: tuple[str, ...]) -> int | None:
    if text.lower() in words:
        return words.index(text.lower()) + least
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else None
