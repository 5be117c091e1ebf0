"""What a scheduler needs from the commands: progress as JSON, safe retries, nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.errors import PlanError
from lakehouse.run.job.upkeep import keep_versions_at_least
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.settings.config import Upkeep
from lakehouse.spark.changelog.upstream import open_lake

APP = """
import lakehouse as lh

visits = lh.stream("visits", key="id string", schema="n bigint")
app = lh.app(visits.group_by("id").agg(n=lh.count()).table("sums"))
"""


@pytest.fixture
def app(spark, folder: Path) -> str:
    """A lake with three records, one a tick, and app.py beside it; commands find both."""
    from lakehouse.lake.layout import Layout
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.run.start.application import load_app
    from lakehouse.spark.silver.query import Silver

    (folder / "app.py").write_text(APP)
    (folder / "lakehouse.toml").write_text('[lake]\npath = "./lake"\n')
    times = [1000, 2000, 3000]
    records = [
        Record("visits", "id", 0, n, time, key.encode(), b'{"n": 1}', n + 1, order)
        for n, (key, time, order) in enumerate(zip("aba", times, order_times(times), strict=True))
    ]
    declared, layout = load_app("app.py:app"), Layout(str(folder / "lake"))
    write_bronze(open_lake(spark, layout), declared, records)
    with Silver(open_lake(spark, layout), declared, lambda tick, records: None) as silver:
        silver.catch_up()
    return "app.py:app"


def test_versions_are_kept_for_the_longer_of_the_two_times() -> None:
    settings = Upkeep(keep_versions="7 days")
    assert keep_versions_at_least(settings, None) is keep_versions_at_least(settings, "168 hours") is settings
    assert keep_versions_at_least(settings, "400 hours").keep_versions == "400 hours"
    assert keep_versions_at_least(Upkeep(keep_versions="1 hour"), "168 hours").keep_versions == "168 hours"
    with pytest.raises(PlanError, match="expected a duration"):
        keep_versions_at_least(settings, "soon")


@pytest.mark.slow
def test_a_plan_reports_its_progress_and_its_leftovers_are_removed(folder, app, lakehouse) -> None:
    planned = lakehouse("backfill", app, "sums", "--plan", "--json")
    assert json.loads(planned.out)["plan"], "stdout has the result alone"
    told = [json.loads(line) for line in planned.err.splitlines() if line.startswith("{")]
    assert {"event": "progress", "phase": "build", "records": 3, "of": 3} in told
    beside = folder / "lake" / "beside" / "sums"
    assert beside.is_dir()
    for options in (("--plan",), ("--from", "1970-01-01")):
        assert lakehouse("backfill", app, "sums", "--discard", *options).code == 2
    assert json.loads(lakehouse("backfill", app, "sums", "--discard", "--json").out)["discarded"] is True
    assert not beside.exists()
    assert "nothing was built beside it" in lakehouse("backfill", app, "sums", "--discard").out


@pytest.mark.slow
def test_a_checkout_may_be_repeated(app, lakehouse) -> None:
    first = lakehouse("checkout", app, "sums", "then", "--tick", "2", "--again", "--json")
    assert first.code == 0, first.err
    assert lakehouse("checkout", app, "sums", "then", "--tick", "2", "--again", "--json").out == first.out
    assert lakehouse("checkout", app, "sums", "then", "--tick", "2").code == 1, "without --again it must not exist"
    assert lakehouse("checkout", app, "sums", "then", "--tick", "1", "--again").code == 1, "another moment"


@pytest.mark.slow
def test_upkeep_says_how_long_versions_are_kept(app, lakehouse) -> None:
    outcome = lakehouse("upkeep", "sums", "--app", app, "--keep-at-least", "400 hours", "--dry-run", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out.splitlines()[0])["kept"][0] == "versions of 16.6667 days"
    assert lakehouse("upkeep", "sums", "--app", app, "--keep-at-least", "soon").code == 2


@pytest.mark.slow
def test_status_says_up_to_which_offsets_bronze_has_come(app, lakehouse) -> None:
    (topic,) = json.loads(lakehouse("status", "--json").out)["topics"]
    assert topic["next"] == {"0": 3}
