"""The parts of upkeep: layout by any key, removal of anchors, when a job does it; a failure stops nothing."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400_000


@pytest.mark.rotated
@pytest.mark.parametrize(
    "by",
    [
        ["id", "select", "yes"],
        pytest.param(["id"], marks=pytest.mark.slow),
        pytest.param(["select"], marks=pytest.mark.slow),
    ],
    ids=["all", "bytes", "word"],
)
def test_any_key_can_be_laid_out_by(spark: SparkSession, tmp_path: Path, by: list[str]) -> None:
    """Delta knows no order of bytes and booleans; a name may be a word of SQL; values may be null."""
    from lakehouse.spark.table import files

    path = str(tmp_path / "table")
    columns = "id binary, `select` string, yes boolean"
    for n in range(3):
        rows = spark.createDataFrame([(bytes([n]), None if n else "x", n > 1)], columns).coalesce(1)
        rows.write.format("delta").mode("append").save(path)
    before = files.count_files(spark, path, keyed=True)
    assert (before.count, before.small, before.rows) == (3, 3, 3)
    files.lay_out(spark.newSession(), path, before, by)
    assert files.count_files(spark, path, keyed=True).count == 1
    assert spark.read.format("delta").load(path).count() == 3


def test_old_anchors_are_thinned_to_one_a_period() -> None:
    from lakehouse.spark.silver.upkeep import surplus_anchors

    made = [(tick, tick * DAY) for tick in range(20)]
    assert surplus_anchors(made, None, 20 * DAY) == []
    gone = surplus_anchors(made, 5 * DAY, 20 * DAY)
    assert sorted({tick for tick, _ in made} - set(gone)) == [0, 5, 10, 15, 16, 17, 18, 19]
    assert surplus_anchors([], DAY, 0) == []


def test_the_number_of_old_anchors_is_bounded() -> None:
    """Every 90 days one more anchor stayed, a whole copy of the table."""
    from lakehouse.spark.silver.upkeep import surplus_anchors

    kept: list[int] = []
    years, keep = 40, 90
    for day in range(years * 365):
        kept.append(day)
        gone = set(surplus_anchors([(tick, tick * DAY) for tick in kept], keep * DAY, day * DAY))
        kept = [tick for tick in kept if tick not in gone]
        old = [tick for tick in kept if day - tick > keep]
        assert len(old) <= 2 * max(day // keep, 1).bit_length()
        assert kept[0] == 0, "what a restored table began with is in no bronze"
    # A read of any moment folds at most what came since that moment, and one period.
    for before, after in pairwise(kept):
        assert after - before <= years * 365 - before + keep


def test_leftovers_of_crashes_are_removed_when_they_are_old_and_unused(tmp_path: Path) -> None:
    """Refused requests, files that were never renamed, and checkpoints of other sets of tables stayed forever."""
    from datetime import UTC, datetime

    from lakehouse.lake.control.lease import Lease
    from lakehouse.lake.layout import Layout
    from lakehouse.spark.silver.leftovers import plan_control, upkeep_control
    from lakehouse.spark.silver.upkeep import UpkeepPolicy

    layout = Layout(str(tmp_path))
    names = [
        "requests/a.refused", "requests/b.new", "published/topic.new", "checkpoints/silver-gone/commits/0",
        "restoring/0/part-0", "restoring/1/part-0", "checkpoints/silver-live/commits/0", "checkpoints/ingest/commits/0",
        "requests/c.json", "drills/20261122T100000.sums.json",
    ]  # fmt: skip
    for name in names:
        file = tmp_path / "control" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    policy = UpkeepPolicy(32, 7 * DAY, DAY, None)
    soon, later = (datetime.fromtimestamp(time.time() + 86400 * days, UTC) for days in (6, 8))

    def left() -> set[str]:
        files = (path for path in (tmp_path / "control").rglob("*") if path.is_file())
        return {str(path.relative_to(tmp_path / "control")) for path in files if path.suffix != ".lock"}

    with Lease(layout.lease("checkpoint-silver-live"), "checkpoint"), Lease(layout.lease("restoring-1"), "restore"):
        assert upkeep_control(layout, policy, soon) == []
        assert upkeep_control(layout, replace(policy, vacuum=False), later) == []
        (planned,) = plan_control(layout, policy, later)
        assert (planned.files_before, planned.files_after) == (5, 5)
        assert left() == set(names)
        (done,) = upkeep_control(layout, policy, later)
    assert (done.files_before, done.files_after, done.bytes_before) == (5, 0, 10)
    assert left() == set(names[5:])
    assert upkeep_control(Layout("gs://bucket/lake"), policy, later) == []  # only a JVM writes there


def test_upkeep_is_done_when_due_and_its_failure_stops_nothing(tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.job.upkeep import Upkeeping
    from lakehouse.settings.config import Upkeep

    layout, calls, told, failed = Layout(str(tmp_path)), [], [], []

    def made(**settings: Any) -> Upkeeping:
        used = Upkeep(every_ticks=3, **settings)
        return Upkeeping(
            layout, used, "silver", calls.append, lambda done, seconds: told.append(seconds), failed.append
        )  # fmt: skip

    keeping = made(every_seconds=0.0)
    for tick in range(1, 8):
        keeping.run_if_due(tick)
    assert (len(calls), len(told)) == (2, 2)
    assert not calls[0].vacuum, "a day after the first tick at the earliest"
    made(every_seconds=0.0).run_if_due(9)
    assert len(calls) == 2, "what was done before a restart is known"
    made(every_seconds=0.0).run_if_due(10)
    made(every_seconds=3600.0).run_if_due(20)
    made(every_seconds=0.0, enabled=False).run_if_due(20)
    assert len(calls) == 3
    anew = made(every_seconds=0.0)  # the note says tick 20, and bronze was made anew
    for tick in range(1, 5):
        anew.run_if_due(tick)
    assert len(calls) == 4
    (tmp_path / "control" / "upkeep" / "silver.json").write_text("{half a")
    broken = made(every_seconds=0.0)
    broken._do_upkeep = lambda policy: 1 // 0  # type: ignore[assignment, return-value]
    broken.run_if_due(1)
    broken.run_if_due(4)
    assert failed == ["ZeroDivisionError: integer division or modulo by zero"]


def test_leftovers_of_a_killed_restore_are_removed_by_the_next_one(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows stayed below control/restoring forever. Those of a running restore must stay."""
    from lakehouse.lake.control.lease import Lease
    from lakehouse.lake.layout import Layout
    from lakehouse.run.repair.newest_records import rows_as_frame
    from lakehouse.spark.changelog.upstream import open_lake

    layout, restoring = Layout(str(tmp_path)), tmp_path / "control" / "restoring"
    for name in ("0", "1", "2", "3f2a"):
        (restoring / name).mkdir(parents=True)
        (restoring / name / "part-0").write_text("of another restore")
    schema = spark.createDataFrame([], "n int").schema
    with Lease(layout.lease("restoring-1"), "restore"):
        with rows_as_frame(open_lake(spark, layout), schema, ((1, (n,)) for n in range(3))) as rows:
            assert sorted(row.n for row in rows.collect()) == [0, 1, 2]
            assert sorted(path.name for path in restoring.iterdir()) == ["0", "1"]
            with rows_as_frame(open_lake(spark, layout), schema, [(1, (7,))]) as more:
                assert (rows.count(), more.count()) == (3, 1), "two at once"
        assert [path.name for path in restoring.iterdir()] == ["1"]
