"""What a table holds does not depend on the time zone of the process: hours that daylight saving repeats or skips.

In Berlin 02:00 to 03:00 on 2013-10-27 is two hours, 00:00 to 02:00 UTC, and on 2013-03-31 there is no such hour.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError
from lakehouse.semantics.epoch_time import to_milliseconds
from lakehouse.semantics.record import Record
from lakehouse.settings.config import load
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTUMN, SPRING = datetime(2013, 10, 27, tzinfo=UTC), datetime(2013, 3, 31, tzinfo=UTC)
REPEATED = AUTUMN + timedelta(minutes=10)
EVENTS = lh.stream("events", key="id string", schema="at timestamp, day date", event_time="at")
TIMES = ("at", "day", "to_timestamp_ntz(at) AS wall")
APP = lh.app(
    EVENTS.group_by("id").window(lh.tumbling("1 hour", grace="12 hours")).agg(n=lh.count()).table("windows"),
    EVENTS.group_by(*TIMES).agg(n=lh.count()).table("keys"),
)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def history() -> list[Record]:
    """Hours around both changes; the second tick brings only the repeated hour."""
    hours = [begin + timedelta(minutes=10, hours=n) for begin in (SPRING, AUTUMN) for n in range(-1, 4)]
    made: list[Record] = []
    for tick, times in ((1, hours), (2, [REPEATED])):
        for at in times:
            value = f'{{"at": "{at.isoformat()}", "day": "{at.date()}"}}'.encode()
            made.append(
                Record("events", "id", 0, len(made), to_milliseconds(at), b"a", value, tick, to_milliseconds(at))
            )
    return made


@pytest.mark.usefixtures("spark")
def test_a_session_with_another_zone_is_refused() -> None:
    from pyspark.sql import SparkSession

    from lakehouse.spark.jvm.session.session import open_session

    active, zone = SparkSession.getActiveSession(), "spark.sql.session.timeZone"
    assert active is not None
    active.conf.set(zone, "Europe/Berlin")
    try:
        with pytest.raises(ConfigError, match=f"{zone} is 'Europe/Berlin'; expected 'UTC'"):
            open_session(load(environ={}))
    finally:
        active.conf.set(zone, "UTC")
    assert open_session(load(environ={})) is active


@pytest.mark.rotated
@pytest.mark.usefixtures("berlin")
def test_a_repeated_hour_does_not_double_a_key(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake import reader
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(tmp_path / "lake"))
    last = write_bronze(open_lake(spark, layout), APP, history())
    with Silver(open_lake(spark, layout), APP, lambda tick, count: None) as silver:
        for tick in range(1, last + 1):
            silver.catch_up(tick)
    for name, column, minutes in (("windows", "window_start", 10), ("keys", "at", 0)):
        rows = reader.open_dataset(layout.silver(name)).to_table().to_pylist()
        counts = {row[column]: row["n"] for row in rows}
        assert len(rows) == len(counts) == 10, name
        assert {at for at, n in counts.items() if n == 2} == {REPEATED - timedelta(minutes=minutes)}, name
        assert sum(counts.values()) == 11, name
