"""The demo's topics hold what they claim: counts, order, tombstones, null keys, and right times.

What is slow here goes through the whole year again to check what the source says of itself.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from examples.year_of_flights import flights, source
from lakehouse.errors import NotFound

NEW_YORK = ZoneInfo("America/New_York")


@cache
def records(topic: str) -> list[flights.FlightRecord]:
    return list(flights.read_records(topic))


def values(topic: str) -> list[Any]:
    return [json.loads(record.value) for record in records(topic) if record.value is not None]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def milliseconds(text: str) -> int:
    return int(moment(text).timestamp() * 1000)


@pytest.mark.rotated
def test_topics_and_how_many_records_each_has() -> None:
    assert flights.topic_partitions() == {"planes": 4, "flights": 4, "airborne": 4}
    counts = {topic: len(records(topic)) for topic in flights.topic_partitions()}
    assert counts == {"planes": 3_322, "flights": 336_776, "airborne": 655_867}
    assert sum(counts.values()) == 995_965


def test_an_unknown_topic_is_refused_by_name() -> None:
    with pytest.raises(NotFound, match=r"'trains'.*planes, flights, airborne"):
        next(flights.read_records("trains"))


def test_flights_cancelled_and_null_keys() -> None:
    actual = list(zip(records("flights"), values("flights"), strict=True))
    assert sum(flight["cancelled"] for _, flight in actual) == 8_255
    nameless = [flight for record, flight in actual if record.key is None]
    assert len(nameless) == 2_512
    assert all(flight["cancelled"] for flight in nameless)
    assert len({record.key for record, _ in actual} - {None}) == 4_043
    assert len({record.key for record, flight in actual if not flight["cancelled"]}) == 4_037
    for record, flight in actual:
        assert (flight["departed_at"] is None) == flight["cancelled"] == (flight["dep_delay"] is None)
        assert record.timestamp_ms == milliseconds(flight["departed_at"] or flight["scheduled_at"])


def test_airborne_takeoffs_and_tombstones() -> None:
    actual = records("airborne")
    landings = Counter((record.key, record.timestamp_ms) for record in actual if record.value is None)
    expected: Counter[tuple[bytes | None, int]] = Counter()
    takeoffs = without_landing = 0
    for record in actual:
        if record.value is None:
            continue
        flight = json.loads(record.value)
        takeoffs += 1
        assert record.timestamp_ms == milliseconds(flight["took_off_at"])
        if flight["lands_at"] is None:
            without_landing += 1
        else:
            expected[record.key, milliseconds(flight["lands_at"])] += 1
    assert (takeoffs, without_landing, landings.total()) == (328_521, 1_175, 327_346)
    assert landings == expected
    assert all(record.key is not None for record in actual)


def test_who_is_in_the_air_at_the_end_of_the_year() -> None:
    state: dict[bytes | None, bytes] = {}
    for record in records("airborne"):
        if record.value is None:
            state.pop(record.key, None)  # absent: 117 times a plane takes off before it has landed
        else:
            state[record.key] = record.value
    assert len(state) == 12


def test_planes_have_one_record_each() -> None:
    assert len({record.key for record in records("planes")}) == 3_322
    assert {record.timestamp_ms for record in records("planes")} == {milliseconds("2013-01-01T00:00:00Z")}
    assert records("planes")[0].key == b"N10156"
    assert values("planes")[0] == {
        "year": 2004,
        "type": "Fixed wing multi engine",
        "manufacturer": "EMBRAER",
        "model": "EMB-145XR",
        "engines": 2,
        "seats": 55,
        "speed": None,
        "engine": "Turbo-fan",
    }


@pytest.mark.parametrize("topic", ["planes", "flights", "airborne"])
def test_event_time_order(topic: str) -> None:
    times = [record.timestamp_ms for record in records(topic)]
    assert times == sorted(times)


def test_ties_are_landings_then_takeoffs() -> None:
    actual = records("airborne")
    for before, after in pairwise(actual):
        if before.timestamp_ms == after.timestamp_ms:
            assert before.value is None or after.value is not None


@pytest.mark.slow
def test_the_same_records_every_time() -> None:
    assert list(flights.read_records("airborne")) == records("airborne")


@pytest.mark.slow
def test_every_scheduled_hour_is_new_yorks_clock() -> None:
    # We take UTC from the source's time_hour. Here it is computed again, by the rules of the time zone.
    hours = source.read_flights().select(["year", "month", "day", "hour", "time_hour"]).to_pylist()
    for year, month, day, hour, stated in {tuple(row.values()) for row in hours}:
        assert datetime(year, month, day, hour, tzinfo=NEW_YORK).astimezone(UTC) == stated


@pytest.mark.slow
def test_every_departure_reads_on_new_yorks_clock_as_the_source_says() -> None:
    table = source.read_flights().select(["carrier", "flight", "origin", "month", "day", "sched_dep_time", "dep_time"])
    clocks = {tuple(row.values())[:-1]: row["dep_time"] for row in table.to_pylist()}
    assert len(clocks) == 336_776
    for flight in values("flights"):
        scheduled = moment(flight["scheduled_at"]).astimezone(NEW_YORK)
        day = (scheduled.month, scheduled.day, scheduled.hour * 100 + scheduled.minute)
        clock = clocks[flight["carrier"], flight["flight"], flight["origin"], *day]
        if flight["cancelled"]:
            assert clock is None
        else:
            departed = moment(flight["departed_at"]).astimezone(NEW_YORK)
            assert departed.hour * 100 + departed.minute == clock % 2400  # midnight is 2400 there


@pytest.mark.parametrize(
    ("carrier", "number", "origin", "scheduled", "departed", "why"),
    [
        ("UA", 1545, "EWR", "2013-01-01T10:15:00Z", "2013-01-01T10:17:00Z", "winter: 05:15 is 10:15 UTC"),
        ("US", 1113, "EWR", "2013-03-10T09:00:00Z", "2013-03-10T08:54:00Z", "05:00, three hours into summer"),
        (
            "B6",
            727,
            "JFK",
            "2013-03-10T04:59:00Z",
            "2013-03-10T05:53:00Z",
            "23:59 + 54 minutes: past midnight",
        ),
        (
            "HA",
            51,
            "JFK",
            "2013-01-09T14:00:00Z",
            "2013-01-10T11:41:00Z",
            "1,301 minutes late, the most of all",
        ),
    ],
)
def test_known_flights(carrier: str, number: int, origin: str, scheduled: str, departed: str, why: str) -> None:
    parts = [f'"carrier":"{carrier}","flight":{number},"origin":"{origin}"', f'"scheduled_at":"{scheduled}"']
    texts = [(record.value or b"").decode() for record in records("flights")]
    actual = [json.loads(text) for text in texts if all(part in text for part in parts)]
    assert [flight["departed_at"] for flight in actual] == [departed], why


def test_a_landing_is_a_takeoff_plus_air_time() -> None:
    first = json.loads(records("airborne")[0].value or b"")
    assert first["flight"] == 1545
    assert moment(first["lands_at"]) - moment(first["took_off_at"]) == timedelta(minutes=227)


def test_every_destination_has_a_place_on_the_map() -> None:
    table = source.read_flights()
    codes = {code for end in ("origin", "dest") for code in table[end].unique().to_pylist()}
    assert codes <= source.read_airports().keys()
    assert len(codes) == 107  # New York's three, and 104 that are only destinations
