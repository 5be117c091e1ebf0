"""Backfill, revert and swap on real Spark and Delta: what they change, and that a rebuild from bronze agrees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import AtTick, AtVersion
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.open_lake import OpenLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout

EVENTS = lh.stream("events", key="id string", schema="n bigint")
SUMS = EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n")).table("sums")
MEANS = EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n"), mean=lh.avg("n")).table("sums")
LAST = EVENTS.latest("last", order_by="rowtime")
FINAL = (
    EVENTS.group_by("id").window(lh.tumbling("10 milliseconds", grace="0 seconds")).agg(n=lh.count())
    .table("final", emit="final")
)  # fmt: skip
APP = lh.app(SUMS, LAST, FINAL)
ALONE = lh.app(SUMS)


def history(keys: str, first: int = 0, tick: int = 1) -> list[Record]:
    """A record of each key, ten milliseconds apart, two a tick; `first` is the offset of the first one."""
    times = [10 * (first + n) for n in range(len(keys))]
    made = []
    for n, (key, time, order) in enumerate(zip(keys, times, order_times(times), strict=True)):
        value = json.dumps({"n": first + n}).encode()
        made.append(Record("events", "id", 0, first + n, time, key.encode(), value, n // 2 + tick, order))
    return made


class Bench:
    """A lake of the application, and the content of its tables."""

    def __init__(self, spark: SparkSession, layout: Layout) -> None:
        self.spark, self.layout = spark, layout

    @property
    def lake(self) -> OpenLake:
        return open_lake(self.spark, self.layout)

    def write(self, records: list[Record]) -> int:
        from lakehouse.run.scenario.replay import write_bronze

        return write_bronze(self.lake, APP, records)

    def catch_up(self, app: App = APP, to: int | None = None) -> None:
        from lakehouse.spark.silver.query import Silver

        with Silver(self.lake, app, lambda tick, records: None) as silver:
            silver.catch_up(to)

    def rows(self, table: Table, at: Any = None) -> dict[Any, Any]:
        from lakehouse.run.scenario.replay import rows_of
        from lakehouse.spark.history import reading

        frame = reading.read_rows(self.lake.open(table), at)
        return rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))

    def folded(self, table: Table, tick: int) -> dict[Any, Any]:
        """The table at a tick, from bronze and interventions alone."""
        from lakehouse.lake.moment.cut import Cut
        from lakehouse.run.scenario.replay import rows_of
        from lakehouse.spark.history.moments import Past

        frame = Past(self.lake.open(table), anchored=False).visible_rows(Cut(tick))
        return rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))

    def damage(self, table: str, change: str, where: str) -> None:
        """A wrong UPDATE by somebody else."""
        self.spark.sql(f"UPDATE delta.`{self.layout.silver(table)}` SET {change} WHERE {where}")


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    from lakehouse.lake.layout import Layout

    return Bench(spark, Layout(str(tmp_path / "lake")))


def expected(app: App, records: list[Record], table: str) -> dict[Any, Any]:
    return dict(model.run(app, records, decode_record).tables[table])


@pytest.mark.slow
def test_a_damaged_table_is_rebuilt_and_new_logic_is_swapped_in(bench: Bench) -> None:
    from lakehouse.run.repair.backfill import (
        Range,
        backfill,
        backfill_range,
        plan_backfill,
        plan_range,
        revert,
    )
    from lakehouse.run.repair.intervene import Why
    from lakehouse.semantics.difference import Difference
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.changelog import changefeed
    from lakehouse.spark.history.moments import Cut

    records = history("abacbd")
    assert bench.write(records) == 3
    bench.catch_up(ALONE)
    good = expected(ALONE, records, "sums")
    nothing = backfill(bench.lake.open(SUMS), ALONE)
    assert (nothing.tick, nothing.differing.equal) == (None, True)

    bench.damage("sums", "total = 99", "id IN ('a', 'b')")
    # A range of bronze in which only `a` has records: of the two, its row alone is rebuilt.
    one = Range(first_ms=20, last_ms=29)
    planned = plan_range(bench.lake.open(SUMS), one)
    assert (planned.expected.tick, planned.expected.differing) == (None, Difference(0, 0, 1))
    assert interventions.read_interventions(bench.lake, "sums") == [], "a plan decides nothing"
    assert backfill_range(bench.lake.open(SUMS), ALONE, one).tick == 4
    assert bench.rows(SUMS) == {**good, ("b",): {"n": 2, "total": 99}}
    outcome = backfill(bench.lake.open(SUMS), ALONE, why=Why("a wrong UPDATE"))
    assert (outcome.tick, outcome.differing) == (5, Difference(0, 0, 1))
    assert bench.rows(SUMS) == good
    assert bench.rows(SUMS, AtTick(4))[("b",)] == {"n": 2, "total": 99}, "the history keeps what was"
    feed = changefeed.per_event(bench.lake.open(SUMS), 4, 5).collect()
    assert [(row["id"], row["total"], row["_position"]["tick"]) for row in feed] == [("b", 5, 5)]
    assert not Path(bench.layout.tables, "beside", "sums").exists()

    new = lh.app(MEANS)
    with pytest.raises(PlanError, match="needs a refold"):
        bench.catch_up(new)
    with pytest.raises(PlanError, match="only under the table's own declaration"):
        backfill_range(bench.lake.open(MEANS), new, one)
    assert plan_backfill(bench.lake.open(MEANS)).expected.differing == Difference(0, 0, 4)
    assert backfill(bench.lake.open(MEANS), new).tick == 6
    assert bench.rows(MEANS) == expected(new, records, "sums")
    with pytest.raises(PlanError, match="its declaration changed at tick 6"):
        revert(bench.lake.open(MEANS), new, Cut(4))
    with pytest.raises(PlanError, match="under another declaration"):
        bench.catch_up(ALONE)

    more = history("ae", 6, 7)
    assert bench.write(more) == 7
    bench.catch_up(new)
    assert bench.rows(MEANS) == expected(new, records + more, "sums") == bench.folded(MEANS, 7)
    assert [at.kind for at in interventions.read_interventions(bench.lake, "sums")] == ["refold", "swap", "swap"]
    assert bench.rows(MEANS, AtVersion(1)) != bench.rows(MEANS)


@pytest.mark.slow
def test_a_table_goes_back_and_goes_on_from_there(bench: Bench) -> None:
    """Plain aggregates, tables with `order_by` (a delete leaves a marker), final results."""
    from lakehouse.run.repair.backfill import plan_revert, revert
    from lakehouse.run.repair.intervene import Why
    from lakehouse.spark.history import reading

    records = history("abacbd")
    bench.write(records)
    bench.catch_up(to=1)
    bench.catch_up()
    before = {table.name: bench.rows(table, AtTick(1)) for table in APP.tables}
    assert [len(rows) for rows in before.values()] == [2, 2, 1]
    tick = 3
    for table in APP.tables:
        cut = reading.cut_at(bench.lake.open(table), AtTick(1))
        planned = plan_revert(bench.lake.open(table), cut)
        assert planned.expected.tick is None
        assert not planned.expected.differing.equal
        tick += 1
        assert revert(bench.lake.open(table), APP, cut, why=Why("a bad release")).tick == tick
        assert bench.rows(table) == before[table.name], table.name
        assert bench.folded(table, tick) == before[table.name], table.name
    more = history("ae", 6, tick + 1)
    bench.write(more)
    bench.catch_up()
    assert bench.rows(SUMS) == {
        ("a",): {"n": 2, "total": 6},
        ("b",): {"n": 1, "total": 1},
        ("e",): {"n": 1, "total": 7},
    }
    assert {key: row["n"] for key, row in bench.rows(LAST).items()} == {("a",): 6, ("b",): 1, ("e",): 7}
    for table in APP.tables:
        assert bench.rows(table) == bench.folded(table, tick + 1), table.name


def test_no_table_is_built_from_another_place_of_bronze_than_its_records_have(bench: Bench) -> None:
    """An empty table of its own in bronze would be there for good, and the right declaration be refused."""
    from lakehouse.spark.bronze import bronze

    def application(*, own_table: bool) -> App:
        events = lh.stream("events", key="id string", schema="n bigint", own_table=own_table)
        return lh.app(events.latest("newest"))

    bench.write(history("ab"))
    with pytest.raises(PlanError, match="'events': its rows lie in the shared table"):
        bench.catch_up(application(own_table=True))
    with pytest.raises(PlanError, match="'events': its rows lie in the shared table"):
        bronze.create_tables(bench.lake, ["events"])
    bronze.create_tables(bench.lake, ["without-records"])
    assert bronze.topics_with_own_table(bench.lake) == ["without-records"]
    bench.catch_up(application(own_table=False))


@pytest.mark.rotated
def test_the_rest_of_a_removal_that_was_killed_is_no_build(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lost the quarantine; the next build would have gone on behind the last tick, and swapped that in."""
    from lakehouse.run.repair.backfill import build, discard
    from lakehouse.spark.jvm import folders

    *fitting, last = history("abab")
    records = [*fitting, replace(last, value=b"bad")]
    bench.write(records)
    bench.catch_up(ALONE)
    build(bench.lake.open(SUMS), "sums")
    remove = folders.remove_folder

    def die_early(spark: SparkSession, path: str) -> None:
        if path.endswith("/sums/_delta_log"):
            return remove(spark, path)
        remove(spark, f"{path}/quarantine")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(folders, "remove_folder", die_early)
        with pytest.raises(KeyboardInterrupt):
            discard(bench.lake.open(SUMS))
    built = build(bench.lake.open(SUMS), "sums")
    assert bench.spark.read.format("delta").load(built.layout.quarantine("events")).count() == 1
    rows = built.lake.read(built.visible.path).collect()
    assert {(row["id"],): {"n": row["n"], "total": row["total"]} for row in rows} == expected(ALONE, records, "sums")
