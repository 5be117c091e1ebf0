"""What a deployment costs beside the first build of the same tables, and how long a promotion takes.

    .venv/bin/python benchmarks/deployment.py [--records N] [--few N] [--rounds N]

Bronze is written first: a tick with many records. One with few comes after staging. Twelve tables stand in three
chains of four levels: rows of the topic, sums of these rows, sizes of the sums, and their spread. The new logic is in
the first level of one chain, which touches four tables, or of all three. Everything runs in one process that is warm.
Shown are medians of seconds:

    first build    the old logic takes in both ticks, into tables that do not exist
    stage          the new logic is built beside the live tables, and compared with them
    stage again    after the second tick
    promote        decided, and all tables swapped
    back           the old logic is built beside, compared and swapped
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from common import show
from pyspark.sql import SparkSession
from tables import events, write_tick

import lakehouse as lh
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.deploy.deployment import plan_deployment
from lakehouse.run.repair.carry_out import carry_out
from lakehouse.settings.config import load
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.silver.query import Silver

PARTS = ("first build", "stage", "stage again", "promote", "back")
CHAINS = 3


def application(changed: int, factor: int) -> App:
    """Return the twelve tables. changed: how many chains have the factor in their first level."""
    tables: list[Table] = []
    for chain in range(CHAINS):
        amount = f"amount * {factor if chain < changed else 1}"
        rows = events.select(amount=amount, part=f"abs(hash(id)) % {100 * (chain + 1)}").latest(f"rows_{chain}")
        sums = rows.group_by("part").agg(n=lh.count(), total=lh.sum("amount")).table(f"sums_{chain}")
        sizes = sums.group_by("n").agg(parts=lh.count(), total=lh.sum("total")).table(f"sizes_{chain}")
        spread = sizes.group_by("parts").agg(n=lh.count(), total=lh.sum("total")).table(f"spread_{chain}")
        tables += [rows, sums, sizes, spread]
    return lh.app(*tables)


def measure(spark: SparkSession, bronze: Path, folder: Path, changed: int, more: tuple[int, int, int]) -> list[float]:
    """Return the seconds of each part. more: the second tick, the number of its first record, and its records."""
    shutil.copytree(bronze, folder)
    lake, seconds = open_lake(spark, Layout(str(folder))), []
    old, new = application(changed, 1), application(changed, 3)

    def clock(began: float) -> float:
        seconds.append(time.monotonic() - began)
        return time.monotonic()

    def catch_up(app: App) -> None:
        with Silver(lake, app, lambda tick, records: None) as silver:
            silver.catch_up()

    began = time.monotonic()
    catch_up(old)
    began = clock(began)
    plan_deployment(lake, new, "next")
    clock(began)
    write_tick(folder, *more)
    catch_up(old)
    began = time.monotonic()
    plan = plan_deployment(lake, new, "next")
    began = clock(began)
    carry_out(lake, new, plan)
    began = clock(began)
    carry_out(lake, old, plan_deployment(lake, old, "back"))
    clock(began)
    shutil.rmtree(folder)
    return seconds


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=300_000)
    arguments.add_argument("--few", type=int, default=1_000)
    arguments.add_argument("--rounds", type=int, default=1)
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as name:
        folder = Path(name)
        write_tick(folder / "bronze-only", 1, 0, chosen.records)
        spark = open_session(load(environ={}, start=folder))
        lines = []
        for changed in (1, CHAINS):
            rounds = [
                measure(spark, folder / "bronze-only", folder / "lake", changed, (2, chosen.records, chosen.few))
                for _ in range(chosen.rounds + 1)
            ][1:]
            medians = [statistics.median(parts) for parts in zip(*rounds, strict=True)]
            lines.append([f"{4 * changed} of {4 * CHAINS}", *(f"{seconds:.1f}" for seconds in medians)])
        spark.stop()
    show(
        f"{chosen.records:,} records, then {chosen.few:,}: seconds, {chosen.rounds} rounds",
        ["tables touched", *PARTS],
        lines,
    )


if __name__ == "__main__":
    main()
