"""Quarantine replay on real Spark and Delta: a fixed record counts as if it had fitted when it came."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import NotFound, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from tests.conftest import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = lh.stream("events", key="id string", schema="n bigint")
LAST = EVENTS.latest("last")
SUMS = EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n"), all=lh.collect_list("n")).table("sums")
SESSIONS = EVENTS.group_by("id").window(lh.session("5 milliseconds")).agg(n=lh.count()).table("sessions")
APP = lh.app(LAST, SUMS, SESSIONS)

KEYS, TIMES = "aabab", [1, 8, 9, 14, 30]
BAD = (1, 2)  # once fixed, the first joins two sessions of `a`; the second is the only record of `b`


def history(*, fixed: bool) -> list[Record]:
    made = []
    for n, (key, time, order) in enumerate(zip(KEYS, TIMES, order_times(TIMES), strict=True)):
        value = b'{"n": "bad"}' if n in BAD and not fixed else json.dumps({"n": n}).encode()
        made.append(Record("events", "id", 0, n, time, key.encode(), value, n // 2 + 1, order))
    return made


@pytest.mark.slow
def test_fixed_records_count_where_they_came(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.moment.cut import Cut
    from lakehouse.lake.record.quarantine import QuarantineChoice
    from lakehouse.run.lake import Lake
    from lakehouse.run.repair.fixes import fixed_records
    from lakehouse.run.repair.replay import replay
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.spark.changelog import changefeed
    from lakehouse.spark.history import reading
    from lakehouse.spark.history.fixed_records import FixedBytes
    from lakehouse.spark.history.moments import Past
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(tmp_path / "lake"))
    assert write_bronze(open_lake(spark, layout), APP, history(fixed=False)) == 3
    with Silver(open_lake(spark, layout), APP, lambda tick, records: None) as silver:
        silver.catch_up()

    def rows(frame: Any, table: Any) -> Any:
        return rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))

    source = EVENTS.sources[0]
    fixes = [FixedBytes("id", 0, n, KEYS[n].encode(), json.dumps({"n": n}).encode()) for n in BAD]
    with pytest.raises(NotFound, match=r"found no record events/0/0\."):
        replay(open_lake(spark, layout), APP, source, [FixedBytes("id", 0, 0, b"a", b"{}")])
    with pytest.raises(PlanError, match=r"record events/0/1: the new bytes do not fit either"):
        replay(open_lake(spark, layout), APP, source, [replace(fixes[0], value=b'{"n": 1.5}')])
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))
    made = fixed_records(
        layout, APP, "events", QuarantineChoice(), lambda record: json.dumps({"n": record.offset}).encode()
    )
    assert lake.replay(APP, "events", made.fixed, reason="the gate sent text") == 4
    expected = model.run(APP, history(fixed=True), decode_record)
    for table in APP.tables:
        assert (
            rows(reading.read_rows(open_lake(spark, layout).open(table), None), table) == expected.tables[table.name]
        ), table.name
        rebuilt = Past(open_lake(spark, layout).open(table), anchored=False).visible_rows(Cut(4))
        assert rows(rebuilt, table) == expected.tables[table.name], table.name
    feed = changefeed.per_event(open_lake(spark, layout).open(SUMS), 3, 4).collect()
    assert sorted((row["id"], row["total"]) for row in feed) == [("a", 4), ("b", 6)]
    with pytest.raises(PlanError, match="was fixed before"):
        replay(open_lake(spark, layout), APP, source, fixes[:1])
    assert replay(open_lake(spark, layout), APP, source, fixes, again=True) is None, "nothing is left of them"

    # A table that is declared later lacks them, until somebody gives the same fixes again.
    later = EVENTS.group_by("id").agg(total=lh.sum("n")).table("later")
    more = lh.app(*APP.tables, later)
    with Silver(open_lake(spark, layout), more, lambda tick, records: None) as silver:
        silver.catch_up()
    assert rows(reading.read_rows(open_lake(spark, layout).open(later), None), later) == {
        ("a",): {"total": 3},
        ("b",): {"total": 4},
    }
    assert replay(open_lake(spark, layout), more, source, fixes) == 5
    expected = model.run(more, history(fixed=True), decode_record)
    for table in more.tables:
        current_rows = rows(reading.read_rows(open_lake(spark, layout).open(table), None), table)
        assert current_rows == expected.tables[table.name], table.name


@pytest.mark.rotated
def test_a_replay_that_was_killed_after_it_was_decided_on_is_finished_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.lake import Lake
    from lakehouse.run.repair import intervene
    from lakehouse.run.repair.replay import replay
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.spark.history import reading
    from lakehouse.spark.history.fixed_records import FixedBytes
    from lakehouse.spark.silver.query import Silver

    layout, app = Layout(str(tmp_path / "lake")), lh.app(LAST)
    write_bronze(open_lake(spark, layout), app, history(fixed=False))
    with Silver(open_lake(spark, layout), app, lambda tick, records: None) as silver:
        silver.catch_up()
    source = EVENTS.sources[0]
    fixes = [FixedBytes("id", 0, n, KEYS[n].encode(), json.dumps({"n": n}).encode()) for n in BAD]

    def kill(*_: object) -> None:
        raise OSError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(intervene, "bring_table", kill)
        with pytest.raises(OSError, match="out of memory"):
            replay(open_lake(spark, layout), app, source, fixes)
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))
    assert replay(open_lake(spark, layout), app, source, fixes, again=True) is None
    assert lake.finish_fixes(app, "events") == 4
    rows = reading.read_rows(open_lake(spark, layout).open(LAST), None).toArrow().to_pylist()
    assert rows_of(LAST, rows) == model.run(app, history(fixed=True), decode_record).tables["last"]
    assert lake.finish_fixes(app, "events") is None


@pytest.mark.slow
def test_a_time_from_the_future_is_accepted_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    """It counts as it is, also in a rebuild, and moves no clock: the record after it is not late."""
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.moment.cut import Cut
    from lakehouse.lake.record.quarantine import QuarantineChoice
    from lakehouse.run.lake import Lake
    from lakehouse.run.repair.fixes import fixed_records, leave_unchanged
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.spark.history import reading
    from lakehouse.spark.history.moments import Past
    from lakehouse.spark.silver.query import Silver

    events = lh.stream("events", key="id string", schema="at bigint", event_time="at", max_ahead="1 hour")
    window = lh.tumbling("1 hour", grace="0 minutes")
    app = lh.app(events.group_by("id").window(window).agg(n=lh.count()).table("hourly"))
    hour = 3_600_000
    values = [json.dumps({"at": at}).encode() for at in (0, 1_000 * hour, 1)]
    made = [Record("events", "id", 0, n, n, b"a", value, n + 1, n) for n, value in enumerate(values)]
    layout, (table,) = Layout(str(tmp_path / "lake")), app.tables
    write_bronze(open_lake(spark, layout), app, made)
    with Silver(open_lake(spark, layout), app, lambda tick, records: None) as silver:
        silver.catch_up()

    def rows(frame: Any) -> Any:
        return {key[1].timestamp(): row["n"] for key, row in rows_of(table, frame.toArrow().to_pylist()).items()}

    assert rows(reading.read_rows(open_lake(spark, layout).open(table), None)) == {0: 2}
    fixes = fixed_records(layout, app, "events", QuarantineChoice(reason="ahead of the record"), leave_unchanged)
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))
    tick = lake.replay(app, "events", fixes.fixed, reason="a booking")
    expected = {0: 2, 1_000 * hour / 1_000: 1}
    assert rows(reading.read_rows(open_lake(spark, layout).open(table), None)) == expected
    assert rows(Past(open_lake(spark, layout).open(table), anchored=False).visible_rows(Cut(tick))) == expected
