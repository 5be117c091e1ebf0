"""What is made of tables' rows, on real Spark and Delta: the same as on the model, under any batching."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.lake.moment.cut import Cut
from lakehouse.model import model
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.replay import SparkReplay, write_bronze
from lakehouse.run.scenario.scenario import on_model
from lakehouse.semantics.moment import At, AtEvent, AtOffsets, AtTick
from lakehouse.semantics.record import Record
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import InterventionRequest
from lakehouse.spark.changelog import changefeed, published
from lakehouse.spark.table import tables

from ..bench import Bench
from ..rows import ALL, APP, CHAIN, NAMES, OUTER, REFERRING, STRICT, SUMS, A, B, records_of
from ..seeds import DRAWN, draw

FEW = lh.app(SUMS, ALL, OUTER, STRICT, CHAIN)
CHAINED = lh.app(SUMS, CHAIN)


def history(seed: int, count: int) -> list[Any]:
    """Changes of both topics: rows come, change, refer to others, and go."""
    dice = random.Random(seed)
    made: list[Any] = []
    for _ in range(count):
        topic, key = dice.choice("aab"), dice.choice(NAMES)
        value: dict[str, Any] | None = {"g": dice.choice((None, "g", "h")), "n": dice.choice((None, 0, 1, 2, 3))}
        if topic == "a" and value is not None:
            value["to"] = dice.choice((None, *NAMES))
        made.append((topic, key, None if dice.random() < 0.2 else value))
    return made


def records(seed: int, count: int, ticks: int) -> list[Record]:
    made = records_of(history(seed, count), [-(-count // ticks)] * ticks)
    assert made[-1].tick == ticks
    return made


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("app", "seed", "batches"),
    [(APP, 1, [1]), (CHAINED, 2, [1, 2]), (CHAINED, draw(), [1, 2])],
    ids=["all", "chained", DRAWN],
)
def test_any_batches_give_the_models_tables_and_changelogs(
    spark: SparkSession, tmp_path: Path, app: lh.App, seed: int, batches: list[int]
) -> None:
    """Each table in each batch takes seconds, so the more batches, the fewer tables."""
    sent = records(seed, 60, 3)
    expected = on_model(app, sent)
    assert len(expected.changelogs["chain"]) > 5
    actual = SparkReplay(spark, tmp_path)(app, sent, batches)
    for table in app.tables:
        assert actual.tables[table.name] == expected.tables[table.name], table.name
        assert actual.changelogs[table.name] == expected.changelogs[table.name], table.name
    assert actual.null_keys == expected.null_keys


def test_spark_is_asked_once_for_the_types_of_a_chain(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain is planned down to its topics for that, which took a batch seconds."""
    planned: list[lh.Stream] = []
    plan = tables.empty_stream
    monkeypatch.setattr(tables, "_ANSWERS", {})
    monkeypatch.setattr(tables, "empty_stream", lambda session, of: planned.append(of) or plan(session, of))
    actual = [tables.visible_schema(spark, CHAIN) for _ in range(2)]
    assert actual[0] == actual[1]
    assert actual[0].fieldNames()[:3] == ["b_g", "rows", "total"]
    assert tables.aggregate_forms(spark, CHAIN) is not tables.aggregate_forms(spark, CHAIN)
    # Each of the four tables once, and the types of what the last one aggregates.
    assert len(planned) == 5


@pytest.mark.slow
def test_a_moment_of_what_is_made_of_rows(bench: Bench) -> None:
    sent = records(7, 60, 4)
    last = write_bronze(bench.lake, FEW, sent)
    bench.catch_up(FEW, 1, 3, last)
    moments: list[tuple[At, model.Result]] = [
        (AtTick(2), model.run(FEW, [r for r in sent if r.tick <= 2], decode_record))
    ]
    moments += [(AtEvent(sent[35].timestamp), model.run(FEW, sent, decode_record, sent[35].timestamp))]
    bounds = {topic: {0: 3, 1: 6} for topic in ("a", "b")}
    before = [record for record in sent if record.offset < bounds[record.topic][record.partition]]
    moments += [(AtOffsets(bounds), model.run(FEW, before, decode_record))]
    for at, expected in moments:
        for table in FEW.tables:
            assert bench.rows(table, at) == expected.tables[table.name], f"{table.name} at {at}"
    for table in FEW.tables:
        assert bench.rebuilt(table, last) == bench.rows(table), table.name


@pytest.mark.slow
def test_an_intervention_above_is_undone_below(bench: Bench) -> None:
    """A revert of a table above takes what it had given out of sums and joins, as ordinary changes."""
    sent = records(5, 40, 3)
    last = write_bronze(bench.lake, FEW, sent)
    bench.catch_up(FEW, 1, last)
    state = interventions.take_over_bronze(bench.lake)
    interventions.record_intervention(bench.lake, state, InterventionRequest("revert", ("a_",), Cut(1).details()))
    bench.catch_up(FEW, last + 1)
    a, b = bench.rows(A), bench.rows(B)
    assert a == bench.rows(A, AtTick(1))
    other = {key: b.get((row["to"],), {}) for key, row in a.items()}
    joined = {key: {**row, "b_g": other[key].get("g"), "b_n": other[key].get("n")} for key, row in a.items()}
    assert bench.rows(REFERRING) == joined
    for table in FEW.tables:
        assert bench.rows(table) == bench.rebuilt(table, last + 1), table.name
        changes = published.rows_of_frame(changefeed.per_event(bench.lake.open(table), 0, last + 1))
        assert all(row["_event_time_ms"] is not None for row in changes), table.name
    lake = Lake(bench.layout.root)
    told = [row for name in ("g", "h") for row in lake.explain(CHAIN, name)]
    assert all(row.agrees for row in told), [row.note for row in told]
    assert {step.record.topic for row in told for step in row.steps if step.record is not None} == {"a", "b"}
    for table in (SUMS, STRICT, CHAIN):
        assert lake.audit(FEW, table).problems == [], table.name
    with pytest.raises(PlanError, match="Revert a_, whose changes reach it"):
        lake.revert(FEW, SUMS, "tick:1")
    # And it goes on.
    more = [replace(r, timestamp=r.timestamp + 10**6, order_time=r.timestamp + 10**6) for r in records(6, 20, 1)]
    end = write_bronze(bench.lake, FEW, [replace(r, tick=last + 2, offset=r.offset + 100) for r in more])
    bench.catch_up(FEW, end)
    for table in FEW.tables:
        assert bench.rows(table) == bench.rebuilt(table, end), table.name
