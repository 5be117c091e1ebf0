"""The timestamp of a Kafka record can be any number; only those in the years 1 to 9999 are times."""

from __future__ import annotations

import pytest

from lakehouse.semantics.time.kafka_time import HEADER, bronze_time, find_impossible_time
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS


@pytest.mark.parametrize("ms", [0, -1, FIRST_MS, LAST_MS, 1_700_000_000_000])
def test_a_time_is_kept_as_it_is(ms: int) -> None:
    assert bronze_time(ms) == (ms, ())
    assert find_impossible_time(ms, ()) is None


@pytest.mark.parametrize("ms", [2**63 - 1, -(2**63), 1_700_000_000_000_000_000, LAST_MS + 1, FIRST_MS - 1])
def test_a_number_that_is_no_time_becomes_the_nearest_time_and_stays_known(ms: int) -> None:
    time, headers = bronze_time(ms)
    assert time == (LAST_MS if ms > 0 else FIRST_MS)
    assert find_impossible_time(time, (("x", None), *headers)) == ms


@pytest.mark.parametrize("value", [None, b"", b"x", b"1" * 5000, "٣".encode()])
def test_a_header_of_a_producer_is_not_mistaken_for_it(value: bytes | None) -> None:
    assert find_impossible_time(LAST_MS, ((HEADER, value),)) is None
    assert find_impossible_time(1_700_000_000_000, ((HEADER, b"5"),)) is None
