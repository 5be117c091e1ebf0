"""Backfills that were interrupted or meet each other, and tables that somebody else has written to."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import LeaseHeld, PlanError
from lakehouse.lake.control import note
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.control.writer_leases import request_lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.properties import SKIP
from lakehouse.plan.table import Table
from lakehouse.run.repair.intervene import InterventionRequest, pending_requests
from lakehouse.semantics.moment import AtVersion
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.bronze import interventions
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = lh.stream("events", key="id string", schema="n bigint, at timestamp")
SUMS = EVENTS.group_by("id").agg(n=lh.count(), total=lh.sum("n"), at=lh.max("at")).table("sums")
OTHER = EVENTS.filter("n > 0").group_by("id").agg(n=lh.count(), total=lh.sum("n"), at=lh.max("at")).table("sums")
MANY = EVENTS.group_by("id").agg(n=lh.count()).having("n > 1").table("many")
APP = lh.app(SUMS, MANY)


def history(keys: str) -> list[Record]:
    """A record of each key and tick."""
    orders = order_times([10 * n for n in range(len(keys))])
    return [
        Record("events", "id", 0, n, 10 * n, key.encode(), value(n), n + 1, order)
        for n, (key, order) in enumerate(zip(keys, orders, strict=True))
    ]


def value(n: int) -> bytes:
    return json.dumps({"n": n, "at": f"2026-01-01T00:00:00.00000{n}Z"}).encode()


@pytest.fixture
def layout(spark: SparkSession, tmp_path: Path) -> Layout:
    """A lake that holds `aabb` in four ticks, with both tables at the last one."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(tmp_path / "lake"))
    write_bronze(open_lake(spark, layout), APP, history("aabb"))
    with Silver(open_lake(spark, layout), APP, lambda tick, records: None) as silver:
        silver.catch_up()
    return layout


def seen(spark: SparkSession, layout: Layout, table: Table) -> dict[Any, Any]:
    opened = open_lake(spark, layout).open(table)
    rows = opened.lake.read(opened.visible.path).collect()
    return {row["id"]: (row["n"], *row[2:-2]) for row in rows}


@pytest.mark.slow
def test_an_interrupted_backfill_goes_on_and_a_second_one_is_refused(spark: SparkSession, layout: Layout) -> None:
    from lakehouse.run.repair.backfill import backfill, build, plan_revert
    from lakehouse.semantics.difference import Difference

    good = seen(spark, layout, SUMS)
    # Times are compared exactly: half a microsecond would be enough.
    wrong = "UPDATE delta.`{0}` SET at = timestamp '2026-01-01 00:00:00.000009Z' WHERE id = 'a'"
    spark.sql(wrong.format(layout.silver("sums")))
    build(open_lake(spark, layout).open(OTHER), "sums", end_tick=1)  # of other logic: the next build starts again
    build(open_lake(spark, layout).open(SUMS), "sums", end_tick=3)
    with Lease(layout.lease("backfill-sums"), "a second one"), pytest.raises(LeaseHeld, match="by a backfill"):
        backfill(open_lake(spark, layout).open(SUMS), APP)
    with (
        Lease(layout.lease("silver-sums"), "a job"),
        pytest.raises(LeaseHeld, match="under another declaration, is being written by another process"),
    ):
        backfill(open_lake(spark, layout).open(OTHER), lh.app(OTHER, MANY))
    told: list[tuple[str, int, int]] = []
    outcome = backfill(open_lake(spark, layout).open(SUMS), APP, listen=lambda *said: told.append(said))
    assert told == [("build", 0, 1), ("build", 1, 1), ("compare", 1, 1), ("swap", 1, 1)], "ticks 1 to 3 were there"
    assert (outcome.tick, outcome.before, outcome.differing) == (5, 4, Difference(0, 0, 1))
    assert seen(spark, layout, SUMS) == good
    again = backfill(open_lake(spark, layout).open(SUMS), APP)
    assert (again.tick, again.differing.equal) == (None, True)
    assert not Path(layout.root, "beside", "sums").exists()
    # A version by its number lacks what somebody else wrote after it; its tick has that.
    from lakehouse.spark.history import reading

    cut = reading.cut_at(open_lake(spark, layout).open(SUMS), AtVersion(2))
    assert not plan_revert(open_lake(spark, layout).open(SUMS), cut).expected.differing.equal
    back = plan_revert(open_lake(spark, layout).open(SUMS), cut, version=2)
    assert (back.expected.differing.equal, back.stages) == (True, ())


