"""What a batch of 1,000 rows costs others as a table grows: a MERGE of Spark and Delta as in the recipe, and delta-rs.

    .venv/bin/python benchmarks/peers/merge_growth.py [--sizes N ...] [--batches N]

Needs a quiet machine. The table holds a count by key, sorted by key; a batch's keys are neighbours, or random. What
`operators.py` measures of lakehouse takes more in: the batch there is folded from records, with positions and epochs.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import pyarrow as pa  # noqa: E402
from common import show  # noqa: E402
from delta.tables import DeltaTable as SparkTable  # noqa: E402
from deltalake import DeltaTable  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from recipe import TUNED, session  # noqa: E402

BATCH = 1_000


def made(spark: SparkSession, path: str, rows: int) -> None:
    """Write the table: `rows` keys, each counted once."""
    keys = spark.range(rows).select(F.format_string("k%09d", "id").alias("id"), F.lit(1).cast("bigint").alias("n"))
    keys.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)


def keys(kind: str, rows: int, dice: random.Random) -> list[str]:
    if kind == "random":
        return [f"k{number:09d}" for number in dice.sample(range(rows), BATCH)]
    first = dice.randrange(rows - BATCH + 1)
    return [f"k{number:09d}" for number in range(first, first + BATCH)]


def by_spark(spark: SparkSession, path: str) -> Callable[[list[str]], None]:
    def merge(batch: list[str]) -> None:
        rows = spark.createDataFrame([(key, 1) for key in batch], "id string, n bigint")
        merging = SparkTable.forPath(spark, path).alias("t").merge(rows.alias("s"), "t.id = s.id")
        merging.whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedInsertAll().execute()

    return merge


def by_delta_rs(path: str) -> Callable[[list[str]], None]:
    def merge(batch: list[str]) -> None:
        rows = pa.table({"id": batch, "n": pa.array([1] * len(batch), pa.int64())})
        merging = DeltaTable(path).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merging.when_matched_update({"n": "t.n + s.n"}).when_not_matched_insert_all().execute()

    return merge


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    arguments.add_argument("--batches", type=int, default=5)
    chosen = arguments.parse_args()
    spark, dice, shown = session("2g", TUNED), random.Random(7), []
    for size in chosen.sizes:
        for name in ("recipe, tuned", "delta-rs"):
            with tempfile.TemporaryDirectory(prefix="lakehouse-peers-") as folder:
                path = f"{folder}/table"
                made(spark, path, size)
                merge = by_spark(spark, path) if name != "delta-rs" else by_delta_rs(path)
                figures = []
                for kind in ("local", "random"):
                    seconds = []
                    for _ in range(chosen.batches + 1):
                        batch = keys(kind, size, dice)
                        began = time.monotonic()
                        merge(batch)
                        seconds.append(time.monotonic() - began)
                    figures += [f"{statistics.median(seconds[1:]):.2f}", f"{max(seconds[1:]):.2f}"]
                counted = spark.read.format("delta").load(path).agg(F.count("*"), F.sum("n")).first()
                if counted is None or tuple(counted) != (size, size + 2 * BATCH * (chosen.batches + 1)):
                    raise SystemExit(f"{name}: rows and counts are {counted}")
                shown.append([name, f"{size:,}", *figures])
    columns = ["peer", "rows", "local median", "local largest", "random median", "random largest"]
    show(f"a batch of {BATCH:,} rows merged, seconds, {chosen.batches} batches of each kind", columns, shown)
    spark.stop()


if __name__ == "__main__":
    main()
