"""The forms that a position's ordinals could have: what each costs a fold of `latest`, a fold in Python, and a file.

    .venv/bin/python benchmarks/ordinals.py [--rows 1000000] [--rounds 5] [--work latest,stored]

    bigint    one number, which runs out after three levels of 20 bits
    array     array<bigint>, a number a level
    binary    eight bytes a level, big-endian: it sorts bytewise

The rows are records as they came, so paths are empty, as almost all are in real life. The forms take turns; medians of
the processor time of the JVM, which does not depend on what else the machine does (in Python: of the time that passed).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from common import show
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.settings.config import load
from lakehouse.spark.jvm.session.session import open_session

FORMS = {
    "bigint": "CAST(0 AS bigint)",
    "array": "CAST(array() AS array<bigint>)",
    "binary": "CAST('' AS binary)",
}
KEYS = 100_000


def position(form: str) -> Column:
    """The position of a row of bronze."""
    return F.struct("tick", "order_time", "topic", "partition", "offset", F.expr(FORMS[form]).alias("ordinals"))


def records(spark: SparkSession, rows: int) -> DataFrame:
    """Rows of bronze, decoded already."""
    number = F.col("id")
    return spark.range(rows).select(
        F.format_string("k%09d", F.pmod(F.xxhash64(number), F.lit(KEYS))).alias("key"),
        number.alias("amount"),
        F.lit("a note of some length, as they are in real life").alias("note"),
        (number / 100_000).cast("bigint").alias("tick"),
        (number + 1_700_000_000_000).alias("order_time"),
        F.lit("events").alias("topic"),
        (number % 4).cast("int").alias("partition"),
        number.alias("offset"),
    )


def latest(rows: DataFrame, folder: str) -> None:
    """The fold of `latest`, to a table."""
    last = F.max_by(F.struct("amount", "note", "_position"), F.col("_position")).alias("_last")
    folded = rows.groupBy("key").agg(last).select("key", "_last.*")
    folded.coalesce(1).write.format("delta").mode("overwrite").save(folder)


def in_python(rows: DataFrame, folder: str) -> None:
    """The way of a tenth of the records through Python, as the keyed fold reads them."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            most = max(tuple(row["_position"].values()) for row in batch.to_pylist())
            yield pa.RecordBatch.from_pylist([{"offset": most[4]}])

    kept = rows.where("offset % 10 = 0").select("key", "amount", "_position")
    kept.mapInArrow(run, "offset bigint").write.format("noop").mode("overwrite").save()


def stored(rows: DataFrame, folder: str) -> None:
    """A table of all records."""
    rows.select("key", "amount", "note", "_position").coalesce(1).write.format("delta").mode("overwrite").save(folder)


WORK: dict[str, Callable[[DataFrame, str], None]] = {"latest": latest, "in Python": in_python, "stored": stored}


def now(spark: SparkSession, work: str) -> float:
    """The clock of a work, in seconds."""
    if work == "in Python":
        return time.monotonic()
    system = spark._jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean()  # type: ignore[union-attr]
    return float(system.getProcessCpuTime()) / 1e9


def measured(spark: SparkSession, names: list[str], rows: int, rounds: int, folder: Path) -> list[list[str]]:
    """Return a row of the table for each work and form."""
    source = str(folder / "source")
    records(spark, rows).coalesce(4).write.parquet(source)
    shown = []
    for name in names:
        work = WORK[name]
        seconds: dict[str, list[float]] = {form: [] for form in FORMS}
        for number in range(rounds + 1):
            for form in FORMS:
                began = now(spark, name)
                work(spark.read.parquet(source).withColumn("_position", position(form)), str(folder / name / form))
                seconds[form] += [now(spark, name) - began] if number else []  # the first round is left out
        least = statistics.median(seconds["bigint"])
        for form, taken in seconds.items():
            bytes_last = max((path.stat().st_size for path in (folder / name / form).glob("*.parquet")), default=0)
            median = statistics.median(taken)
            figures = [f"{median:.2f}", f"{median / least:.2f}", " ".join(f"{s:.2f}" for s in taken)]
            shown.append([f"{name}, {form}", *figures, f"{bytes_last:,}"])
            print(*shown[-1], flush=True)
    return shown


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=5, help="measured of each; one more goes before")
    arguments.add_argument("--work", default=",".join(WORK), help="of " + ", ".join(WORK))
    chosen = arguments.parse_args()
    spark = open_session(load())
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-", ignore_cleanup_errors=True) as folder:
        shown = measured(spark, chosen.work.split(","), chosen.rows, chosen.rounds, Path(folder))
    show(f"{chosen.rows:,} records", ["work", "median s", "to bigint", "seconds", "largest file"], shown)
    spark.stop()


if __name__ == "__main__":
    main()
