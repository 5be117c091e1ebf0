"""Durations as text, and what is refused."""

from __future__ import annotations

import pytest

from lakehouse.duration import duration_ms
from lakehouse.errors import PlanError


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1 millisecond", 1), ("10 milliseconds", 10), ("1 second", 1_000), ("10 minutes", 600_000),
        ("1 hour", 3_600_000), ("1 hour 30 minutes", 5_400_000), ("2 DAYS", 172_800_000), ("1 week", 604_800_000),
        ("  5   seconds ", 5_000), ("90minutes", 5_400_000), ("1day2hours", 93_600_000), ("0 seconds", 0),
    ],
)  # fmt: skip
def test_a_duration_in_milliseconds(text: str, ms: int) -> None:
    assert duration_ms(text, "size") == ms


@pytest.mark.parametrize(
    "text", ["", "10", "minutes", "10 fortnights", "1.5 hours", "-1 hour", "1 hour and a half", 10]
)
def test_what_is_no_duration_is_refused_with_an_example_of_one(text: str) -> None:
    with pytest.raises(PlanError, match=r'size=.*: expected a duration such as "10 minutes"'):
        duration_ms(text, "size")


def test_too_short_a_duration_is_refused() -> None:
    assert duration_ms("1 millisecond", "size", least=1) == 1
    with pytest.raises(PlanError, match="size='0 hours' is 0 ms; expected at least 1 ms"):
        duration_ms("0 hours", "size", least=1)