@pytest.mark.slow
def test_visible_rows_are_put_right_where_the_state_has_more(spark: SparkSession, layout: Layout) -> None:
    from lakehouse.run.repair.backfill import backfill

    good = seen(spark, layout, MANY)
    spark.sql(f"DELETE FROM delta.`{layout.silver('many')}` WHERE id = 'a'")
    assert seen(spark, layout, MANY) != good
    assert backfill(open_lake(spark, layout).open(MANY), APP).differing.added == 1
    assert seen(spark, layout, MANY) == good
    assert backfill(open_lake(spark, layout).open(MANY), APP).tick is None


@pytest.mark.slow
def test_a_decision_without_its_tick_is_completed_by_the_next_writer(
    spark: SparkSession, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehouse.run.repair import intervene
    from lakehouse.spark.silver.writer import latest_complete_tick

    wanted = InterventionRequest("refold", ("sums",), {"first_ms": 0, "last_ms": 100}, "a test")

    def killed(*_: object) -> None:
        raise OSError("out of power")

    with monkeypatch.context() as patched:
        patched.setattr(interventions, "_append_tick", killed)
        with pytest.raises(OSError, match="out of power"):
            intervene.intervene(open_lake(spark, layout), APP, wanted)
    assert latest_complete_tick(open_lake(spark, layout)) == 4
    good = seen(spark, layout, SUMS)
    assert intervene.intervene(open_lake(spark, layout), APP, wanted) == 5, "the one that was decided, not another"
    assert latest_complete_tick(open_lake(spark, layout)) == 5
    assert seen(spark, layout, SUMS) == good
    assert [(at.at, at.id) for at in interventions.read_interventions(open_lake(spark, layout), "sums")] == [
        (5, wanted.id)
    ]


def test_a_file_that_is_no_request_is_put_aside(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    assert list(pending_requests(layout)) == []
    wanted = InterventionRequest("revert", ("sums",), {"tick": 3})
    note.write(f"{layout.requests}/{wanted.id}.json", asdict(wanted))
    for number, text in enumerate(("{", "[]", "{}", '{"tables": [], "what": 1}')):
        Path(layout.requests, f"bad{number}.json").write_text(text)
    with request_lease(layout, wanted.id):
        assert [actual for _, actual in pending_requests(layout)] == [wanted]
    assert len(list(Path(layout.requests).glob("*.refused"))) == 4
    assert Path(layout.requests, "bad0.refused").read_text() == "{"


def test_a_request_is_forgotten_if_its_process_died(tmp_path: Path) -> None:
    """Such as by SIGKILL, while a run that takes up none held bronze: a job must not carry it out days later."""
    layout = Layout(str(tmp_path))
    asked = """
import sys, time
from dataclasses import asdict
from lakehouse.lake.control import note
from lakehouse.lake.control.writer_leases import request_lease
from lakehouse.lake.layout import Layout
from lakehouse.spark.bronze.interventions import InterventionRequest
layout, request = Layout(sys.argv[1]), InterventionRequest("revert", ("sums",), {"tick": 41}, id="old")
request_lease(layout, "old").acquire()
note.write(f"{layout.requests}/old.json", asdict(request))
print("asked", flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", asked, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert [request.id for _, request in pending_requests(layout)] == ["old"]
    finally:
        process.kill()
        process.wait()
    assert list(pending_requests(layout)) == []
    assert not list(Path(layout.requests).iterdir())
    assert not list(Path(layout.lease("")).parent.glob("request-*"))


@pytest.mark.slow
def test_a_restored_table_is_not_rebuilt(spark: SparkSession, layout: Layout) -> None:
    from lakehouse.run.repair.backfill import Range, backfill, backfill_range
    from lakehouse.spark.transaction import set_properties

    set_properties(spark, layout.silver("sums"), {SKIP: "{}"}, "a skip")
    with pytest.raises(PlanError, match="was restored from a topic"):
        backfill(open_lake(spark, layout).open(SUMS), APP)
    with pytest.raises(PlanError, match="was restored from a topic"):
        backfill_range(open_lake(spark, layout).open(SUMS), APP, Range(0, 1))
