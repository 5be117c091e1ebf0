"""What it costs to do without Spark's internals: the same batches with them and without ([spark] internals).

    .venv/bin/python benchmarks/plain_ways.py [--records N] [--few N] [--rounds N]

Each way has a process of its own. Kafka and ingest are left out, as in tables.py: bronze is written first, a tick with
many records and one with few, and each round takes them into new tables. Shown are medians, and the first batch apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import show
from tables import TABLES, batches, write_tick

from lakehouse.lake.commit_metadata import VisibleCommit
from lakehouse.lake.place import TablePlace
from lakehouse.semantics.commit_number import Progress
from lakehouse.settings.config import load
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.transaction import append_empty_commit, new_table, open_epoch

COMMITS = 20
PARTS = ("many records", "few records", "a commit without rows")


def measure(folder: Path, internals: str, records: int, few: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each part, a figure for each round."""
    spark = open_session(load(environ={"LAKEHOUSE_SPARK_INTERNALS": internals}, start=folder))
    seconds: dict[str, list[float]] = {part: [] for part in PARTS}
    for number in range(rounds + 1):
        lake_folder = folder / f"lake-{internals}-{number}"
        ticks = batches(spark, folder / "bronze-only", lake_folder, len(TABLES), records + few)
        for part, (tick_seconds, _) in zip(PARTS, ticks, strict=False):
            seconds[part].append(tick_seconds)
        place = TablePlace(str(folder / f"table-{internals}-{number}"), "things")
        new_table(spark, place.path, "x bigint").execute()
        open_epoch(spark, place)
        start_seconds = time.monotonic()
        for tick in range(1, COMMITS + 1):
            append_empty_commit(spark, place, Progress(1, tick), VisibleCommit(from_tick=tick - 1, run="run", keys=0))
        seconds[PARTS[2]].append((time.monotonic() - start_seconds) / COMMITS)
    spark.stop()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "INTERNALS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        figures = measure(Path(chosen.measure[0]), chosen.measure[1], chosen.records, chosen.few, chosen.rounds)
        print(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as name:
        write_tick(Path(name) / "bronze-only", 1, 0, chosen.records)
        write_tick(Path(name) / "bronze-only", 2, chosen.records, chosen.few)
        seconds = {}
        for internals in ("true", "false"):
            numbers = [f"--{option}={getattr(chosen, option)}" for option in ("records", "few", "rounds")]
            command = [sys.executable, __file__, *numbers, "--measure", name, internals]
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            seconds[internals] = json.loads(output.strip().splitlines()[-1])
    rows = []
    for part in PARTS:
        (first, *others), (plain_first, *plain_others) = seconds["true"][part], seconds["false"][part]
        with_internals, plain = statistics.median(others), statistics.median(plain_others)
        figures = [f"{figure:.3f}" for figure in (first, with_internals, plain_first, plain)]
        rows.append([part, *figures, f"{plain / with_internals:.1f}"])
    show(
        f"{len(TABLES)} tables, {chosen.records:,} and {chosen.few:,} records: seconds, medians of {chosen.rounds}",
        ["part", "first", "with internals", "first, plain", "plain", "times"],
        rows,
    )


if __name__ == "__main__":
    main()
