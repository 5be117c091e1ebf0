"""Joins of streams, and as of event times, on real Spark and Delta: the same as on the model, under any batching."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.run.scenario.replay import SparkReplay
from lakehouse.run.scenario.scenario import on_model

from ..seeds import DRAWN, draw
from ..stream_joins import APP, AS_OF, CITIES, CLOSING, EVERYWHERE, PAIRS, records

FEW = lh.app(PAIRS, CITIES, CLOSING.to_topic("closing"), AS_OF.to_topic("as-of"), EVERYWHERE.to_topic("everywhere"))


def compared(found: model.Result, expected: model.Result, app: App) -> None:
    for table in app.tables:
        assert found.tables[table.name] == expected.tables[table.name], table.name
        assert found.changelogs[table.name] == expected.changelogs[table.name], table.name
    for topic, changes in expected.topics.items():
        assert found.topics[topic] == changes, topic
    assert found.late == expected.late
    assert found.null_keys == expected.null_keys
    assert found.quarantine == expected.quarantine


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "batches"),
    [(2, [5]), (3, None), (4, [1, 3, 4]), (draw(), [1, 3])],
    ids=["at-once", "one-writer", "restarts", DRAWN],
)
def test_any_batches_give_the_models_tables_and_topics(
    spark: SparkSession, tmp_path: Path, seed: int, batches: list[int] | None
) -> None:
    """One writer remembers where it has to begin to read; after a restart that is told from bronze."""
    sent = records(seed, 90, 5)
    app = APP if batches is None else FEW
    compared(SparkReplay(spark, tmp_path)(app, sent, batches), on_model(app, sent), app)
