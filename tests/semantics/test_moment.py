"""The ways to name a moment, and how they are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy
import pytest

from lakehouse.errors import ConfigError
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion
from lakehouse.semantics.time.named_moment import as_moment, as_past_moment, moment_from_text, moment_of, time_ms

JUNE = 1_370_044_800_000  # 2013-06-01T00:00Z


@pytest.mark.parametrize(
    "time",
    [
        "2013-06-01", "2013-06-01T00:00Z", "2013-06-01 02:00+02:00", "2013-06-01T00:00", date(2013, 6, 1),
        datetime(2013, 6, 1), datetime(2013, 6, 1, tzinfo=UTC),
        datetime(2013, 6, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)  # fmt: skip
def test_a_time_without_a_zone_is_utc(time: Any) -> None:
    assert time_ms(time) == JUNE


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+00:01"])
def test_a_time_that_is_outside_of_the_years_in_utc_is_refused(text: str) -> None:
    for named in (f"commit:{text}", f"event:{text}"):
        with pytest.raises(ConfigError, match="in UTC it is outside the years 1 to 9999"):
            moment_from_text(named)


def test_each_way_to_name_a_moment() -> None:
    assert moment_of() is None
    assert moment_of("2013-06-01") == AtEvent(JUNE)
    assert moment_of("2013-06-01", clock="commit") == AtCommit(JUNE)
    assert moment_of(version=0) == AtVersion(0)
    assert moment_of(tick=7) == AtTick(7)
    assert moment_of(offsets="a/0=12, b.c-d/10=0") == AtOffsets({"a": {0: 12}, "b.c-d": {10: 0}})
    assert moment_of(offsets={"a": {0: 12}}) == AtOffsets({"a": {0: 12}})
    assert moment_of(offsets={"a": {numpy.int32(0): numpy.int64(12)}}) == AtOffsets({"a": {0: 12}})
    assert moment_of(tick=numpy.int64(7)) == AtTick(7)


def test_a_moment_says_what_it_is() -> None:
    named = [AtVersion(3), AtTick(4), AtCommit(JUNE), AtEvent(JUNE + 5), AtOffsets({"b": {1: 2}, "a": {0: 1}})]
    assert [str(item) for item in named] == [
        "version 3", "tick 4", "commit time 2013-06-01T00:00:00Z", "event time 2013-06-01T00:00:00.005Z",
        "offsets a/0=1,b/1=2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"version": 1, "tick": 2}, "found version and tick; expected at most one moment"),
        ({"time": "June"}, "at 'June': expected a time such as 2013-06-01T18:00Z"),
        ({"time": "2013-06-01", "clock": "wall"}, "clock 'wall': expected \"event\""),
        ({"version": -1}, "version -1: expected a number, 0 or more"),
        ({"offsets": "a=1"}, "offsets 'a=1': expected TOPIC/PARTITION=OFFSET"),
        ({"offsets": "a/0=1,a/0=2"}, "a/0 is named twice"),
        ({"offsets": "a/0=-1"}, "expected TOPIC/PARTITION=OFFSET"),
        ({"clock": "commit"}, "clock commit says what a time means; name a time"),
        ({"clock": "commit", "tick": 3}, "clock commit says what a time means; name a time"),
        ({"time": 1_370_044_800_000}, "at 1370044800000: expected a time such as 2013-06-01T18:00Z"),
        ({"tick": 1.5}, "tick 1.5: expected a number, 0 or more"),
        ({"tick": True}, "tick True: expected a number, 0 or more"),
        ({"version": "2"}, "version '2': expected a number, 0 or more"),
        ({"offsets": ["a/0=1"]}, "expected {topic: {partition: offset}}"),
        ({"offsets": {"a": 5}}, "expected {topic: {partition: offset}}"),
        ({"offsets": {"a": {"0": 5}}}, "partition '0': expected a number, 0 or more"),
        ({"offsets": {"a": {0: -1}}}, "offset -1: expected a number, 0 or more"),
    ],
)
def test_what_is_no_moment_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        moment_of(**given)


def test_microseconds_are_cut_off_before_the_epoch_too() -> None:
    assert to_milliseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("3", AtVersion(3)), ("version:3", AtVersion(3)), (" tick:7 ", AtTick(7)), ("now", None),
        ("2013-06-01T00:00Z", AtEvent(JUNE)), ("2013-06-01", AtEvent(JUNE)), ("event:2013-06-01 00:00", AtEvent(JUNE)),
        ("commit:2013-06-01T02:00+02:00", AtCommit(JUNE)), ("20130601", AtVersion(20130601)),
        ("offsets:a/0=12,b/1=3", AtOffsets({"a": {0: 12}, "b": {1: 3}})),
    ],
)  # fmt: skip
def test_a_moment_as_text(text: str, moment: At | None) -> None:
    assert moment_from_text(text) == moment


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a moment; expected one of: 3 or version:3, tick:7"),
        ("June", "'June' is not a moment"),
        ("now:3", "'now:3' is not a moment"),
        ("-3", "'-3' is not a moment"),
        ("3:", "'3:' is not a moment"),
        ("tick:-3", "'tick:-3': expected a number after tick:, such as tick:7"),
        ("version:", "'version:': expected a number after version:"),
        ("commit:June", "commit 'June': expected a time such as"),
        ("event:now", "event 'now': expected a time such as"),
        ("offsets:7", "offsets '7': expected TOPIC/PARTITION=OFFSET"),
    ],
)
def test_a_text_that_names_no_moment_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        moment_from_text(text)


@pytest.mark.parametrize("value", [1, None, date(2013, 6, 1)])
def test_a_moment_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="is not a moment; expected text, one of: 3 or version:3"):
        moment_from_text(value)


def test_a_moment_is_named_by_a_text_or_by_itself():
    assert as_moment("tick:7") == as_moment(AtTick(7)) == as_past_moment("tick:7") == AtTick(7)
    assert as_moment("now") is None
    with pytest.raises(ConfigError, match="'now': expected a moment of the past, such as tick:7"):
        as_past_moment("now")
    for value in (None, 7):
        with pytest.raises(ConfigError, match=f"{value} is not a moment; expected text"):
            as_moment(value)
