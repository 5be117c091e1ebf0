"""Drills on real Spark and Delta: each damage is found, each way gives the table, the live one is not touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, NotFound
from lakehouse.plan.app import App
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake.layout import Layout

EVENTS = lh.stream("events", key="id string, part bigint", schema="n bigint")
SUMS = EVENTS.group_by("id", "part").agg(n=lh.count(), total=lh.sum("n")).table("sums")
FINAL = (
    EVENTS.group_by("id").window(lh.tumbling("10 milliseconds", grace="0 seconds")).agg(n=lh.count())
    .table("final", emit="final")
)  # fmt: skip


def filled(spark: SparkSession, folder: Path, app: App) -> Layout:
    """A lake whose tables took in three ticks, one by one."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.silver.query import Silver

    layout = Layout(str(folder / "lake"))
    records = []
    for n in range(400):
        key, tick = json.dumps({"id": f"k{n % 40}", "part": n % 3}).encode(), n // 134 + 1
        records.append(Record("events", "id", 0, n, n, key, json.dumps({"n": n}).encode(), tick, n))
    write_bronze(open_lake(spark, layout), app, records)
    with Silver(open_lake(spark, layout), app, lambda tick, count: None) as silver:
        for tick in range(1, 4):
            silver.catch_up(tick)
    return layout


@pytest.fixture(scope="module")
def layout(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return filled(spark, tmp_path_factory.mktemp("drill"), lh.app(SUMS))


def files(layout: Layout) -> dict[str, bytes]:
    """The lake's files, without leases and the history of drills."""
    root = Path(layout.root)
    result = (path for path in root.rglob("*") if path.is_file() and "control" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in result}


@pytest.mark.slow
def test_each_damage_is_found_and_the_table_restored(
    spark: SparkSession, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    from lakehouse.cli.main import main
    from lakehouse.run.drill.drill import drill

    before = files(layout)
    outcome = drill(open_lake(spark, layout).open(SUMS), damages=("flipped bit", "wrong merge"))
    assert files(layout) == before, "the live lake is as it was, and nothing is left behind"
    assert outcome.ok
    assert (outcome.tick, outcome.rows) == (3, 120)
    actual = {case.damage: case.found_by or "" for case in outcome.cases}
    assert "checksums" in actual["flipped bit"]
    assert "MERGE of version" in actual["wrong merge"]
    ways = {(case.damage, item.way): item for case in outcome.cases for item in case.restored}
    assert {item.equal for (_, way), item in ways.items() if way == "bronze"} == {True}
    assert {item.lost for item in ways.values() if item.equal} == {0}
    assert ways["wrong merge", "version"].equal
    assert ways["wrong merge", "changelog"].reason == "no topic of its changelog was given"

    assert main(["drill", "sums", "--history", "--lake", layout.root, "--json"]) == 0
    (said,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (said["table"], said["ok"], len(said["cases"])) == ("sums", True, 2)
    assert main(["drill", "--history", "--lake", layout.root]) == 0
    assert "sums" in capsys.readouterr().out


@pytest.mark.slow
def test_a_damage_that_nothing_finds_is_a_failed_drill(
    spark: SparkSession, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks are switched off here, and one way restores something else."""
    from lakehouse.run.drill import drill as module

    monkeypatch.setattr(module, "find_damage", lambda *args: None)
    monkeypatch.setattr(module._RunningDrill, "_from_bronze", lambda self, into: self._expected.limit(100))
    outcome = module.drill(open_lake(spark, layout).open(SUMS), damages=("wrong merge",))
    bronze = next(item for item in outcome.cases[0].restored if item.way == "bronze")
    assert (outcome.ok, outcome.cases[0].found_by, bronze.equal, bronze.lost) == (False, None, False, 20)


def test_what_cannot_be_drilled_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.drill.drill import drill

    with pytest.raises(NotFound, match="does not exist"):
        drill(open_lake(spark, Layout(str(tmp_path / "none"))).open(SUMS))
    with pytest.raises(ConfigError, match="expected one of: lost file"):
        drill(open_lake(spark, Layout(str(tmp_path / "none"))).open(SUMS), damages=("fire",))


@pytest.mark.slow
def test_the_other_damages_and_final_results(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.run.drill.drill import drill

    layout = filled(spark, tmp_path, lh.app(SUMS, FINAL))
    damages = ("lost file", "missing log entry", "broken log entry", "lost checkpoint")
    outcome = drill(open_lake(spark, layout).open(SUMS), damages=damages)
    assert outcome.ok, outcome
    actual = {case.damage: case.found_by or "" for case in outcome.cases}
    assert "is missing" in actual["lost file"]
    assert "no entry for version" in actual["missing log entry"]
    assert "can't be read" in actual["broken log entry"]
    versions = {case.damage: case.restored[0] for case in outcome.cases}
    assert versions["missing log entry"].equal
    assert versions["broken log entry"].equal
    outcome = drill(open_lake(spark, layout).open(FINAL))
    assert outcome.ok, outcome
