"""Tables that read tables, on real Spark and Delta: the same as on the model, under any batching."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.lake.moment.cut import Cut
from lakehouse.model import model
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.replay import SparkReplay, write_bronze
from lakehouse.run.scenario.scenario import on_model
from lakehouse.semantics.moment import At, AtEvent, AtOffsets, AtTick
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import InterventionRequest
from lakehouse.spark.changelog import changefeed

from ..bench import Bench
from ..graphs import APP, CITIES, CUSTOMER, KNOWN, LATEST, STEPS, TOTALS, records
from ..seeds import DRAWN, draw

HOUR = 3_600_000
FEW = lh.app(STEPS, LATEST, CITIES, KNOWN)
CHAINED = lh.app(STEPS, CITIES)


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("app", "seed", "batches"),
    [(APP, 1, [1]), (CHAINED, 1, [1, 2]), (CHAINED, draw(), [1, 2])],
    ids=["all", "chained", DRAWN],
)
def test_any_batches_give_the_models_tables_and_changelogs(
    spark: SparkSession, tmp_path: Path, app: lh.App, seed: int, batches: list[int]
) -> None:
    """Each table in each batch takes seconds, so the more batches, the fewer tables."""
    sent = records(seed, 60, 3)
    expected = on_model(app, sent)
    assert len(expected.tables["cities"]) > 1
    assert len(expected.changelogs["steps"]) > 5
    actual = SparkReplay(spark, tmp_path)(app, sent, batches)
    for table in app.tables:
        assert actual.tables[table.name] == expected.tables[table.name], table.name
        assert actual.changelogs[table.name] == expected.changelogs[table.name], table.name
    assert actual.topics == expected.topics
    assert actual.late == expected.late
    assert actual.null_keys == expected.null_keys
    assert actual.quarantine == expected.quarantine


@pytest.mark.slow
def test_a_moment_of_a_table_that_reads_tables(bench: Bench) -> None:
    sent = records(2, 60, 4)
    last = write_bronze(bench.lake, FEW, sent)
    bench.catch_up(FEW, 1, 3, last)
    until = sent[40].timestamp
    bounds = {topic: {0: 4, 1: 3} for topic in ("orders", "customers")}
    before = [record for record in sent if record.offset < bounds[record.topic][record.partition]]
    moments: list[tuple[At, model.Result]] = [
        (AtTick(tick), model.run(FEW, [record for record in sent if record.tick <= tick], decode_record))
        for tick in (2, 3)
    ]
    moments += [(AtEvent(until), model.run(FEW, sent, decode_record, until))]
    for at, expected in moments:
        for table in FEW.tables:
            assert bench.rows(table, at) == expected.tables[table.name], f"{table.name} at {at}"
    expected = model.run(FEW, before, decode_record)
    for table in (STEPS, LATEST):
        assert bench.rows(table, AtOffsets({"orders": bounds["orders"]})) == expected.tables[table.name], table.name
    for table in (CITIES, KNOWN):
        assert bench.rows(table, AtOffsets(bounds)) == expected.tables[table.name], table.name
    for table in FEW.tables:
        assert bench.rebuilt(table, last) == bench.rows(table), table.name


@pytest.mark.slow
def test_an_intervention_reaches_the_tables_downstream(bench: Bench) -> None:
    moved = TOTALS.to_stream().group_by("customer").window(lh.tumbling("5 minutes")).agg(n=lh.count())
    app = lh.app(LATEST, CITIES, moved.table("moved", emit="final"))
    sent = records(3, 40, 3)
    newest = max(number for number, record in enumerate(sent) if record.topic == "orders")
    sent[newest] = replace(sent[newest], value=b'{"customer": "late", "amount": 1, "tags": []}')
    last = write_bronze(bench.lake, app, sent)
    bench.catch_up(app, 1, last)
    was = bench.rows(TOTALS, AtTick(1))
    assert bench.rows(TOTALS) != was
    state = interventions.take_over_bronze(bench.lake)
    interventions.record_intervention(bench.lake, state, InterventionRequest("revert", ("totals",), Cut(1).details()))
    bench.catch_up(app, last + 1)
    assert bench.rows(TOTALS) == was
    changes = changefeed.per_event(bench.lake.open(TOTALS), last, last + 1).collect()
    assert any(row["_tombstone"] for row in changes)
    assert all(row["_event_time_ms"] is not None for row in changes), "a delete is published with a time, too"
    assert bench.rows(LATEST) == was, "the revert's changes are changes for who reads the table"
    assert bench.rebuilt(LATEST, last + 1) == was
    assert bench.rows(LATEST, AtTick(last)) != was
    assert bench.rows(CUSTOMER) == bench.rebuilt(CUSTOMER, last + 1)
    lake = Lake(bench.layout.root)
    for key in ("a", "b", "c"):
        for row in lake.explain(LATEST, key):
            assert row.agrees, row.note
    told = lake.explain(LATEST, next(iter(was))[0])[0].steps
    assert "reverted" in [step.did for step in told]
    assert {step.record.topic for step in told if step.record is not None} == {"orders"}
    for table in (LATEST, CITIES):
        assert lake.audit(app, table).problems == [], table.name
    bench.spark.sql(f"DELETE FROM delta.`{bench.layout.silver('cities')}`")
    assert "that a refold from bronze" not in str(lake.audit(app, LATEST).problems)
    assert len(lake.audit(app, CITIES).problems) == 1, "damage is found"
    # The clock goes on: what closes after the intervention is shown.
    final, shown = app.table("moved"), bench.rows(app.table("moved"))
    more = [replace(r, tick=last + 2, offset=r.offset + 100, timestamp=r.timestamp + HOUR) for r in records(3, 40, 1)]
    end = write_bronze(bench.lake, app, [replace(r, order_time=r.timestamp) for r in more])
    bench.catch_up(app, end)
    assert bench.rows(final).keys() > shown.keys()
    assert bench.rows(final) == bench.rebuilt(final, end)
