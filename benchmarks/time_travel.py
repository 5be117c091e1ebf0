"""Time travel: reads of a table now, at versions, between them, at offsets and at event times.

    .venv/bin/python benchmarks/time_travel.py [--rows 1000000] [--ticks 20] [--reads 3]

Bronze gets `ticks` ticks, each with keys of its own; the table takes two in at a time: every second tick lies between
two versions. Event time goes on with the ticks. Every read is of all rows, to the end; the first one of a kind is left
out, and the median of the others counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace

from common import show
from kafka_rows import kafka_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.moment import At, AtEvent, AtOffsets, AtTick, AtVersion
from lakehouse.settings.config import load
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.tick import append_tick
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.history import reading
from lakehouse.spark.history.moments import Past
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.silver.query import Silver

TOPIC, HOUR_MS = "events", 3_600_000
events = lh.stream(TOPIC, key="id string", schema="amount bigint")
TABLE = events.group_by("id").agg(n=lh.count(), total=lh.sum("amount")).table("rows")
APP = lh.app(TABLE)


def fill(spark: SparkSession, layout: Layout, rows: int, ticks: int) -> None:
    """Write the ticks, and let the table take them in, two at a time."""
    bronze.create_tables(open_lake(spark, layout))
    state = replace(bronze.open_bronze_epoch(open_lake(spark, layout)), topics={TOPIC: TopicState("id")})
    size = rows // ticks
    for tick in range(1, ticks + 1):
        number = spark.range((tick - 1) * size, tick * size).select(F.col("id").alias("number"))
        time_ms = F.lit(tick * HOUR_MS) + F.col("number") % HOUR_MS
        frame = kafka_rows(number, TOPIC, "amount", time_ms=time_ms)
        state, _ = append_tick(frame, layout, state, {TOPIC: {0: tick * size}}, "benchmark")
        if tick % 2 == 0:
            with Silver(open_lake(spark, layout), APP, lambda tick, records: None) as silver:
                silver.catch_up()


def seconds(read: DataFrame) -> float:
    """Read all rows to the end."""
    began = time.monotonic()
    read.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--ticks", type=int, default=20)
    parser.add_argument("--reads", type=int, default=3)
    asked = parser.parse_args()
    spark = open_session(load(environ={}))
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(folder)
        fill(spark, layout, asked.rows, asked.ticks)
        last, size = asked.ticks, asked.rows // asked.ticks

        lake = open_lake(spark, layout)

        def at(moment: At | None) -> DataFrame:
            return reading.read_rows(lake.open(TABLE), moment)

        known = lake.commits(lake.open(TABLE).visible)
        before = max(one.version for one in known if one.tick == last - 2)
        half = last // 2 * HOUR_MS + HOUR_MS // 2
        kinds = {
            "now": lambda: at(None),
            "a version, by its number": lambda: at(AtVersion(before)),
            "the same version, by its tick": lambda: at(AtTick(last - 2)),
            "between versions, a tick past one": lambda: at(AtTick(last - 1)),
            "offsets, half a tick past a version": lambda: at(AtOffsets({TOPIC: {0: (last - 2) * size + size // 2}})),
            "event time, within the last tick": lambda: at(AtEvent(last * HOUR_MS + HOUR_MS // 2)),
            "event time, half of the history ago": lambda: at(AtEvent(half)),
            "the last tick, from bronze alone": lambda: Past(
                open_lake(spark, layout).open(TABLE), anchored=False
            ).visible_rows(Cut(last)),
        }
        found = []
        for name, read in kinds.items():
            times = []
            for _ in range(asked.reads + 1):
                began = time.monotonic()
                frame = read()
                planned = time.monotonic() - began
                times.append(planned + seconds(frame))
            found.append((name, f"{statistics.median(times[1:]):.2f}", f"{read().count():,}"))
        show(f"reads of a table of {asked.rows:,} rows, {last} ticks", ("moment", "seconds", "rows"), found)
    spark.stop()


if __name__ == "__main__":
    main()
