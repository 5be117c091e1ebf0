"""Two applications, one of which reads the other's tables, on real Spark and Delta: the tables that one would keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import NotFound, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.lake.moment.cut import Cut
from lakehouse.model import model
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.replay import read_result, write_bronze
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import InterventionRequest
from lakehouse.spark.silver.query import Silver

from ..bench import Bench
from ..rows import CHAIN, OUTER, REFERRING, SUMS, A, B
from ..seeds import DRAWN, draw
from .test_rows import records

SIZES = SUMS.group_by("rows").agg(n=lh.count()).table("sizes")
MET = lh.stream("b", key="k string", schema="g string, n bigint").join(A, on="k", how="left", prefix="a_").latest("met")
ALONE = lh.stream("b", key="k string", schema="g string, n bigint").group_by("g").agg(n=lh.count()).table("alone")
KEEPER = lh.app(REFERRING, SUMS)
READER = lh.app(CHAIN, OUTER, SIZES, MET, ALONE, upstream=[REFERRING, SUMS])
TICKS = 4


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


def last_tick(bench: Bench, table: lh.Table) -> int:
    open_table = bench.lake.open(table)
    return open_table.read_progress().tick if open_table.table_exists() else NO_TICK


@pytest.mark.rotated
@pytest.mark.parametrize(
    ("seed", "turns"), [pytest.param(1, 4, marks=pytest.mark.slow), pytest.param(draw(), 2, id=DRAWN)]
)
def test_in_any_order_the_tables_are_those_of_one_application(bench: Bench, seed: int, turns: int) -> None:
    """Each takes in ticks when it likes, by new writers now and then; at last both have all of them."""
    dice = Random(seed)
    sent = records(seed, 40, TICKS)
    last = write_bronze(bench.lake, KEEPER.with_upstream, sent)
    for _ in range(turns):
        ticks = sorted(dice.randint(1, last) for _ in range(dice.randint(1, 2)))
        bench.catch_up(dice.choice((KEEPER, READER)), *ticks)
        kept_tick = max(last_tick(bench, table) for table in KEEPER.tables)
        for table in (CHAIN, OUTER, SIZES, MET):
            assert last_tick(bench, table) <= kept_tick, table.name
    bench.catch_up(KEEPER, last)
    bench.catch_up(READER, last)
    expected = model.run(READER, sent, decode_record)
    result = read_result(bench.lake, READER.with_upstream, sent, last)
    assert [table.name for table in READER.with_upstream.tables] == list(expected.tables)
    for name, rows in expected.tables.items():
        assert result.tables[name] == rows, name
        assert result.changelogs[name] == expected.changelogs[name], name


@pytest.mark.slow
def test_a_revert_of_an_upstream_table_reaches_what_reads_it(bench: Bench) -> None:
    """But only when the application that keeps it has carried it out."""
    sent = records(5, 40, 3)
    last = write_bronze(bench.lake, KEEPER.with_upstream, sent)
    for app in (KEEPER, READER):
        bench.catch_up(app, last)
    state = interventions.take_over_bronze(bench.lake)
    interventions.record_intervention(bench.lake, state, InterventionRequest("revert", ("a_",), Cut(1).details()))
    before = bench.rows(CHAIN)
    with Silver(bench.lake, READER, lambda tick, count: None) as reader:
        reader.catch_up()
        waiting = {item.upstream: (item.tick, item.readers) for item in reader.find_waiting()}
        assert waiting["a_"] == (last, ("chain", "outer_", "sizes", "met"))
        assert bench.rows(CHAIN) == before
        bench.catch_up(KEEPER, last + 1)
        assert reader.find_waiting() != []  # who asks takes nothing away
        reader.catch_up_with_upstream()
        assert reader.find_waiting() == []
    assert bench.rows(A) == bench.rows(A, AtTick(1))
    for table in READER.tables:
        assert bench.rows(table) == bench.rebuilt(table, last + 1), table.name


@pytest.mark.rotated
def test_an_upstream_table_of_another_declaration_is_refused(bench: Bench) -> None:
    """Also when it changes while the process that reads it runs."""
    last = write_bronze(bench.lake, KEEPER.with_upstream, records(3, 10, 1))
    bench.catch_up(KEEPER, last)
    other_b = replace(B, stream=B.stream.filter("n > 0"))
    reader = lh.app(other_b.group_by("g").agg(n=lh.count()).table("counts"), upstream=[other_b])
    with pytest.raises(PlanError, match=r"table 'b_', which another application keeps, is declared otherwise there"):
        bench.catch_up(reader, last)


def counts_of(table: lh.Table, name: str = "counts") -> lh.Table:
    return table.group_by("g").agg(n=lh.count()).table(name)


@pytest.mark.slow
def test_an_upstream_table_gets_other_logic(bench: Bench) -> None:
    """A running reader stops. A new one goes on if it was not behind then, and else says what to do."""
    sent = records(7, 40, 4)
    last = write_bronze(bench.lake, KEEPER.with_upstream, [record for record in sent if record.tick <= 3])
    bench.catch_up(KEEPER, last)
    other_a = replace(A, stream=A.stream.filter("n > 0"))
    behind, even = (lh.app(counts_of(A, name), upstream=[A]) for name in ("behind", "even"))
    bench.catch_up(behind, 1)
    lake = Lake(bench.layout.root)
    with Silver(bench.lake, even, lambda tick, count: None) as running:
        running.catch_up()
        lake.backfill(lh.app(other_a), other_a)
        with pytest.raises(PlanError, match=r"table 'a_', which another application keeps, is declared otherwise"):
            running.catch_up()
    write_bronze(bench.lake, KEEPER.with_upstream, [replace(r, tick=last + 2) for r in sent if r.tick == 4])
    bench.catch_up(lh.app(other_a), last + 2)
    with pytest.raises(NotFound, match=r"Tables of this application were behind it .* give them other names"):
        bench.catch_up(lh.app(counts_of(other_a, "behind"), upstream=[other_a]), last + 2)
    new_name, old_name = counts_of(other_a, "anew"), counts_of(other_a, "even")
    reader = lh.app(new_name, old_name, upstream=[other_a])
    bench.catch_up(reader, last + 2)
    lake.backfill(reader, old_name)
    assert bench.rows(old_name) == bench.rows(new_name) == bench.rebuilt(new_name, last + 2)
