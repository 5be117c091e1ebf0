"""A lake on s3a://, by the command: what a run writes, a restart, and a writer that is overtaken."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import deltalake
import pytest

from lakehouse.kafka.embedded.broker import Broker
from tests.s3.server import SECRET, ObjectStore

pytestmark = pytest.mark.slow

APP = """
import lakehouse as lh

orders = lh.stream({topic!r}, key="id string", schema="customer string, amount decimal(10, 2)", name="orders")
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
app = lh.app(orders.latest("last_order"), totals)
"""
SECONDS = 300
# Commands that read without Spark: those whose answers are the same in both lakes; and those that may tell ticks,
# versions and times, which differ: they must find what they read.
SAME = (
    "query 'SELECT * FROM totals ORDER BY customer'",
    "query 'SELECT topic, partition, count(*) AS n FROM bronze.\"{topic}\" GROUP BY ALL ORDER BY ALL'",
    "plan",
    "look quarantine orders",
)
OTHERS = (
    "query 'SELECT * FROM totals' --tick 1", "status", "look tables", "look describe totals", "past log totals",
    "past changes totals", "past explain totals --key c1", "past blame totals --key c2", "test check",
)  # fmt: skip


class Project:
    """A folder with an application, and the settings of a lake on the object store and of one beside them."""

    def __init__(self, folder: Path, broker: Broker, store: ObjectStore) -> None:
        self.folder, self.store, self.uri = folder, store, store.new_lake()
        self.topic = f"orders-{uuid.uuid4().hex[:8]}"
        (folder / "app.py").write_text(APP.format(topic=self.topic))
        kafka = f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n[spark]\nmemory = "1g"\n'
        s3_lake = f'[lake]\npath = "{self.uri}"\napp = "app.py"\noptions = {store.options()}\n'
        (folder / "lakehouse.toml").write_text(s3_lake + kafka)
        (folder / "local.toml").write_text('[lake]\npath = "./lake"\napp = "app.py"\n' + kafka)

    def be_the_single_writer(self) -> None:
        """Say in the settings that nobody else writes to the lake, so that no leases are taken."""
        settings = (self.folder / "lakehouse.toml").read_text()
        (self.folder / "lakehouse.toml").write_text(settings.replace("[lake]\n", "[lake]\nsingle_writer = true\n"))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lakehouse.cli.main", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        process = self.start(*arguments)
        output = process.communicate(timeout=SECONDS)[0]
        assert process.returncode == code, output
        assert SECRET not in output
        return output

    def produce(self, first: int, count: int) -> None:
        numbers = range(first, first + count)
        lines = [f'{n}\t{{"customer": "c{n % 3}", "amount": {n}.5}}\n' for n in numbers]
        (self.folder / "orders.tsv").write_text("".join(lines))
        self.run("kafka", "produce", self.topic, "orders.tsv", "--partitions", "2")

    def read(self, line: str) -> str:
        in_json = () if line.startswith("test check") else ("--json",)  # that one always is
        return self.run(*shlex.split(line.format(topic=self.topic)), *in_json)

    def rows(self, table: str, *, local: bool = False) -> list[tuple[object, ...]]:
        root = self.folder / "lake" if local else self.store.files(self.uri)
        rows = deltalake.DeltaTable(str(root / "silver" / table)).to_pyarrow_table().to_pylist()
        return sorted(tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows)


@pytest.fixture
def project(tmp_path: Path, broker: Broker, object_store: ObjectStore) -> Project:
    return Project(tmp_path, broker, object_store)


def test_a_run_and_a_restart_after_a_kill_give_the_tables_of_a_local_lake(project: Project) -> None:
    project.produce(0, 40)
    project.run("run", "--until", "caught-up")
    project.produce(40, 400)
    killed = project.start("run")
    _await(lambda: len(list(project.store.files(project.uri).glob("bronze/records/_delta_log/0*.json"))) > 4)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    project.run("run", "--until", "caught-up")
    project.run("run", "--until", "caught-up", "--config", "local.toml")
    for table in ("totals", "last_order"):
        assert project.rows(table) == project.rows(table, local=True)
    assert sum(row[1] for row in project.rows("totals")) == 440
    for line in SAME:
        assert project.read(line) == project.read(f"{line} --config local.toml"), line
    for line in OTHERS:
        assert project.read(line), line
    texts = [path for path in project.folder.rglob("*") if path.is_file() and path.suffix != ".toml"]
    assert not [path for path in texts if SECRET.encode() in path.read_bytes()]


def test_of_two_ingests_without_leases_the_newer_one_goes_on(project: Project) -> None:
    """As if the older one's session had expired: only the epochs of bronze stand between the two."""
    project.be_the_single_writer()
    project.produce(0, 10)
    project.run("run", "--until", "caught-up")
    older = project.start("run", "--only", "ingest")
    log = project.store.files(project.uri) / "bronze/records/_delta_log"
    epochs = len(_epochs(log))
    _await(lambda: len(_epochs(log)) > epochs)
    newer = project.start("run", "--only", "ingest")
    _await(lambda: len(_epochs(log)) > epochs + 1)
    project.produce(10, 10)
    try:
        output = older.communicate(timeout=SECONDS)[0]
        assert older.returncode != 0
        assert "Another writer has taken it over" in output
        assert newer.poll() is None
    finally:
        newer.send_signal(signal.SIGTERM)
        assert newer.wait(SECONDS) == 0
    project.run("run", "--until", "caught-up")
    assert sum(row[1] for row in project.rows("totals")) == 20


