"""A database's changes, as a connector sends them: the tables are the database's, on the model and on Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.formats.decode import decode_record
from lakehouse.lake import reader
from lakehouse.model import model
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.record import Record
from tests.bench import Bench
from tests.database import APP, TABLES, columns, fold, history, written
from tests.seeds import DRAWN, draw, restarts, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("sends_large", [True, False], ids=["whole", "toast"])
@pytest.mark.parametrize("seed", seeds(1, 2))
def test_the_model_makes_the_database(seed: int, sends_large: bool) -> None:
    tables, records = history(seed, 1_500, 1, sends_large=sends_large)
    assert fold(records) == written(tables)
    result = model.run(APP, records, decode_record)
    assert result.tables == columns(tables)
    assert not any(result.quarantine.values())
    sent = [record for record in records if record.value is not None]
    assert {(record.topic, operation(record)) for record in sent} == {
        (f"shop.{table}", op) for table in TABLES for op in "crud"
    }
    assert len({(record.topic, record.value) for record in sent}) < len(sent), "some were sent again"


def operation(record: Record) -> str:
    event = json.loads(record.value or b"")
    return str(event.get("payload", event)["op"])


@pytest.mark.rotated
@pytest.mark.parametrize(
    ("seed", "changes", "ticks"),
    [
        pytest.param(draw(), 3_000, 2, id=DRAWN),
        pytest.param(draw(), 100_000, 6, id=f"many-{DRAWN}", marks=pytest.mark.slow),
    ],
)
def test_spark_makes_the_database(spark: SparkSession, tmp_path: Path, seed: int, changes: int, ticks: int) -> None:
    tables, records = history(seed, changes, ticks, sends_large=seed % 2 == 0)
    assert fold(records) == written(tables)
    bench = Bench(spark, tmp_path)
    write_bronze(bench.lake, APP, records)
    ends = [*restarts(seed, ticks), ticks] if ticks > 2 else [1, 2]
    for first, last in zip([0, *ends], ends, strict=False):
        bench.catch_up(APP, *range(first + 1, last + 1))  # each by new writers, as after a restart
    expected = columns(tables)
    for name, table in TABLES.items():
        assert bench.rows(table) == expected[name], name
        quarantine = bench.layout.quarantine(table.stream.sources[0].name)
        assert not reader.open_dataset(quarantine).to_table().num_rows
