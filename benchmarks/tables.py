"""What each further table of a topic costs: the same batches into one table, into two, and into four.

    .venv/bin/python benchmarks/tables.py [--records N] [--few N] [--rounds N]

Kafka and ingest are left out: bronze is written first, a tick with many records and one with few, and each round takes
them into new tables, in one process that is warm. Every second round each table decodes for itself, to compare. Shown
are medians, of the time and of the processors' time (of Python, Spark and its workers), which other work on the machine
changes little; the counts are checked.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from unittest.mock import patch

import psutil
import pyarrow as pa
from common import KEYS, PARTITIONS, TOPIC, show
from deltalake import CommitProperties, Transaction, write_deltalake
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.lake.commit_metadata import BronzeTick, CommitMetadata, CommitNumber, TopicState, app_id, write_metadata
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import INGEST
from lakehouse.settings.config import load
from lakehouse.spark.batch_cache import BatchCache
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.silver.query import Silver

events = lh.stream(TOPIC, key="id string", schema="kind string, amount bigint, at timestamp, place string, note string")
TABLES = (
    events.group_by("id").agg(n=lh.count(), last=lh.latest("note")).table("counts"),
    events.latest("latest"),
    events.group_by("id").agg(total=lh.sum("amount"), largest=lh.max("amount")).table("sums"),
    events.filter("amount > 10").group_by("kind").agg(n=lh.count(), total=lh.sum("amount")).table("kinds"),
)
FILES = 4


def value(number: int) -> bytes:
    """A JSON value of about 170 bytes."""
    place = {"place": f"place {number % 700}", "note": "a note of some length, as they are in real life, and a bit"}
    return json.dumps(
        {"kind": f"kind {number % 50}", "amount": number % 1000, "at": "2026-01-31T12:00:00Z", **place}
    ).encode()


def write_tick(root: Path, tick: int, first: int, count: int) -> None:
    """Write a tick as ingest leaves it. first: the number of its first record."""
    dice = random.Random(tick)
    now = pa.scalar(1_700_000_000_000_000, pa.timestamp("us", "UTC"))
    each = count // FILES
    for file in range(FILES):
        numbers = range(first + file * each, first + (file + 1) * each)
        columns = {
            "topic": [TOPIC] * each, "topic_id": ["id"] * each,
            "partition": pa.array([n % PARTITIONS for n in numbers], pa.int32()),
            "offset": pa.array(numbers, pa.int64()), "timestamp": [now] * each,
            "timestamp_type": pa.array([0] * each, pa.int32()),
            "headers": pa.nulls(each, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            "key": [f"k{dice.randrange(KEYS)}".encode() for _ in numbers], "value": [value(n) for n in numbers],
            "tick": pa.array([tick] * each, pa.int64()), "order_time": [now] * each,
        }  # fmt: skip
        last = file == FILES - 1
        ends = dict.fromkeys(range(PARTITIONS), first + count)
        content = BronzeTick(topics={TOPIC: TopicState("id", ends)}, run="run")
        text = write_metadata(CommitMetadata(content, CommitNumber(app_id(INGEST), 1, tick, f"{tick}")))
        commit = CommitProperties(
            custom_metadata={"userMetadata": text} if last else {},
            app_transactions=[Transaction(app_id(INGEST), (1 << 40) + tick)] if last else [],
        )
        rows = pa.table({name: pa.array(column) for name, column in columns.items()})
        path = str(root / "bronze" / "records")
        write_deltalake(path, rows, mode="append", partition_by=["topic"], commit_properties=commit)


def worked() -> float:
    """Return the seconds that processors have worked for this process and those that it started."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def batches(spark: SparkSession, bronze: Path, folder: Path, number: int, count: int) -> list[tuple[float, float]]:
    """Return the seconds of each tick into the first tables, and those that processors worked."""
    shutil.copytree(bronze, folder)
    lake, app, seconds = open_lake(spark, Layout(str(folder))), lh.app(*TABLES[:number]), []
    with Silver(lake, app, lambda tick, records: None) as silver:
        for tick in (1, 2):
            began, before = time.monotonic(), worked()
            silver.catch_up(tick)
            seconds.append((time.monotonic() - began, worked() - before))
    counted = lake.read(lake.open(TABLES[0]).visible.path).agg({"n": "sum"}).first()
    if counted is None or counted[0] != count:
        raise SystemExit(f"the counts add up to {counted}, expected {count}")
    shutil.rmtree(folder)
    return seconds


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--few", type=int, default=1_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--tables", type=int, nargs="+", default=[1, 2, 4])
    chosen = arguments.parse_args()
    numbers = sorted({1, *chosen.tables})
    seconds: dict[tuple[bool, int], list[list[tuple[float, float]]]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as name:
        folder = Path(name)
        write_tick(folder / "bronze-only", 1, 0, chosen.records)
        write_tick(folder / "bronze-only", 2, chosen.records, chosen.few)
        spark = open_session(load(environ={}, start=folder))

        def run(number: int) -> list[tuple[float, float]]:
            return batches(spark, folder / "bronze-only", folder / "lake", number, chosen.records + chosen.few)

        run(len(TABLES))
        for round_number, number in product(range(chosen.rounds), numbers):
            for once in (True, False) if round_number % 2 else (False, True):
                # The last argument makes a frame: uncached, each table calls it.
                uncached = patch.object(BatchCache, "make_once", lambda *arguments, **_: arguments[-1]())
                with nullcontext() if once else uncached:
                    seconds[once, number].append(run(number))
        spark.stop()
    for tick, kind in product((0, 1), (0, 1)):
        count, what = (chosen.records, chosen.few)[tick], ("seconds", "processors' seconds")[kind]
        median = {key: statistics.median(each[tick][kind] for each in times) for key, times in seconds.items()}
        show(
            f"{count:,} JSON records into tables of one topic: {what}, medians of {chosen.rounds} rounds",
            ["tables", "decoded once", "by each table", "a further table, of the first one's time: once", "each"],
            [
                [str(number), *(f"{median[once, number]:.2f}" for once in (True, False))]
                + [
                    "" if number == 1 else f"{(median[once, number] / median[once, 1] - 1) / (number - 1):.2f}"
                    for once in (True, False)
                ]
                for number in numbers
            ],
        )


if __name__ == "__main__":
    main()
