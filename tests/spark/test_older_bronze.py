"""Bronze that was put back from an older copy, beside the tables of today: no record is left out in silence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import StorageError
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.record import Record
from lakehouse.spark.bronze import interventions
from lakehouse.spark.silver.writer import SilverWriter

from ..bench import Bench

WORDS = lh.stream("words", key="k string", schema="n bigint")
COUNTED = WORDS.group_by("k").agg(n=lh.count()).table("counted")
OFTEN = WORDS.group_by("k").agg(n=lh.count()).having("n > 1").table("often")  # its state is a table of its own
APP = lh.app(COUNTED, OFTEN)


def record(tick: int) -> Record:
    return Record("words", "replay-words", 0, tick - 1, tick, b'{"k": "a"}', b'{"n": 1}', tick, tick)


@pytest.mark.rotated
def test_a_table_ahead_of_bronze_is_refused_until_it_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    bench, root = Bench(spark, tmp_path), tmp_path / "lake"
    write_bronze(bench.lake, APP, [record(1)])
    bench.catch_up(APP, 1)
    shutil.copytree(root / "bronze", tmp_path / "older")
    write_bronze(bench.lake, APP, [record(tick) for tick in (2, 3, 4)])
    bench.catch_up(APP, 4)
    shutil.rmtree(root / "bronze")
    shutil.copytree(tmp_path / "older", root / "bronze")

    for table in (COUNTED, OFTEN):
        with (
            pytest.raises(StorageError, match=f"bronze at tick 1, while silver/{table.name} is at tick 4"),
            SilverWriter(bench.lake.open(table), "run"),
        ):
            pass
    # Ingest and interventions write no tick either: later ticks would hide that bronze was behind.
    with pytest.raises(StorageError, match="bronze at tick 1, while silver/counted is at tick 4"):
        interventions.take_over_bronze(bench.lake)
    assert bench.lake.progress(bench.lake.bronze).tick == 1

    for name in ("silver/counted", "silver/often", "state/often", "quarantine/words"):
        shutil.rmtree(root / name)
    write_bronze(bench.lake, APP, [record(tick) for tick in (2, 3, 4, 5)])
    bench.catch_up(APP, 5)
    assert [{row["n"] for row in bench.rows(table).values()} for table in (COUNTED, OFTEN)] == [{5}, {5}]
