"""Operators: batches of 1,000 records into tables of 10 thousand to 10 million rows, one family of operators at a time.

    .venv/bin/python benchmarks/operators.py [--families count,session] [--sizes 10000,100000] [--batches N]

A table is filled first, through bronze, as in a real run. Then batches are measured: from a complete tick of bronze to
the table's commit (two commits where what is kept is more than what is seen). Of each kind one batch goes before and is
left out.

    local     neighbours in the order of the keys, and in the newest hour where there are windows
    random    keys from anywhere, and from any hour; with final results the newest hour, too: others would be late

Tables with windows hold ten hours for each key, so they have a tenth as many keys as rows. A JSON line says what was
measured of a family; the table at the end says it all.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import show
from kafka_rows import kafka_rows
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.lake import reader
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.layout import Layout
from lakehouse.plan.operator import Final
from lakehouse.settings.config import load
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.tick import append_tick
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.silver.query import Silver

TOPIC, PARTITIONS = "events", 4
BEGIN_MS, HOUR_MS = 1_700_002_800_000, 3_600_000  # begins with an hour
HOURS = 10
RECORDS = 1000
# More would not fit into a batch of the silver query, either.
TICK_RECORDS_MAX = 2_000_000
# Records for any of the ten hours are in time.
GRACE = "7 days"

events = lh.stream(TOPIC, key="id string", schema="amount bigint")
by_id = events.group_by("id")
amounts = {"n": lh.count(), "total": lh.sum("amount")}
FAMILIES = {
    "count": by_id.agg(n=lh.count()).table("rows"),
    "sums": by_id.agg(
        total=lh.sum("amount"), mean=lh.avg("amount"), least=lh.min("amount"), most=lh.max("amount"),
        newest=lh.latest("amount"),
    ).table("rows"),
    "keyed": by_id.agg(listed=lh.collect_list("amount", limit=10), top=lh.top_k("amount", 3)).table("rows"),
    "latest": events.latest("rows"),
    "order_by": events.latest("rows", order_by="amount"),
    "having": by_id.agg(**amounts).having("n > 0").table("rows"),
    "tumbling": by_id.window(lh.tumbling("1 hour", grace=GRACE)).agg(**amounts).table("rows"),
    "hopping": by_id.window(lh.hopping("2 hours", "1 hour", grace=GRACE)).agg(**amounts).table("rows"),
    "session": by_id.window(lh.session("1 minute", grace=GRACE)).agg(**amounts).table("rows"),
    "sliding": by_id.window(lh.sliding("1 minute", grace=GRACE)).agg(**amounts).table("rows"),
    "final": by_id.window(lh.tumbling("1 hour", grace="0 seconds")).agg(**amounts).table("rows", emit="final"),
}  # fmt: skip
KINDS = ("local", "random")


def records(frame: DataFrame, keys: int) -> DataFrame:
    """Records of: number of the record, key, hour, milliseconds after the key's own moment in the hour. A key has one
    partition; a partition's offsets have holes, as after transactions. They come as from Kafka, one partition after the
    other: a tick notes the last row of each stretch of a partition."""
    moment = F.col("hour") * HOUR_MS + F.expr(f"(key * {HOUR_MS // 2}) div {keys}") + F.col("after")
    key = F.col("key")
    rows = kafka_rows(frame, TOPIC, "amount", time_ms=moment + BEGIN_MS, key=key, partition=key % PARTITIONS)
    return rows.repartition("partition").sortWithinPartitions("partition", "offset")


class Filled:
    """A lake with one table that holds `rows` rows, and what is needed to give it more."""

    def __init__(self, spark: SparkSession, folder: Path, family: str, rows: int) -> None:
        self._spark, self._table = spark, FAMILIES[family]
        self._layout = Layout(str(folder))
        self._app = lh.app(self._table)
        self._hours = HOURS if self._table.windows else 1
        self._keys = rows // self._hours
        self._sent = self._batches = 0
        self._dice = random.Random(7)
        bronze.create_tables(open_lake(spark, self._layout))
        state = bronze.open_bronze_epoch(open_lake(spark, self._layout))
        self._state = replace(state, topics={TOPIC: TopicState("id")})

    def fill(self) -> float:
        """Fill the table; return the seconds that it took to take the records in."""
        began = time.monotonic()
        while self._sent < (goal := self._keys * self._hours):
            number = self._spark.range(self._sent, min(goal, self._sent + TICK_RECORDS_MAX)).select(
                F.col("id").alias("number"),
                (F.col("id") % self._keys).alias("key"),
                F.expr(f"id div {self._keys}").alias("hour"),
                F.lit(0).alias("after"),
            )
            self._append(number, min(goal, self._sent + TICK_RECORDS_MAX))
        with self._silver() as silver:
            silver.catch_up()
        return time.monotonic() - began

    def batches(self, kind: str, count: int) -> Iterator[float]:
        """Send batches, each a tick; yield the seconds that the table needed for each."""
        with self._silver() as silver:
            for _ in range(count):
                self._batches += 1
                rows = [
                    (self._sent + place, key, self._hour(kind), 1000 * self._batches)
                    for place, key in enumerate(self._chosen(kind))
                ]
                frame = self._spark.createDataFrame(rows, "number bigint, key bigint, hour bigint, after bigint")
                self._append(frame, self._sent + len(rows))
                began = time.monotonic()
                silver.catch_up()
                yield time.monotonic() - began

    def rows(self) -> int:
        """How many rows people see."""
        return int(reader.open_dataset(self._layout.silver(self._table.name)).count_rows())

    def _silver(self) -> Silver:
        return Silver(open_lake(self._spark, self._layout), self._app, lambda tick, records: None)

    def _append(self, frame: DataFrame, end: int) -> None:
        ends = {TOPIC: dict.fromkeys(range(PARTITIONS), end)}
        rows = records(frame, self._keys)
        self._state, _ = append_tick(rows, self._layout, self._state, ends, "benchmark")
        self._sent = end

    def _chosen(self, kind: str) -> list[int]:
        count = min(RECORDS, self._keys)
        if kind == "random":
            return self._dice.sample(range(self._keys), count)
        first = self._dice.randrange(self._keys - count + 1)
        return list(range(first, first + count))

    def _hour(self, kind: str) -> int:
        if self._table.find(Final):
            # A new hour each time: it closes the one before.
            return self._hours - 1 + self._batches
        return self._dice.randrange(self._hours) if kind == "random" else self._hours - 1


def measured(spark: SparkSession, family: str, rows: int, batches: int) -> dict[str, Any]:
    """Measure one family at one size; return what a JSON line says."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-", ignore_cleanup_errors=True) as folder:
        lake = Filled(spark, Path(folder), family, rows)
        found: dict[str, Any] = {"family": family, "rows": rows, "fill_seconds": round(lake.fill(), 1)}
        found["rows_seen"] = lake.rows()
        for kind in KINDS:
            seconds = [round(taken, 3) for taken in lake.batches(kind, batches + 1)][1:]
            found[kind] = {"median": statistics.median(seconds), "largest": max(seconds), "seconds": seconds}
        return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--families", default=",".join(FAMILIES), help="of " + ", ".join(FAMILIES))
    arguments.add_argument("--sizes", default="10000,100000,1000000", help="rows of the tables")
    arguments.add_argument("--batches", type=int, default=5, help="measured of each kind")
    chosen = arguments.parse_args()
    families, sizes = chosen.families.split(","), [int(size) for size in chosen.sizes.split(",")]
    if unknown := [family for family in families if family not in FAMILIES]:
        arguments.error(f"no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    spark = open_session(load())
    shown = []
    for size in sizes:
        for family in families:
            line = measured(spark, family, size, chosen.batches)
            print(json.dumps(line), flush=True)
            figures = [f"{line[kind][what]:.2f}" for kind in KINDS for what in ("median", "largest")]
            shown.append([family, f"{size:,}", *figures, f"{line['fill_seconds']:.1f}"])
    columns = ["family", "rows", *(f"{kind} {what}" for kind in KINDS for what in ("median", "largest")), "fill"]
    show(f"a batch of {RECORDS:,} records, seconds, {chosen.batches} batches of each kind", columns, shown)
    spark.stop()


if __name__ == "__main__":
    main()
