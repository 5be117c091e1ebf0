"""Alerts on real Spark and Delta: the model's, in any parts, and after an intervention."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.formats.decode import decode_record
from lakehouse.lake.moment.cut import Cut
from lakehouse.model import model
from lakehouse.plan.stream import Stream
from lakehouse.run.scenario.replay import read_result, write_bronze
from lakehouse.run.scenario.scenario import on_model
from lakehouse.semantics.changelog import Change
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import InterventionRequest
from lakehouse.spark.changelog import published, stream_feed

from ..bench import Bench
from ..graphs import ALERTS, MOVED, TOTALS, records


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


def told(bench: Bench, alert: Stream, *ticks: int) -> list[dict[str, object]]:
    """The alerts, derived in parts that end with these ticks."""
    result: list[dict[str, object]] = []
    after = 0
    for to in ticks:
        result += published.rows_of_frame(stream_feed.stream_events(bench.lake, alert, after, to))
        after = to
    return result


def ids(changes: list[Change]) -> list[object]:
    return [change.value["alert_id"] for change in changes if change.value is not None]


@pytest.mark.slow
def test_any_batches_give_the_models_alerts(bench: Bench) -> None:
    sent = records(5, 60, 4)
    expected = on_model(ALERTS, sent)
    assert all(len(alerts) > 2 for alerts in expected.topics.values())
    last = write_bronze(bench.lake, ALERTS, sent)
    bench.catch_up(ALERTS, 1)
    bench.catch_up(ALERTS, 3, last)
    actual = read_result(bench.lake, ALERTS, sent, last)
    assert actual.topics == expected.topics
    assert actual.tables == expected.tables
    for topic, alert in {"moved": MOVED, "qualified": ALERTS.sinks[-1].source}.items():
        assert isinstance(alert, Stream)
        parts = told(bench, alert, 2, 3, last)
        assert [row["alert_id"] for row in parts] == ids(expected.topics[topic])


@pytest.mark.slow
def test_a_revert_tells_of_the_crossings_that_it_makes(bench: Bench) -> None:
    spent = TOTALS.alert("spent", "total > 9", on="both")
    sent = records(3, 40, 3)
    last = write_bronze(bench.lake, ALERTS, sent)
    bench.catch_up(ALERTS, last)
    first, all_of_them = (
        model.run(ALERTS, [record for record in sent if record.tick <= tick], decode_record).tables["totals"]
        for tick in (1, last)
    )
    state = interventions.take_over_bronze(bench.lake)
    interventions.record_intervention(bench.lake, state, InterventionRequest("revert", ("totals",), Cut(1).details()))
    bench.catch_up(ALERTS, last + 1)
    before = told(bench, spent, last)
    after = told(bench, spent, last, last + 1)
    assert after[: len(before)] == before
    over = {key[0] for key, row in all_of_them.items() if row["total"] is not None and row["total"] > 9}
    still = {key[0] for key, row in first.items() if row["total"] is not None and row["total"] > 9}
    assert over - still, "the revert takes somebody below the limit"
    assert [(row["customer"], row["crossing"]) for row in after[len(before) :]] == [
        (name, "leave") for name in sorted(over - still)
    ]
    assert {str(row["alert_id"]).split("/")[1] for row in after[len(before) :]} == {str(last + 1)}
