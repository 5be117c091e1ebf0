"""Plans of repairs on real Spark and Delta: they change nothing, and can be carried out later if they still hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakehouse as lh
from lakehouse.errors import NotFound, PlanError, StorageError
from lakehouse.lake import intervention_log
from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.difference import Difference

from .test_backfill import ALONE, APP, FINAL, LAST, MEANS, SUMS, Bench, expected, history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAMAGE = "total = 99", "id IN ('a', 'b')"


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """A lake with `abacbd` in three ticks, and the table sums with two wrong rows."""
    from lakehouse.lake.layout import Layout

    bench = Bench(spark, Layout(str(tmp_path / "lake")))
    bench.write(history("abacbd"))
    bench.catch_up(ALONE)
    bench.damage("sums", *DAMAGE)
    return bench


def files(bench: Bench) -> set[str]:
    """What is in the lake, without what was built beside it and without locks."""
    root = Path(bench.layout.root)
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] not in ("beside", "control")
    }


@pytest.mark.slow
def test_a_plan_is_carried_out_later_and_records_came_meanwhile(bench: Bench) -> None:
    from lakehouse.run.repair.backfill import Range, plan_range
    from lakehouse.run.repair.carry_out import carry_out
    from lakehouse.run.repair.intervene import Why
    from lakehouse.run.repair.stages import Intervene

    before = files(bench)
    plan = plan_range(bench.lake.open(SUMS), Range(first_ms=20, last_ms=29))
    assert files(bench) == before
    details = {"first_ms": 20, "last_ms": 29}
    assert (plan.stages, plan.expected.differing) == ((Intervene("refold", ("sums",), details),), Difference(0, 0, 1))
    more = history("ab", 6, 4)
    assert bench.write(more) == 4
    outcome = carry_out(bench.lake, ALONE, plan, Why("a wrong UPDATE", "ann"))
    assert (outcome.tick, outcome.before, outcome.differing) == (5, 4, plan.expected.differing)
    assert bench.rows(SUMS)[("a",)] == expected(ALONE, history("abacbd") + more, "sums")[("a",)]
    (logged,) = intervention_log.read_interventions(bench.layout)
    assert logged["details"] == {**details, "stages": plan.describe()}
    assert (logged["reason"], logged["decided_by"].split(" ")[0]) == ("a wrong UPDATE", "ann")
    with pytest.raises(StorageError, match="somebody intervened in it after this repair was planned"):
        carry_out(bench.lake, ALONE, plan)


@pytest.mark.slow
def test_a_plan_that_no_longer_holds_is_refused(bench: Bench) -> None:
    from lakehouse.run.repair.backfill import backfill, discard, plan_backfill, plan_revert
    from lakehouse.run.repair.carry_out import carry_out

    back = plan_revert(bench.lake.open(SUMS), Cut(1))
    assert not back.expected.differing.equal
    whole = plan_backfill(bench.lake.open(SUMS))
    assert [type(stage).__name__ for stage in whole.stages] == ["KeepAnchor", "Intervene", "RemoveBuild"]
    new = plan_backfill(bench.lake.open(MEANS))
    assert [type(stage).__name__ for stage in new.stages] == [
        "RequireStopped", "KeepAnchor", "Intervene", "RemoveBuild",
    ]  # fmt: skip
    with pytest.raises(StorageError, match="table 'sums' is declared otherwise than when its repair was planned"):
        carry_out(bench.lake, ALONE, new)
    with pytest.raises(StorageError, match="table 'sums': what was built beside it is gone"):
        carry_out(bench.lake, ALONE, whole)  # the build is that of the other logic now
    assert discard(bench.lake.open(MEANS))
    with pytest.raises(StorageError, match="table 'sums': what was built beside it is gone"):
        carry_out(bench.lake, lh.app(MEANS), new)
    assert list(intervention_log.read_interventions(bench.layout)) == []

    assert backfill(bench.lake.open(SUMS), ALONE).tick == 4
    for plan in (back, whole):
        with pytest.raises(StorageError, match="table 'sums': somebody intervened in it after this repair was planned"):
            carry_out(bench.lake, ALONE, plan)
    assert bench.rows(SUMS) == expected(ALONE, history("abacbd"), "sums")
    nothing = plan_backfill(bench.lake.open(SUMS))
    assert ([type(stage).__name__ for stage in nothing.stages], nothing.has_intervention) == (["RemoveBuild"], False)
    assert carry_out(bench.lake, ALONE, nothing).tick is None
    assert not Path(bench.layout.tables, "beside", "sums").exists()


@pytest.mark.slow
def test_a_correction_takes_in_the_records_that_were_planned(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.repair.carry_out import carry_out
    from lakehouse.run.repair.correct import correct, plan_correction
    from lakehouse.run.repair.stages import KeepLate, LateChoice

    bench = Bench(spark, Layout(str(tmp_path / "lake")))
    first, last = history("aa")
    bench.write([first, last])
    bench.catch_up(APP)
    with pytest.raises(NotFound, match="has no late record"):
        plan_correction(bench.lake.open(FINAL), LateChoice())
    with pytest.raises(PlanError, match="has no windows"):
        plan_correction(bench.lake.open(LAST), LateChoice())

    def send_late(tick: int) -> None:
        """One more record of the first window, which has closed."""
        bench.write([replace(first, offset=tick, tick=tick, order_time=last.order_time)])
        bench.catch_up(APP)

    send_late(2)
    plan = plan_correction(bench.lake.open(FINAL), LateChoice())
    assert plan.stages[0] == KeepLate("final", LateChoice(), 2, 1)
    send_late(3)
    assert carry_out(bench.lake, APP, plan).records == 1
    assert sorted(row["n"] for row in bench.rows(FINAL).values()) == [2]
    assert correct(bench.lake.open(FINAL), APP).records == 1, "what came after the plan is still late"
    assert sorted(row["n"] for row in bench.rows(FINAL).values()) == [3]
