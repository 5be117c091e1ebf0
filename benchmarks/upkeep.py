"""Upkeep and a drill of a table of a million rows (counts by key).

    .venv/bin/python benchmarks/upkeep.py [--rows N] [--growth N] [--drill]

The table is filled, then grows by batches of 1,000 new keys, each of which leaves small files behind. Batches that
touch 1,000 neighbouring keys are measured before and after upkeep, and upkeep itself: the first one, which lays the
table out again and copies it as an anchor, and one that finds nothing to do. --drill: then a drill of the table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from common import show
from operators import FAMILIES, RECORDS, Filled
from pyspark.sql import functions as F

from lakehouse.run.drill.drill import drill
from lakehouse.settings.config import Upkeep, load
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.silver.upkeep import read_policy, upkeep_table

BATCHES = 5


class Growing(Filled):
    """A table that gets new keys."""

    def grow(self, count: int) -> Iterator[float]:
        """Send batches of new keys; yield the seconds that the table needed for each."""
        with self._silver() as silver:
            for _ in range(count):
                number = self._spark.range(self._sent, self._sent + RECORDS).select(
                    F.col("id").alias("number"),
                    F.col("id").alias("key"),
                    F.lit(0).alias("hour"),
                    F.lit(0).alias("after"),
                )
                self._append(number, self._sent + RECORDS)
                began = time.monotonic()
                silver.catch_up()
                yield time.monotonic() - began


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--growth", type=int, default=40, help="batches of new keys")
    arguments.add_argument("--drill", action="store_true")
    chosen = arguments.parse_args()
    spark, shown = open_session(load()), []
    table = FAMILIES["count"]
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-", ignore_cleanup_errors=True) as folder:
        lake = Growing(spark, Path(folder), "count", chosen.rows)
        lake.fill()

        def kept_up(every: str) -> None:
            began = time.monotonic()
            wanted = read_policy(Upkeep(anchors_every=every))
            (done, *_) = upkeep_table(open_lake(spark, lake._layout).open(table), wanted, datetime.now(UTC))
            seconds = time.monotonic() - began
            said = f"{done.files_before} -> {done.files_after} files, anchor: {'yes' if done.anchor else 'no'}"
            shown.append(["upkeep", f"{seconds:.2f}", said])

        def batches(what: str) -> None:
            seconds = list(lake.batches("local", BATCHES + 1))[1:]
            shown.append([what, f"{statistics.median(seconds):.2f}", f"largest {max(seconds):.2f}"])

        batches("a batch, neighbouring keys")
        grown = list(lake.grow(chosen.growth))
        last = ", ".join(f"{one:.2f}" for one in grown[-3:])
        shown.append(["a batch of new keys", f"{statistics.median(grown):.2f}", f"last three {last}"])
        batches("a batch, neighbouring keys")
        kept_up("1 second")
        batches("a batch, neighbouring keys")
        kept_up("1 day")
        show(f"{chosen.rows:,} rows, batches of {RECORDS:,} records", ["what", "seconds", "said"], shown)
        if chosen.drill:
            done = drill(open_lake(spark, lake._layout).open(table), listen=lambda case: print(case, flush=True))
            rows = [
                [case.damage, f"{case.found_seconds:.1f}", one.way, f"{one.seconds:.1f}", str(one.rows), str(one.equal)]
                for case in done.cases
                for one in case.restored
            ]
            show(f"a drill: {done.seconds} s, ok: {done.ok}", ["damage", "found", "way", "s", "rows", "equal"], rows)
            print(json.dumps({"ok": done.ok, "seconds": done.seconds}))
    spark.stop()


if __name__ == "__main__":
    main()
