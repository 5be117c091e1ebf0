"""Reads of the past from the command line, without a JVM: seconds from Enter to the prompt, Python's start included.

    .venv/bin/python benchmarks/past.py [--runs N]

The lake is written here, by deltalake, with commits that say what those of lakehouse say: a small table, and a larger
one with a long log. A tick has one record, a version is one tick, and each version is a new file.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from common import show
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from lakehouse.lake.commit_metadata import (
    BronzeTick,
    CommitContent,
    CommitMetadata,
    CommitNumber,
    EventTimes,
    RecordCounts,
    TableCommit,
    TopicState,
    app_id,
    write_metadata,
)

SIZES = ((1_000, 20), (100_000, 300))
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
POSITION = pa.struct(
    [
        ("tick", pa.int64()), ("order_time", pa.int64()), ("topic", pa.string()), ("partition", pa.int32()),
        ("offset", pa.int64()), ("ordinals", pa.list_(pa.int64())),
    ]
)  # fmt: skip


def commit(name: str, content: CommitContent, tick: int) -> CommitProperties:
    text = write_metadata(CommitMetadata(content, CommitNumber(app_id(name), 1, tick, f"{tick}")))
    number = Transaction(app_id(name), (1 << 40) + tick)
    return CommitProperties(custom_metadata={"userMetadata": text}, app_transactions=[number])


def write(root: Path, name: str, rows: int, versions: int) -> None:
    """Write a table and its topic: tick t is version t, and sets one row."""
    bronze, silver = str(root / "bronze" / "records"), str(root / "silver" / name)
    Path(silver).mkdir(parents=True)
    settings = {"lakehouse.key": "k", "lakehouse.declaration": json.dumps({"version": 1, "stream": {"topic": name}})}
    keys = pa.array([f"key-{n}" for n in range(rows)])
    places = [{"tick": 1, "order_time": 0, "topic": name, "partition": 0, "offset": 0, "ordinals": []}] * rows
    table = pa.table({"k": keys, "n": pa.array(range(rows)), "_position": pa.array(places, POSITION)})
    DeltaTable.create(silver, table.schema, configuration=settings, raise_if_key_not_exists=False)
    for tick in range(1, versions + 1):
        at = BEGIN + timedelta(minutes=tick)
        record = {"topic": name, "topic_id": "id", "partition": 0, "offset": tick - 1, "timestamp": at, "tick": tick}
        record |= {"order_time": at, "key": b"key-0", "value": b'{"n": 1}'}
        topics = BronzeTick(topics={name: TopicState("id", {0: tick}, {0: tick})}, run="run")
        write_deltalake(
            bronze, pa.Table.from_pylist([record]), mode="append", partition_by=["topic"],
            commit_properties=commit("ingest", topics, tick),
        )  # fmt: skip
        place = [{**places[0], "tick": tick, "offset": tick - 1}, *places[1:]]
        table = table.set_column(1, "n", pa.array([tick, *range(1, rows)])).set_column(
            2, "_position", pa.array(place, POSITION)
        )
        ms = int(at.timestamp() * 1000)
        content = TableCommit(
            from_tick=tick - 1, run="run", keys=1, counts=RecordCounts(1), times=EventTimes(ms, ms, ms)
        )
        write_deltalake(silver, table, mode="overwrite", commit_properties=commit(name, content, tick))


def seconds(lake: Path, arguments: list[str], runs: int) -> list[float]:
    """How long a command line takes, `runs` times; the first one, which fills the caches, is left out."""
    code = "import sys; from lakehouse.cli.main import run; run()"
    taken = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", code, *arguments, "--lake", str(lake)], check=True, stdout=subprocess.DEVNULL
        )
        taken.append(time.perf_counter() - began)
    return taken[1:]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--runs", type=int, default=5)
    runs = arguments.parse_args().runs
    rows = []
    for size, versions in SIZES:
        with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as folder:
            lake, name, half = Path(folder), "counts", versions // 2
            write(lake, name, size, versions)
            committed = DeltaTable(str(lake / "silver" / name)).history()[half]["timestamp"]
            then = datetime.fromtimestamp(committed / 1000, UTC).isoformat()
            sql = f"SELECT count(*), sum(n) FROM {name}"
            commands = {
                "query": ["query", sql],
                "query --version": ["query", sql, "--version", str(half)],
                "query --tick": ["query", sql, "--tick", str(half)],
                "query --at (event time)": ["query", sql, "--at", (BEGIN + timedelta(minutes=half)).isoformat()],
                "query --at --clock commit": ["query", sql, "--at", then, "--clock", "commit"],
                "query --offsets": ["query", sql, "--offsets", f"{name}/0={half}"],
                "log --limit 5": ["log", name, "--limit", "5"],
                "diff tick:... now": ["diff", name, f"tick:{half}", "now"],
                "blame --tick": ["blame", name, "--key", "key-0", "--tick", str(half)],
                "bisect": ["bisect", name, f"max(n) FILTER (k = 'key-0') <= {half} OR count(*) = 0"],
            }
            for shown, words in commands.items():
                taken = seconds(lake, words, runs)
                rows.append([shown, f"{size:,}", str(versions), f"{statistics.median(taken):.2f}", f"{max(taken):.2f}"])
    show(f"commands, {runs} runs each", ["lakehouse ...", "rows", "versions", "median (s)", "largest (s)"], rows)


if __name__ == "__main__":
    main()
