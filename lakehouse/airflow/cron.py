"""Whether a text is a schedule that Airflow will take: a bad one would take its file's DAGs away."""

from __future__ import annotations

import re

from lakehouse.errors import ConfigError

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Name, least and most; the names that stand for numbers, from the least.
FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, MONTHS),
    ("day of the week", 0, 7, DAYS),
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
    for field, (name, least, most, words) in zip(fields, FIELDS, strict=True):
        for part in field.split(","):
            _check_part(part, field, f"{what} {text!r}: {name}", least, most, words)
    return text


def _check_part(part: str, field: str, what: str, least: int, most: int, words: tuple[str, ...]) -> None:
    expected = f"expected *, a number from {least} to {most}, 1-5, */15, or several with commas between"
    match = PART.fullmatch(part)
    if match is None:
        raise ConfigError(f"{what}: found {field!r}; {expected}.")
    numbers = [_number(one, least, words) for one in match.groups()[:2] if one is not None]
    if any(number is None or not least <= number <= most for number in numbers):
        raise ConfigError(f"{what}: found {field!r}; {expected}.")
    if len(numbers) == 2 and (numbers[0] or 0) > (numbers[1] or 0):
        raise ConfigError(f"{what}: found {field!r}, a range that ends before it begins.")


def _number(text: str, least: int, words: tuple[str, ...]) -> int | None:
    if text.lower() in words:
        return words.index(text.lower()) + least
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else None
