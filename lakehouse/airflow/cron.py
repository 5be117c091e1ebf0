"""Checks that Airflow will accept a text as a schedule: a wrong schedule makes all DAGs of its file disappear."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakehouse.errors import ConfigError

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# By field: the least and the most; the names for numbers, from the least.
FieldBounds = tuple[int, int, tuple[str, ...]]
FIELDS: tuple[tuple[str, FieldBounds], ...] = (
    ("minute", (0, 59, ())),
    ("hour", (0, 23, ())),
    ("day of the month", (1, 31, ())),
    ("month", (1, 12, MONTHS)),
    ("day of the week", (0, 7, DAYS)),
)
PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/([1-9]\d?))?")


def check_schedule(text: str, schedule_name: str) -> str:
    """Return a preset or a cron expression of five fields. schedule_name: for messages. Raises ConfigError."""
    if text in PRESETS:
        return text
    fields = text.split(" ")
    if len(fields) != len(FIELDS):
        raise ConfigError(
            f'{schedule_name} {text!r}: expected five fields with a space between, such as "30 2 * * *" (half past '
            f"two every night, UTC), or one of {', '.join(PRESETS)}."
        )
    month_days, months, weekdays = [
        {
            number
            for field_part in field.split(",")
            for number in _parse_numbers(field_part, field, f"{schedule_name} {text!r}: {name}", field_bounds)
        }
        for field, (name, field_bounds) in zip(fields, FIELDS, strict=True)
    ][2:]
    # With both kinds of day, cron runs on either. Without a possible date Airflow would show the DAG, and never run it.
    if len({week_day % 7 for week_day in weekdays}) == 7 and min(month_days) > max(
        MONTH_LENGTHS[month - 1] for month in months
    ):
        raise ConfigError(f"{schedule_name} {text!r}: this date never occurs; expected one that does.")
    return text


def _parse_numbers(part: str, field: str, field_name: str, field_bounds: FieldBounds) -> Iterable[int]:
    """Return the numbers that a part of a field means. Raises ConfigError."""
    least_number, most_number, number_names = field_bounds
    expected_text = (
        f"expected *, a number from {least_number} to {most_number}, 1-5, */15, or several with commas between"
    )
    match = PART.fullmatch(part)
    if match is None:
        raise ConfigError(f"{field_name}: found {field!r}; {expected_text}.")
    first_text, last_text, step_text = match.groups()
    low_number = least_number if first_text is None else _parse_cron_number(first_text, least_number, number_names)
    high_number = (
        (low_number if first_text else most_number)
        if last_text is None
        else _parse_cron_number(last_text, least_number, number_names)
    )
    if (
        low_number is None
        or high_number is None
        or low_number < least_number
        or max(low_number, high_number) > most_number
    ):
        raise ConfigError(f"{field_name}: found {field!r}; {expected_text}.")
    if low_number > high_number:
        raise ConfigError(f"{field_name}: found {field!r}, a range that ends before it begins.")
    return range(low_number, high_number + 1, int(step_text or 1))


def _parse_cron_number(text: str, least: int, number_names: tuple[str, ...]) -> int | None:
    if text.lower() in number_names:
        return number_names.index(text.lower()) + least
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else None
