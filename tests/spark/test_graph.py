"""Tables that read tables, on real Spark and Delta: the same as on the model, whatever the batches are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.run.scenario.replay import SparkReplay
from lakehouse.run.scenario.scenario import on_model

from ..graphs import APP, records


@pytest.mark.timeout(1800)
def test_any_batches_give_the_models_tables_and_changelogs(spark: SparkSession, tmp_path: Path) -> None:
    sent = records(1, 60, 6)
    expected = on_model(APP, sent)
    assert len(expected.tables["cities"]) > 1
    assert len(expected.changelogs["deep"]) > 5
    replay = SparkReplay(spark, tmp_path)
    for batches in ([1, 2, 3, 4, 5, 6], [6], [2, 5]):
        found = replay(APP, sent, batches)
        for table in APP.tables:
            assert found.tables[table.name] == expected.tables[table.name], (table.name, batches)
            assert found.changelogs[table.name] == expected.changelogs[table.name], (table.name, batches)
        assert found.topics == expected.topics
        assert found.late == expected.late
        assert found.null_keys == expected.null_keys
        assert found.quarantine == expected.quarantine
