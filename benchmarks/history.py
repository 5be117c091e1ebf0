"""What a table's history costs beside the table, and a read of one moment by each.

    .venv/bin/python benchmarks/history.py [--records N] [--few N] [--late N] [--rounds N]

As in tables.py, bronze is written first: a tick with many records, one with few, and one with few records whose event
times lie anywhere in those of the first. Each round takes the ticks into a new table, or a new history, in one process
that is warm. Shown are medians. A read asks for the rows at an event time in the middle: the table's are folded from
bronze by Spark, the history's are found by a condition, on Spark as well.
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
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import AtEvent
from lakehouse.settings.config import load
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.history import reading
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.silver.query import Silver

BEGIN = 1_700_000_000_000  # the Kafka timestamp of all records
PARTS = ("many", "few", "few late", "a moment")


def timed_events(many: int, few: int) -> lh.Stream:
    """The records at event times of their own, a millisecond apart; the last ones lie back among the first."""
    is_late = f"rowoffset >= {many + few}"
    place = f"CASE WHEN {is_late} THEN (rowoffset * 7919) % {many} ELSE rowoffset END"
    return events.with_columns(event_ms=f"rowtime + {place}").retime("event_ms")


def measure(spark: SparkSession, bronze: Path, folder: Path, table: Table, moment: int) -> tuple[list[float], int, int]:
    """Return the seconds of each part, the table's rows, and those at the moment."""
    shutil.copytree(bronze, folder)
    lake, seconds = open_lake(spark, Layout(str(folder))), []
    with Silver(lake, lh.app(table), lambda tick, records: None) as silver:
        for tick in (1, 2, 3):
            began = time.monotonic()
            silver.catch_up(tick)
            seconds.append(time.monotonic() - began)
    began = time.monotonic()
    if table.is_history:
        instant = f"timestamp_millis({moment})"
        rows = lake.read(lake.layout.silver(table.name))
        rows = rows.where(f"valid_from <= {instant} AND (valid_to > {instant} OR valid_to IS NULL)")
    else:
        rows = reading.read_rows(lake.open(table), AtEvent(moment))
    found = rows.count()
    seconds.append(time.monotonic() - began)
    count = lake.read(lake.layout.silver(table.name)).count()
    shutil.rmtree(folder)
    return seconds, count, found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--few", type=int, default=1_000)
    arguments.add_argument("--rounds", type=int, default=1)
    chosen = arguments.parse_args()
    stream = timed_events(chosen.records, chosen.few)
    tables = {
        "latest": stream.latest("latest"),
        "latest, order_by the event time": stream.latest("ordered", order_by="event_ms"),
        "count and sum": stream.group_by("id").agg(n=lh.count(), total=lh.sum("amount")).table("sums"),
    }
    moment = BEGIN + chosen.records // 2
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as name:
        folder = Path(name)
        for tick, first, count in (
            (1, 0, chosen.records), (2, chosen.records, chosen.few), (3, chosen.records + chosen.few, chosen.few),
        ):  # fmt: skip
            write_tick(folder / "bronze-only", tick, first, count)
        spark = open_session(load(environ={}, start=folder))
        lines = []
        for label, table in tables.items():
            medians = []
            for each in (table, table.history()):
                rounds = [measure(spark, folder / "bronze-only", folder / "lake", each, moment)
                          for _ in range(chosen.rounds + 1)][1:]  # fmt: skip
                medians.append(
                    [statistics.median(parts) for parts in zip(*(seconds for seconds, _, _ in rounds), strict=True)]
                )
                lines.append([label if each is table else "  its history", f"{rounds[0][1]:,}",
                              *(f"{seconds:.2f}" for seconds in medians[-1]), f"{rounds[0][2]:,}"])  # fmt: skip
            lines.append(["  of the table's", "", *(f"{b / a:.1f}" for a, b in zip(*medians, strict=True)), ""])
        spark.stop()
    show(
        f"{chosen.records:,} records, then {chosen.few:,} and {chosen.few:,} late: seconds, {chosen.rounds} rounds",
        ["table", "rows", *PARTS, "rows of the moment"],
        lines,
    )


if __name__ == "__main__":
    main()
