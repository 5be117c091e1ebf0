"""A folder of work whose commands keep their engine, each command a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster

TOPIC = "kept_orders"
APP = f"""
import lakehouse as lh
from helper import add

orders = lh.stream("{TOPIC}", key="id string", schema="customer string, amount bigint")
by_customer = orders.group_by("customer")
app = lh.app(
    orders.latest("latest"),
    by_customer.agg(n=lh.count(), amount=lh.sum("amount")).table("customers"),
    by_customer.agg(amount=lh.reduce("amount", add)).table("added"),
)
"""
HELPER = "def add(a, b):\n    return a + b\n"
# A session of a kept engine, as a command opens it, and code of the test that runs in it.
IN_SESSION = """
import json, os, sys
from lakehouse.settings.config import load
from lakehouse.spark.jvm.kept.choice import allow_keeping
from lakehouse.spark.jvm.session.session import open_session
allow_keeping(allowed=True)
spark = open_session(load())
{code}
print(json.dumps({{"java": spark._jvm.java.lang.ProcessHandle.current().pid(), "value": value}}))
"""
WAIT = "value = print('ready', flush=True); import time; time.sleep(120)"


@dataclass
class Desk:
    """A folder in which commands are given."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return self._start(["-P", "-m", "lakehouse.cli.main", *arguments], variables)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return finish(self.start(*arguments, **variables))

    def ask(self, code: str = "value = None", **variables: str) -> tuple[dict[str, Any], str]:
        """Run code in a session; return its value with the pid of Java, and its stderr."""
        done = finish(self.open_session(code, **variables))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1]), done.stderr

    def open_session(self, code: str, **variables: str) -> subprocess.Popen[str]:
        return self.start_code(IN_SESSION.format(code=code), **variables)

    def start_code(self, code: str, **variables: str) -> subprocess.Popen[str]:
        return self._start(["-c", code], variables)

    def start_under_another(self, code: str, **variables: str) -> subprocess.Popen[str]:
        """Start a process that runs code in two processes of its own, one after the other, and then waits."""
        runs = f"run([sys.executable, '-c', {code!r}])"
        return self._start(
            ["-c", f"import sys, time; from subprocess import run; {runs}; {runs}; time.sleep(120)"], variables
        )

    def engines(self) -> list[dict[str, Any]]:
        return list(json.loads(self.run("spark", "status", "--json").stdout))

    def private_files(self) -> list[Path]:
        return sorted((self.folder / "private/lakehouse").glob("*"))

    def _start(self, arguments: list[str], variables: dict[str, str]) -> subprocess.Popen[str]:
        environ = {name: text for name, text in os.environ.items() if not name.startswith("LAKEHOUSE_")}
        if jars := os.environ.get("LAKEHOUSE_JARS"):
            environ["LAKEHOUSE_JARS"] = jars
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=self.folder, env=environ | self.variables | variables, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=240)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def has_ended(pid: int, patience_seconds: float = 20.0) -> bool:
    try:
        psutil.Process(pid).wait(patience_seconds)
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return False
    return True


@pytest.fixture
def desk() -> Iterator[Desk]:
    """A folder with engines of its own; they end with the test, and no process is left."""
    folder = Path(tempfile.mkdtemp(prefix="kept-"))
    (folder / "private").mkdir(mode=0o700)
    options = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"}
    desk = Desk(
        folder,
        {
            "XDG_RUNTIME_DIR": str(folder / "private"),
            "LAKEHOUSE_SPARK_KEEP": "2 minutes",
            "LAKEHOUSE_SPARK_OPTIONS": json.dumps(options),
        },
    )
    try:
        yield desk
    finally:
        engines = desk.engines()
        desk.run("spark", "stop")
        assert all(has_ended(engine[name]) for engine in engines for name in ("pid", "keeper"))
        shutil.rmtree(folder)


@pytest.fixture
def shop(desk: Desk, broker: Broker) -> Desk:
    """The folder with an application over an empty topic."""
    (desk.folder / "app.py").write_text(APP)
    (desk.folder / "helper.py").write_text(HELPER)
    cluster = Cluster(broker.bootstrap_servers)
    if TOPIC in cluster.names():
        cluster.delete(TOPIC)
    cluster.create(TOPIC, partitions=2)
    desk.variables |= {"LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "LAKEHOUSE_LAKE_APP": "app.py"}
    return desk


def send(broker: Broker, first: int, last: int) -> None:
    records = (
        ProducerRecord(
            f"k{number % 50}".encode(), json.dumps({"customer": f"c{number % 7}", "amount": number}).encode()
        )
        for number in range(first, last)
    )
    produce(broker.bootstrap_servers, {}, TOPIC, records)
