"""lakehouse beside what people would pick instead: the same broker, records, cores and memory, each in turn.

    .venv/bin/python benchmarks/peers/run.py [--records N] [--rounds N] [--peers NAME ...] [--json FILE]

Every peer catches up with the topic from its beginning, in a process of its own, cold, once a round. What it made is
checked. Seconds count from the command to the last commit; "after start" from the moment when Spark is up, or Kafka
Streams' main method begins. Memory is the largest resident set of the peer's processes; the broker is not among them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import psutil
from deltalake import DeltaTable

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from common import show  # noqa: E402
from work import PARTITIONS, TOPIC, Records, Work  # noqa: E402

from lakehouse.kafka.broker import Broker  # noqa: E402
from lakehouse.kafka.produce import produce  # noqa: E402
from lakehouse.kafka.topics import Cluster  # noqa: E402
from lakehouse.setup.places import jars_folder  # noqa: E402

PROJECT = HERE.parent.parent
MEMORY = "2g"
Measured = dict[str, float]


class PeerFailed(Exception):
    """A peer ended with an error, or made a wrong table."""


def watched(command: list[str]) -> tuple[str, float, float]:
    """Run a program; return what it printed, when it was started, and its largest memory in GB."""
    started, largest, done = time.time(), 0.0, threading.Event()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def watch() -> None:
        nonlocal largest
        while not done.wait(0.2):
            try:
                me = psutil.Process(process.pid)
                each = [one.memory_info().rss for one in (me, *me.children(recursive=True))]
            except psutil.NoSuchProcess:
                continue
            largest = max(largest, sum(each) / 1e9)

    watching = threading.Thread(target=watch)
    watching.start()
    printed, complained = process.communicate()
    done.set()
    watching.join()
    if process.returncode:
        raise PeerFailed(f"{' '.join(command)[:200]} ended with {process.returncode}:\n{complained[-2000:]}")
    return printed, started, largest


def committed(table: Path) -> tuple[float, float]:
    """Return when a Delta table's first rows and its last commit became readable, in seconds since 1970."""
    log = sorted((table / "_delta_log").glob("*.json"))
    first = next(file for file in log if '"add":' in file.read_text())
    return first.stat().st_mtime, log[-1].stat().st_mtime


def delta(script: str, *flags: str) -> Callable[[Work, Records], Measured]:
    """Return the measurement of a peer whose program writes a bronze and a silver Delta table."""

    def measured(work: Work, records: Records) -> Measured:
        printed, started, memory = watched([sys.executable, str(HERE / script), work.text(), *flags])
        told = json.loads(printed.splitlines()[-1])
        columns = DeltaTable(str(work.silver)).to_pyarrow_table(columns=["n", "amount"]).to_pandas()
        found = (len(columns), int(columns["n"].sum()), int(columns["amount"].sum()))
        check(script, found, (records.rows, work.records, records.last_amounts))
        ready = told["ready"] / 1000
        (first_bronze, bronze), (first_silver, silver) = committed(work.bronze), committed(work.silver)
        return {
            "seconds": silver - started, "after start": silver - ready, "bronze": bronze - ready,
            "silver": silver - bronze, "first bronze": first_bronze - started, "first silver": first_silver - started,
            "memory": memory,
        }  # fmt: skip

    return measured


def check(name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise PeerFailed(f"{name}: rows, records and the sum of last amounts are {found}, expected {expected}")


class KafkaStreams:
    """Kafka Streams, exactly once, two threads: the count alone. Its jars are fetched, its program compiled, once."""

    def __init__(self, folder: Path) -> None:
        broker = f"{jars_folder('kafka')}/*"
        (ivy,) = (PROJECT / ".venv").glob("lib/python3*/site-packages/pyspark/jars/ivy-*.jar")
        fetch = ["java", f"-Dlakehouse.ivy.cache={folder / 'ivy'}", "-jar", str(ivy)]
        fetch += ["-settings", str(PROJECT / "lakehouse/setup/ivysettings.xml"), "-ivy", str(HERE / "ivy.xml")]
        fetch += ["-confs", "streams", "-retrieve", f"{folder}/jars/[artifact]-[revision].[ext]"]
        subprocess.run(fetch, check=True, capture_output=True)
        self._path = f"{folder}/classes:{folder}/jars/*:{broker}"
        source = str(HERE / "CountByKey.java")
        subprocess.run(["javac", "-cp", self._path, "-d", f"{folder}/classes", source], check=True, capture_output=True)

    def __call__(self, work: Work, records: Records) -> Measured:
        settings = [f"-Xmx{work.memory}", f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"]
        told = [work.servers, TOPIC, f"{work.folder}/state", str(work.records), Path(work.folder).name]
        printed, started, memory = watched(["java", *settings, "-cp", self._path, "CountByKey", *told])
        found = json.loads(printed.splitlines()[-1])
        check("Kafka Streams", (found["rows"], found["sum"]), (records.rows, work.records))
        done = found["done"] / 1000
        return {"seconds": done - started, "after start": done - found["began"] / 1000, "memory": memory}


PEERS = ("lakehouse", "recipe", "recipe, tuned", "Kafka Streams")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    arguments.add_argument("--json", type=Path, help="where every round's figures go")
    chosen = arguments.parse_args()
    found: dict[str, list[Measured]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="lakehouse-peers-") as name, Broker(Path(name, "kafka")) as broker:
        measures: dict[str, Callable[[Work, Records], Measured]] = {
            "lakehouse": delta("ours.py"), "recipe": delta("recipe.py"), "recipe, tuned": delta("recipe.py", "--tuned"),
        }  # fmt: skip
        if "Kafka Streams" in chosen.peers:
            measures["Kafka Streams"] = KafkaStreams(Path(name))
        records = Records(chosen.records)
        Cluster(broker.bootstrap_servers).create(TOPIC, PARTITIONS)
        produce(broker.bootstrap_servers, {}, TOPIC, records)
        for number in range(chosen.rounds):
            for peer in chosen.peers if number % 2 == 0 else reversed(chosen.peers):
                with tempfile.TemporaryDirectory(prefix="peer-", dir=name) as folder:
                    work = Work(broker.bootstrap_servers, folder, chosen.records, MEMORY)
                    found[peer].append(measures[peer](work, records))
    if chosen.json:
        chosen.json.write_text(json.dumps({"records": chosen.records, "rounds": found}, indent=1) + "\n")
    median = {
        peer: {part: statistics.median(each[part] for each in rounds) for part in rounds[0]}
        for peer, rounds in found.items()
    }
    parts = ("seconds", "after start", "bronze", "silver", "first bronze", "first silver", "memory")
    title = f"catch-up of {chosen.records:,} records: medians of {chosen.rounds} rounds, seconds, memory in GB"
    rows = [[peer, *(f"{of[part]:.1f}" if part in of else "" for part in parts)] for peer, of in median.items()]
    show(title, ["peer", *parts], rows)


if __name__ == "__main__":
    main()
