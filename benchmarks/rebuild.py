"""Tables folded from bronze alone, against a plain Spark batch job over the same files; and from an anchor.

    .venv/bin/python benchmarks/rebuild.py [--rows 1000000] [--ticks 10] [--distances 1,10,100] [--reads 3]

The batch job is what one would write without lakehouse: from_json, groupBy, count and sum; max_by for the latest. It
knows nothing of bad records, null keys, positions or interventions. Both read all rows to the end, in turn, and the
median counts; the first read of each kind is left out.

Distances: the table stands at the first tick and takes nothing in any more, so that the last tick can only be told from
there. `--distances` are the ticks in between, each of 1,000 records.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

from common import show
from kafka_rows import kafka_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.settings.config import load
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.tick import append_tick
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.history.moments import Past
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.silver.query import Silver

TOPIC, KEYS, SMALL = "events", 100_000, 1_000
events = lh.stream(TOPIC, key="id string", schema="amount bigint")
COUNTS = events.group_by("id").agg(n=lh.count(), total=lh.sum("amount")).table("counts")
LATEST = events.latest("newest")


def fill(spark: SparkSession, layout: Layout, sizes: list[int]) -> None:
    """Write ticks of these sizes into a new bronze."""
    bronze.create_tables(open_lake(spark, layout))
    state = replace(bronze.open_bronze_epoch(open_lake(spark, layout)), topics={TOPIC: TopicState("id")})
    first = 0
    for size in sizes:
        number = spark.range(first, first + size).select(F.col("id").alias("number"))
        first += size
        key = F.col("number") * 7919 % KEYS
        frame = kafka_rows(number, TOPIC, "amount", time_ms=F.col("number"), key=key)
        state, _ = append_tick(frame, layout, state, {TOPIC: {0: first}}, "benchmark")


def plain(spark: SparkSession, layout: Layout, *, latest: bool) -> DataFrame:
    """The same rows by a batch job."""
    rows = spark.read.format("delta").load(layout.records).where(F.col("topic") == TOPIC)
    value = F.from_json(F.decode("value", "UTF-8"), "amount bigint")["amount"]
    rows = rows.select(F.decode("key", "UTF-8").alias("id"), value.alias("amount"), "offset")
    if latest:
        return rows.groupBy("id").agg(F.max_by("amount", "offset").alias("amount"))
    return rows.groupBy("id").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))


def seconds(read: Callable[[], DataFrame]) -> float:
    """Plan, and read all rows to the end."""
    began = time.monotonic()
    read().write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def medians(kinds: dict[str, Callable[[], DataFrame]], reads: int) -> dict[str, float]:
    """Read each in turn, and again."""
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(reads + 1):
        for name, read in kinds.items():
            times[name].append(seconds(read))
    return {name: statistics.median(found[1:]) for name, found in times.items()}


def against_a_batch_job(spark: SparkSession, rows: int, ticks: int, reads: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(folder)
        fill(spark, layout, [rows // ticks] * ticks)
        with Silver(open_lake(spark, layout), lh.app(COUNTS, LATEST), lambda tick, records: None) as silver:
            silver.catch_up(1)
        found = medians(
            {
                "count and sum, from bronze": lambda: Past(
                    open_lake(spark, layout).open(COUNTS), anchored=False
                ).visible_rows(Cut(ticks)),
                "count and sum, the batch job": lambda: plain(spark, layout, latest=False),
                "latest, from bronze": lambda: Past(open_lake(spark, layout).open(LATEST), anchored=False).visible_rows(
                    Cut(ticks)
                ),
                "latest, the batch job": lambda: plain(spark, layout, latest=True),
            },
            reads,
        )
    shown = [(name, f"{took:.2f}", f"{rows / took:,.0f}") for name, took in found.items()]
    show(f"{rows:,} records in {ticks} ticks, {KEYS:,} keys", ("what", "seconds", "records a second"), shown)


def from_an_anchor(spark: SparkSession, distances: list[int], reads: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(folder)
        fill(spark, layout, [KEYS, *[SMALL] * max(distances)])
        with Silver(open_lake(spark, layout), lh.app(COUNTS), lambda tick, records: None) as silver:
            silver.catch_up(1)

        def at(tick: int) -> Callable[[], DataFrame]:
            return lambda: Past(open_lake(spark, layout).open(COUNTS)).visible_rows(Cut(tick))

        found = medians({str(distance): at(1 + distance) for distance in [0, *distances]}, reads)
    shown = [(f"{int(name):,}", f"{int(name) * SMALL:,}", f"{took:.2f}") for name, took in found.items()]
    show(f"a table of {KEYS:,} rows at a tick", ("ticks after the anchor", "records", "seconds"), shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--ticks", type=int, default=10)
    parser.add_argument("--distances", default="1,10,100")
    parser.add_argument("--reads", type=int, default=3)
    asked = parser.parse_args()
    spark = open_session(load(environ={}))
    against_a_batch_job(spark, asked.rows, asked.ticks, asked.reads)
    from_an_anchor(spark, [int(text) for text in asked.distances.split(",")], asked.reads)
    spark.stop()


if __name__ == "__main__":
    main()
