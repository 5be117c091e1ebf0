"""Which times exist, and how others are refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from lakehouse.formats.unfit import FOUND
from lakehouse.semantics.moment import milliseconds, moment
from lakehouse.semantics.years import FIRST_MS, LAST_MS, in_range, refusal


def test_the_range_is_what_python_can_hold() -> None:
    assert milliseconds(datetime.min.replace(tzinfo=UTC)) == FIRST_MS
    assert milliseconds(datetime.max.replace(tzinfo=UTC)) == LAST_MS
    for last, beyond in ((FIRST_MS, FIRST_MS - 1), (LAST_MS, LAST_MS + 1)):
        assert in_range(last)
        assert not in_range(beyond)
        assert milliseconds(moment(last)) == last
        with pytest.raises(OverflowError):
            moment(beyond)


def test_another_unit_is_named_where_it_is_likely() -> None:
    june = 1_370_044_800_000
    assert "microseconds? then it is 2013-06-01T00:00:00Z" in refusal("x", june * 1_000)
    assert "nanoseconds? then it is 2013-06-01T00:00:00Z" in refusal("x", june * 1_000_000)
    assert refusal("x", 2**63 - 1).endswith("found 9223372036854775807 milliseconds since 1970")
    assert refusal("x", FIRST_MS - 1).endswith(f"found {FIRST_MS - 1} milliseconds since 1970")


def test_the_same_fault_has_one_kind_of_reason() -> None:
    kinds = {re.sub(FOUND, "", refusal("the event time at", ms)) for ms in (2**62, LAST_MS + 1, FIRST_MS - 1)}
    assert kinds == {"the event time at is outside the years 1 to 9999"}