def test_a_second_run_is_refused_and_a_repair_is_carried_out_by_the_running_job(project: Project) -> None:
    project.produce(0, 10)
    project.run("run", "--until", "caught-up")
    job = project.start("run")
    try:
        _await(lambda: len(list(project.store.files(project.uri).glob("control/leases/*/*.json"))) > 3)
        _await(lambda: _is_held(project, "silver-totals") and _is_held(project, "ingest"))
        refusal = project.run("run", "--until", "caught-up", code=3)
        assert "bronze is being written by another process: " in refusal
        assert f"process {job.pid} on " in refusal
        project.produce(10, 10)
        _await(lambda: sum(row[1] for row in project.rows("totals")) == 20)
        reverted = project.run("repair", "revert", "totals", "--tick", "1", "--why", "a trial")
        assert "totals" in reverted
        _await(lambda: sum(row[1] for row in project.rows("totals")) == 10)
        assert job.poll() is None, "the job goes on"
        assert not list(project.store.files(project.uri).glob("control/requests/*"))
    finally:
        job.send_signal(signal.SIGTERM)
        output = job.communicate(timeout=SECONDS)[0]
    assert job.returncode == 0, output
    assert not list(project.store.files(project.uri).glob("control/sessions/*"))
    # Upkeep knows at the next start when it ran last.
    assert list(project.store.files(project.uri).glob("control/upkeep/*.json"))


def test_a_killed_function_goes_on_with_the_record_after_its_note(project: Project) -> None:
    calls = project.folder / "calls.txt"
    (project.folder / "app.py").write_text(
        APP.format(topic=project.topic)
        + f"""
import os, signal
from pathlib import Path

def tell(record):
    with open({str(calls)!r}, "a") as file:
        file.write(record.id + "\\n")
    if Path({str(calls)!r}).read_text().count("\\n") == 5:
        os.kill(os.getpid(), signal.SIGKILL)

app = lh.app(totals, orders.to_function("teller", tell))
"""
    )
    project.produce(0, 12)
    project.run("run", "--until", "caught-up", code=-signal.SIGKILL)
    project.run("run", "--until", "caught-up")
    told = calls.read_text().split()
    assert len(told) == 13
    assert len(set(told)) == 12
    assert told[4] == told[5], "the call that was cut off is made again, with the same id"


def _is_held(project: Project, lease: str) -> bool:
    numbers = sorted(project.store.files(project.uri).glob(f"control/leases/{lease}.lock/*.json"))
    return bool(numbers) and numbers[-1].read_text() != "{}"


def _epochs(log: Path) -> list[str]:
    return [path.name for path in log.glob("0*.json") if "open epoch" in path.read_text()]


def _await(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.2)
    raise AssertionError("waited in vain")
