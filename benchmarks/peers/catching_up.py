"""Each peer catches up with the topic in a process of its own, cold; what it made is checked.

Seconds count from the command to the last commit; "after start" from the moment when Spark is up, or the peer's main
function begins. Memory is the largest resident set of the peer's processes; the broker is not among them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from common import resident
from confluent_kafka import Consumer, KafkaError, TopicPartition
from deltalake import DeltaTable
from work import PARTITIONS, TOPIC, Records, Work

from lakehouse.setup.places import jars_folder

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
QUIX = "quixstreams==3.28.1"
Measured = dict[str, float]
Peer = Callable[[Work, Records], Measured]


class PeerFailed(Exception):
    """A peer ended with an error, or made a wrong table."""


def watched(command: list[str], environ: Mapping[str, str] | None = None) -> tuple[str, float, float]:
    """Run a program; return what it printed, when it was started, and its largest memory in GB.

    environ: variables beside those of this process. Raises PeerFailed with the end of what it complained.
    """
    started, largest, done = time.time(), 0.0, threading.Event()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environ or {})}
    )

    def watch() -> None:
        nonlocal largest
        while not done.wait(0.2):
            try:
                largest = max(largest, resident(psutil.Process(process.pid)))
            except psutil.NoSuchProcess:
                continue

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


def check(name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise PeerFailed unless a peer's table is right: rows, records and, if it keeps them, the sum of last amounts."""
    if found != expected:
        raise PeerFailed(f"{name}: rows, records and the sum of last amounts are {found}, expected {expected}")


def delta(script: str, *flags: str) -> Peer:
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


class KafkaStreams:
    """Kafka Streams, exactly once, two threads: the count alone. Its jars are fetched, its programs compiled, once."""

    def __init__(self, folder: Path) -> None:
        broker = f"{jars_folder('kafka')}/*"
        (ivy,) = (PROJECT / ".venv").glob("lib/python3*/site-packages/pyspark/jars/ivy-*.jar")
        fetch = ["java", f"-Dlakehouse.ivy.cache={folder / 'ivy'}", "-jar", str(ivy)]
        fetch += ["-settings", str(PROJECT / "lakehouse/setup/ivysettings.xml"), "-ivy", str(HERE / "ivy.xml")]
        fetch += ["-confs", "streams", "-retrieve", f"{folder}/jars/[artifact]-[revision].[ext]"]
        subprocess.run(fetch, check=True, capture_output=True)
        self.path = f"{folder}/classes:{folder}/jars/*:{broker}"
        sources = map(str, HERE.glob("*.java"))
        subprocess.run(
            ["javac", "-cp", self.path, "-d", f"{folder}/classes", *sources], check=True, capture_output=True
        )

    def __call__(self, work: Work, records: Records) -> Measured:
        settings = [f"-Xmx{work.memory}", f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"]
        told = [work.servers, TOPIC, f"{work.folder}/state", str(work.records), Path(work.folder).name]
        printed, started, memory = watched(["java", *settings, "-cp", self.path, "CountByKey", *told])
        found = json.loads(printed.splitlines()[-1])
        check("Kafka Streams", (found["rows"], found["sum"]), (records.rows, work.records))
        done = found["done"] / 1000
        return {"seconds": done - started, "after start": done - found["began"] / 1000, "memory": memory}


class QuixStreams:
    """Quix Streams, exactly once, two processes: the count alone. Installed once, into an environment of its own."""

    def __init__(self, folder: Path) -> None:
        home = folder / "quix"
        self._python = str(home / "bin" / "python")
        if not (home / QUIX).exists():
            venv.create(home, with_pip=True, clear=True)
            install = [self._python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", QUIX]
            subprocess.run(install, check=True, capture_output=True)
            (home / QUIX).touch()

    def __call__(self, work: Work, records: Records) -> Measured:
        group = Path(work.folder).name
        told = [work.servers, TOPIC, f"{work.folder}/state", str(work.records), group]
        printed, started, memory = watched([self._python, str(HERE / "quix.py"), *told])
        found = json.loads(printed.splitlines()[-1])
        counts = last_values(work.servers, f"changelog__{group}--{TOPIC}--default")
        check("Quix Streams", (len(counts), sum(counts.values())), (records.rows, work.records))
        done = found["done"] / 1000
        return {"seconds": done - started, "after start": done - found["began"] / 1000, "memory": memory}


def last_values(servers: str, topic: str) -> dict[bytes, int]:
    """The last number of each key in a changelog topic, with what was committed alone."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "check", "enable.partition.eof": True})
    parts = [TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)]
    consumer.assign(parts)
    found: dict[bytes, int] = {}
    ended = 0
    while ended < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is None:
                found[message.key()] = json.loads(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise PeerFailed(f"{topic}: {message.error()}")
    consumer.close()
    return found


def peer(name: str, folder: Path) -> Peer:
    """Make a peer ready. folder: where what it needs stays for the next time. Raises PeerFailed."""
    makes: dict[str, Callable[[], Peer]] = {
        "lakehouse": lambda: delta("ours.py"),
        "recipe": lambda: delta("recipe.py"),
        "recipe, tuned": lambda: delta("recipe.py", "--tuned"),
        "Kafka Streams": lambda: KafkaStreams(folder),
        "Quix Streams": lambda: QuixStreams(folder),
        "delta-rs": lambda: delta("delta_rs.py"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return makes[name]()
    except subprocess.CalledProcessError as failed:
        raise PeerFailed(f"{name} could not be set up: {failed.stderr.decode()[-1000:]}") from failed
