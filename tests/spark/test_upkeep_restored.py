"""Upkeep of a restored table: the rows with which it began are in no bronze, so its first anchor keeps them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.spark.history import anchors
from lakehouse.spark.silver.upkeep import UpkeepPolicy, upkeep_table

from ..bench import Bench
from ..rows import A, records_of
from .test_restored_rows import restored

APP = lh.app(A)
HOUR = 3_600_000
POLICY = UpkeepPolicy(32, HOUR, 24 * HOUR, None, vacuum=False)
HISTORY = [("a", name, {"g": "g", "n": number, "to": None}) for number, name in enumerate("xyzxyz")]


@pytest.mark.rotated
def test_a_restored_table_gets_its_first_anchor_whatever_came_before_the_first_upkeep(
    spark: SparkSession, tmp_path: Path
) -> None:
    records, bench = records_of(HISTORY, [2, 2, 2]), Bench(spark, tmp_path)
    restored(bench, [record for record in records if record.tick == 1])
    begun_with = bench.rows(A)
    opened = bench.lake.open(A)
    assert upkeep_table(opened, POLICY, datetime.now(UTC))[0].anchor is None, "before any run it has no commit to copy"
    last = write_bronze(bench.lake, APP, records)
    bench.catch_up(APP, 2, last)
    # What a revert or a backfill does first.
    assert anchors.keep_anchor(opened, last, "before a revert") == last
    assert upkeep_table(opened, POLICY, datetime.now(UTC))[0].anchor == 0
    assert [row["tick"] for row in anchors.read_index(opened)] == [last, 0]
    kept = spark.read.format("delta").load(f"{bench.layout.anchors(A.name)}/kept").where("_anchor = 0")
    assert {(row["k"],) for row in kept.collect()} == set(begun_with)
    assert upkeep_table(opened, POLICY, datetime.now(UTC))[0].anchor is None, "once is enough"
