"""Which times exist, and how others are refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from lakehouse.formats.values.unfit import FOUND_PART
from lakehouse.semantics.epoch_time import to_datetime, to_milliseconds
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS, impossible_time_message, is_possible_time


def test_the_range_is_what_python_can_hold() -> None:
    assert to_milliseconds(datetime.min.replace(tzinfo=UTC)) == FIRST_MS
    assert to_milliseconds(datetime.max.replace(tzinfo=UTC)) == LAST_MS
    for last, beyond in ((FIRST_MS, FIRST_MS - 1), (LAST_MS, LAST_MS + 1)):
        assert is_possible_time(last)
        assert not is_possible_time(beyond)
        assert to_milliseconds(to_datetime(last)) == last
        with pytest.raises(OverflowError):
            to_datetime(beyond)


def test_another_unit_is_named_where_it_is_likely() -> None:
    june = 1_370_044_800_000
    assert "microseconds? then it is 2013-06-01T00:00:00Z" in impossible_time_message("x", june * 1_000)
    assert "nanoseconds? then it is 2013-06-01T00:00:00Z" in impossible_time_message("x", june * 1_000_000)
    assert impossible_time_message("x", 2**63 - 1).endswith("found 9223372036854775807 milliseconds since 1970")
    assert impossible_time_message("x", FIRST_MS - 1).endswith(f"found {FIRST_MS - 1} milliseconds since 1970")


def test_the_same_fault_has_one_kind_of_reason() -> None:
    kinds = {
        re.sub(FOUND_PART, "", impossible_time_message("the event time at", ms))
        for ms in (2**62, LAST_MS + 1, FIRST_MS - 1)
    }
    assert kinds == {"the event time at is outside the years 1 to 9999"}
