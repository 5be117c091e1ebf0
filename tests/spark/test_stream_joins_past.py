"""The past of tables behind joins of streams, on real Spark and Delta; what works on them, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import lakehouse as lh
from lakehouse.errors import NeedsSpark, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.run.drill.drill import drill
from lakehouse.run.explain.capture import capture
from lakehouse.run.lake import Lake
from lakehouse.run.repair.backfill import backfill
from lakehouse.run.repair.correct import correct
from lakehouse.run.repair.rebuild import backtest
from lakehouse.run.repair.replay import replay
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.moment import At, AtEvent, AtOffsets, AtTick
from lakehouse.semantics.time.window import DAY_MS
from lakehouse.spark.changelog import published, stream_feed
from lakehouse.spark.history.fixed_records import FixedBytes

from ..stream_joins import CITIES, CLOSING, INNER, LAST, PAIRS, WINDOWS, records
from .test_graph import Bench

APP = lh.app(PAIRS, WINDOWS, LAST, CITIES, CLOSING.to_topic("closing"))


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


@pytest.mark.slow
def test_a_moment_of_a_table_behind_a_join_of_streams(bench: Bench) -> None:
    sent = records(5, 80, 4)
    last = write_bronze(bench.lake, APP, sent)
    bench.catch_up(APP, 1, 3, last)
    until = sent[50].timestamp
    moments: list[tuple[At, model.Result]] = [
        (AtTick(tick), model.run(APP, [record for record in sent if record.tick <= tick], decode_record))
        for tick in (2, 3)
    ]
    moments += [(AtEvent(until), model.run(APP, sent, decode_record, until))]
    for at, expected in moments:
        for table in APP.tables:
            assert bench.rows(table, at) == expected.tables[table.name], f"{table.name} at {at}"
    for table in APP.tables:
        assert bench.rebuilt(table, last) == bench.rows(table), table.name


@pytest.mark.slow
def test_offsets_of_a_table_behind_a_join_of_streams(bench: Bench) -> None:
    app = lh.app(PAIRS, CITIES)
    sent = records(8, 50, 2)
    write_bronze(bench.lake, app, sent)
    bench.catch_up(app, 1, 2)
    bounds = {"orders": {0: 5, 1: 4}, "payments": {0: 4, 1: 5}, "customers": {0: 2, 1: 2}}
    before = [record for record in sent if record.offset < bounds[record.topic][record.partition]]
    assert all(record.offset > bounds[record.topic][record.partition] for record in sent[-3:])
    expected = model.run(app, before, decode_record)
    for table in (PAIRS, CITIES):
        at = AtOffsets({topic: bounds[topic] for topic in table.stream.topics})
        assert bench.rows(table, at) == expected.tables[table.name], table.name


@pytest.mark.slow
def test_audit_explain_backfill_and_refusals(bench: Bench) -> None:
    sent = records(6, 60, 3)
    last = write_bronze(bench.lake, APP, sent)
    bench.catch_up(APP, 2, last)
    lake = Lake(bench.layout.root)
    for table in (PAIRS, LAST, CITIES):
        assert lake.audit(APP, table).problems == [], table.name
    was = bench.rows(PAIRS)
    for (key,) in was:
        for row in lake.explain(PAIRS, key):
            assert row.agrees, row.note
            assert {step.record.topic for step in row.steps if step.record is not None} <= {"orders", "payments"}
    bench.spark.sql(f"DELETE FROM delta.`{bench.layout.silver('pairs')}` WHERE id = '1'")
    assert len(lake.audit(APP, PAIRS).problems) == 1, "damage is found"
    backfill(bench.lake.open(PAIRS), APP)
    bench.catch_up(APP, last + 1)
    assert bench.rows(PAIRS) == was
    with pytest.raises(NeedsSpark, match="a join of streams"):
        capture(bench.layout, APP, "app:app", PAIRS, "1")
    bad = next(record for record in sent if record.value == b"bad" and record.topic == "orders")
    orders = next(source for source in APP.sources if source.topic == "orders")
    with pytest.raises(PlanError, match="Produce the record again"):
        replay(bench.lake, APP, orders, [FixedBytes(*bad.identity, bad.key, b"{}")])


@pytest.mark.slow
def test_a_published_stream_goes_on_where_its_topic_ends(bench: Bench) -> None:
    """What the topic has already is left out; its records still meet later ones."""
    sent = records(7, 60, 3)
    write_bronze(bench.lake, APP, sent)
    whole = [row["_position"] for row in stream_feed.stream_events(bench.lake, CLOSING, 0, 3).collect()]
    assert len(whole) == len(model.run(APP, sent, decode_record).topics["closing"])
    covered = json.dumps(published.next_offsets(bench.lake, CLOSING, 2))
    for after in (0, 2):
        rest = stream_feed.stream_events(bench.lake, CLOSING, after, 3, covered=covered).collect()
        assert [row["_position"] for row in rest] == [place for place in whole if place["tick"] > 2]


@pytest.mark.slow
def test_what_a_topic_has_meets_what_another_lake_reads_before_it(spark: SparkSession, tmp_path: Path) -> None:
    """All records are in one tick of the other lake, or covered ones in a later tick than those that they meet."""
    # In the last tick only payments came, so that another order of all of them changes nothing.
    sent = [record for record in records(10, 100, 3) if record.tick < 3 or record.topic == "payments"]
    app = lh.app(INNER.to_topic("inner"))
    first = Bench(spark, tmp_path / "first")
    write_bronze(first.lake, app, sent)
    covered = published.next_offsets(first.lake, INNER, 2)
    rows = [shown(row) for row in stream_feed.stream_events(first.lake, INNER, 2, 3).collect()]
    assert len(rows) > 2
    for name, ticks in (("one", {"orders": 1, "payments": 1}), ("late", {"orders": 2, "payments": 1})):
        other = Bench(spark, tmp_path / name)
        last = write_bronze(other.lake, app, [replace(record, tick=ticks.get(record.topic, 1)) for record in sent])
        told = stream_feed.stream_events(other.lake, INNER, 0, last, covered=json.dumps(covered)).collect()
        assert sorted(map(shown, told)) == sorted(rows), name


def shown(row: Row) -> str:
    return str([value for name, value in row.asDict().items() if name != "_position"])


@pytest.mark.slow
def test_corrections_reverts_backtests_and_drills_behind_a_join_of_streams(bench: Bench) -> None:
    app = lh.app(PAIRS, WINDOWS)
    sent = records(28, 60, 3)
    first = [record for record in sent if record.tick <= 2]
    assert write_bronze(bench.lake, app, first) == 2
    bench.catch_up(app, 1, 2)
    # What came too late for its window, or for the join, is taken in after all: as if both had been open.
    late = model.run(app, first, decode_record).late["windows"]
    outcome = correct(bench.lake.open(WINDOWS), app)
    assert (outcome.tick, outcome.records) == (3, len({record.position for record in late}))
    bench.catch_up(app, 3)
    assert isinstance(INNER.source, StreamJoin)
    waiting = replace(INNER.source, within=replace(INNER.source.within, grace=DAY_MS))
    open_longer = replace(INNER, source=waiting).group_by("customer").window(lh.tumbling("10 seconds", grace="1 day"))
    assert bench.rows(WINDOWS) == model.run(
        lh.app(open_longer.agg(n=lh.count()).table("windows")), first, decode_record
    ).tables["windows"]  # fmt: skip
    lake = Lake(bench.layout.root)
    reverted = lake.revert(app, PAIRS, AtTick(1))
    assert reverted.tick == 4
    bench.catch_up(app, 4)
    was = bench.rows(PAIRS)
    assert was == bench.rows(PAIRS, AtTick(1)) != bench.rows(PAIRS, AtTick(2))
    rest = [replace(record, tick=5) for record in sent if record.tick == 3]
    assert write_bronze(bench.lake, app, rest) == 5
    bench.catch_up(app, 5)
    for table in app.tables:
        assert bench.rebuilt(table, 5) == bench.rows(table), table.name
    (case,) = drill(bench.lake.open(PAIRS), damages=("lost file",)).cases
    assert {item.way: item.equal for item in case.restored} == {"version": True, "changelog": None, "bronze": True}
    other = CLOSING.group_by("id").agg(rows=lh.count(), paid=lh.max("p_paid"), last=lh.latest("amount")).table("pairs")
    tried = backtest(bench.lake.open(PAIRS), other)
    assert not tried.differing.equal
    assert tried.second.rows == len(model.run(lh.app(other), [*first, *rest], decode_record).tables["pairs"])
