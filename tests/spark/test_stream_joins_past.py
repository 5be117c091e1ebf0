"""The past of tables behind joins of streams, on real Spark and Delta; what works on them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import NeedsSpark, PlanError
from lakehouse.formats.decode import decode
from lakehouse.model import model
from lakehouse.run.explain.capture import capture
from lakehouse.run.lake import Lake
from lakehouse.run.repair.backfill import backfill
from lakehouse.run.repair.replay import replay
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.moment import At, AtEvent, AtOffsets, AtTick
from lakehouse.spark.changelog import published, stream_feed
from lakehouse.spark.past.fixed import FixedBytes

from ..stream_joins import CITIES, CLOSING, LAST, PAIRS, WINDOWS, records
from .test_graph import Bench

APP = lh.app(PAIRS, WINDOWS, LAST, CITIES, CLOSING.to_topic("closing"))


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_moment_of_a_table_behind_a_join_of_streams(bench: Bench) -> None:
    sent = records(5, 80, 4)
    last = write_bronze(bench.lake, APP, sent)
    bench.catch_up(APP, 1, 3, last)
    until = sent[50].timestamp
    moments: list[tuple[At, model.Result]] = [
        (AtTick(tick), model.run(APP, [record for record in sent if record.tick <= tick], decode)) for tick in (2, 3)
    ]
    moments += [(AtEvent(until), model.run(APP, sent, decode, until))]
    for at, expected in moments:
        for table in APP.tables:
            assert bench.rows(table, at) == expected.tables[table.name], f"{table.name} at {at}"
    for table in APP.tables:
        assert bench.rebuilt(table, last) == bench.rows(table), table.name


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_offsets_of_a_table_behind_a_join_of_streams(bench: Bench) -> None:
    app = lh.app(PAIRS, CITIES)
    sent = records(8, 50, 2)
    write_bronze(bench.lake, app, sent)
    bench.catch_up(app, 1, 2)
    bounds = {"orders": {0: 5, 1: 4}, "payments": {0: 4, 1: 5}, "customers": {0: 2, 1: 2}}
    before = [record for record in sent if record.offset < bounds[record.topic][record.partition]]
    assert all(record.offset > bounds[record.topic][record.partition] for record in sent[-3:])
    expected = model.run(app, before, decode)
    for table in (PAIRS, CITIES):
        at = AtOffsets({topic: bounds[topic] for topic in table.stream.topics})
        assert bench.rows(table, at) == expected.tables[table.name], table.name


@pytest.mark.slow
@pytest.mark.timeout(3600)
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
@pytest.mark.timeout(3600)
def test_a_published_stream_goes_on_where_its_topic_ends(bench: Bench) -> None:
    """What the topic has already is left out; its records still meet later ones."""
    sent = records(7, 60, 3)
    write_bronze(bench.lake, APP, sent)
    whole = [row["_position"] for row in stream_feed.stream_events(bench.lake, CLOSING, 0, 3).collect()]
    assert len(whole) == len(model.run(APP, sent, decode).topics["closing"])
    covered = json.dumps(published.next_offsets(bench.lake, CLOSING, 2))
    for after in (0, 2):
        rest = stream_feed.stream_events(bench.lake, CLOSING, after, 3, covered=covered).collect()
        assert [row["_position"] for row in rest] == [place for place in whole if place["tick"] > 2]
