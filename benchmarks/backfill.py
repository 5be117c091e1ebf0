"""Backfill: a table of 1,000,000 rows, one record each, some of them damaged: build, compare, swap.

    .venv/bin/python benchmarks/backfill.py [--records N] [--damaged N]

The records are written to bronze directly: Kafka has no part in a backfill. The table is checked at the end.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from common import show
from kafka_rows import kafka_rows
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.tick import append_tick
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.silver.query import Silver

TOPIC = "events"
TICKS = 4
BEGIN_MS = 1_700_000_000_000
events = lh.stream(TOPIC, key="id string", schema="n bigint")
sums = events.group_by("id").agg(n=lh.count(), total=lh.sum("n")).table("sums")
app = lh.app(sums)


def write_bronze(lake: Lake, layout: Layout, count: int) -> None:
    """One record of each key, in a few ticks of one partition."""
    spark = lake.spark
    bronze.create_tables(open_lake(spark, layout))
    state = replace(bronze.open_bronze_epoch(open_lake(spark, layout)), topics={TOPIC: TopicState("id")})
    for tick in range(TICKS):
        first, end = count * tick // TICKS, count * (tick + 1) // TICKS
        number = spark.range(first, end).select(F.col("id").alias("number"))
        rows = kafka_rows(number, TOPIC, "n", time_ms=F.col("number") + BEGIN_MS)
        state, _ = append_tick(rows, layout, state, {TOPIC: {0: end}}, "benchmark")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--damaged", type=int, default=1_000)
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-benchmark-"))
    try:
        lake = Lake(folder / "lake")
        _ = lake.spark
        layout = Layout(str(folder / "lake"))
        write_bronze(lake, layout, given.records)
        began = time.monotonic()
        with Silver(open_lake(lake.spark, layout), app, lambda tick, records: None) as silver:
            silver.catch_up()
        filled = time.monotonic() - began
        where = f"int(substr(id, 2)) < {given.damaged}"
        lake.spark.sql(f"UPDATE delta.`{layout.silver('sums')}` SET total = -1 WHERE {where}")
        marks: list[tuple[str, float]] = []
        began = time.monotonic()
        done = lake.backfill(
            app, sums, listen=lambda phase, records, total: marks.append((phase, time.monotonic() - began))
        )
        total = time.monotonic() - began
        if done.differing.changed != given.damaged or not lake.read(sums).where("total < 0").isEmpty():
            raise SystemExit(f"found {done}, expected {given.damaged} changed rows")
        compare, swap = (next(at for phase, at in marks if phase == wanted) for wanted in ("compare", "swap"))
        began = time.monotonic()
        lake.revert(app, sums, AtTick(done.before))
        reverted = time.monotonic() - began
        show(
            f"backfill of {given.records:,} rows, {given.damaged:,} of them wrong",
            ["part", "seconds"],
            [
                ["the first fold (apart)", f"{filled:.1f}"],
                ["build beside", f"{compare:.1f}"],
                ["compare", f"{swap - compare:.1f}"],
                ["keep the old content, swap", f"{total - swap:.1f}"],
                ["all", f"{total:.1f}"],
                ["the way back: revert", f"{reverted:.1f}"],
            ],
        )
        lake.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
