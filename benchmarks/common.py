"""What the benchmarks share: the application, its records, a lake and a broker of their own, and the printed table."""

from __future__ import annotations

import json
import os
import platform
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

import lakehouse as lh
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.kafka.topics import Cluster
from lakehouse.settings.config import Settings, load

TOPIC = "events"
PARTITIONS = 4
KEYS = 100_000
# Before the benchmark itself works: figures from a machine that was busy say little.
LOAD = os.getloadavg()[0]

events = lh.stream(TOPIC, key="id string", schema="kind string, amount bigint, note string")
app = lh.app(events.latest("latest"), events.group_by("id").agg(n=lh.count()).table("counts"))


def record(number: int, dice: random.Random, timestamp_ms: int | None = None) -> ProducerRecord:
    """A JSON record of about 90 bytes, with one of 100,000 keys."""
    key = f"k{dice.randrange(KEYS)}"
    value = f'{{"kind":"click","amount":{number},"note":"a note of some length, as they are in real life"}}'
    return ProducerRecord(key.encode(), value.encode(), timestamp_ms)


@contextmanager
def lake_and_broker() -> Iterator[tuple[Settings, Broker]]:
    """A new lake and a new broker with the topic, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-benchmark-"))
    try:
        with Broker(folder / "kafka") as broker:
            Cluster(broker.bootstrap_servers).create(TOPIC, PARTITIONS)
            environ = {
                "LAKEHOUSE_LAKE_PATH": str(folder / "lake"),
                "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            }
            yield load(environ=environ, start=folder), broker
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def machine() -> str:
    """The machine in one line, with the load that it had before the benchmark."""
    memory = psutil.virtual_memory().total / 2**30
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {system}, load before {LOAD:.1f}"


def resident(process: psutil.Process) -> float:
    """The resident sets of a process and its children in GB, a broker's left out."""
    total = 0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # a child that has just ended, or waits for its parent to notice
            total += one.memory_info().rss if "kafka.Kafka" not in one.cmdline() else 0
    return total / 1e9


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a small table, and the machine under it; as a JSON line also to the file that LAKEHOUSE_BENCHMARK_JSON
    names, for `peers/run.py`."""
    if file := os.environ.get("LAKEHOUSE_BENCHMARK_JSON"):
        with Path(file).open("a") as lines:
            lines.write(json.dumps({"title": title, "columns": columns, "rows": rows, "load": LOAD}) + "\n")
    table = Table(title=title, caption=machine())
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
