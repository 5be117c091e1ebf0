"""A real Spark cluster: the tables of a local run, whatever its executors' Python lacks, and though one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lakehouse.kafka.embedded.broker import Broker
from lakehouse.setup.places import jars_folder
from tests.cluster.conftest import NEEDED, Cluster, make_python, running_cluster
from tests.s3.server import ObjectStore
from tests.seeds import draw

pytestmark = pytest.mark.slow

APP = """
import lakehouse as lh
from rules import largest

readings = lh.stream({topic!r}, key="sensor string", schema="room string, celsius bigint, at timestamp",
                     event_time="at", name="readings")
rooms = readings.latest("rooms")
names = lh.stream({topic!r} + "-rooms", key="room string", schema="label string", name="names").latest("names")
hot = readings.filter("celsius > 20").group_by("room").agg(n=lh.count(), all=lh.collect_list("celsius")).table("hot")
minutes = (readings.group_by("room").window(lh.tumbling("1 minute", grace="1 hour"))
           .agg(n=lh.count(), top=lh.max("celsius")).table("minutes"))
visits = readings.group_by("room").window(lh.session("20 seconds", grace="1 hour")).agg(n=lh.count()).table("visits")
best = readings.group_by("room").agg(best=lh.reduce("celsius", largest)).table("best")
labelled = rooms.join(names, on="room", how="left").table("labelled")
app = lh.app(rooms, names, hot, minutes, visits, best, labelled, hot.changes().to_topic({topic!r} + "-hot"))
"""
# Two lakes can't publish to one topic.
UNPUBLISHED = """
import lakehouse as lh
import app as published

app = lh.app(*published.app.tables)
"""
# A module of the user's, which no executor has.
RULES = """
def largest(so_far, value):
    return max(so_far, value)
"""
JOBS = Path(__file__).parents[2] / "spark_jobs"
TABLES = ("rooms", "names", "hot", "minutes", "visits", "best", "labelled")
SECONDS = 900


class Project:
    """A folder with an application, and settings for a run on a cluster and for one on this machine.

    lake: the settings of the cluster's lake, if it is not in the folder. app: the application, a module or a file.
    """

    def __init__(
        self, folder: Path, broker: Broker, master: str, lake: str = 'path = "./lake"', app: str = "app", **spark: Any
    ) -> None:
        self.folder, self.topic = folder, f"readings-{uuid.uuid4().hex[:8]}"
        (folder / "app.py").write_text(APP.format(topic=self.topic))
        (folder / "rules.py").write_text(RULES)
        (folder / "unpublished.py").write_text(UNPUBLISHED)
        options = '{ "spark.executor.memory" = "700m", "spark.executor.cores" = "1" }'
        section = {"memory": "1g", "master": master, **spark}
        lines = [f"{name} = {json.dumps(value)}" for name, value in section.items()]
        kafka = f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
        (folder / "lakehouse.toml").write_text(
            "\n".join([f'[lake]\n{lake}\napp = "{app}"', kafka, "[spark]", *lines, f"options = {options}", ""])
        )
        (folder / "local.toml").write_text(
            f'[lake]\npath = "./local"\napp = "unpublished"\n{kafka}[spark]\nmemory = "1g"\n'
        )
        self._dice = Random(draw())

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lakehouse.cli.main", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        process = self.start(*arguments)
        output = process.communicate(timeout=SECONDS)[0]
        assert process.returncode == code, output
        return output

    def start_until(self, log: Path, commits: int) -> subprocess.Popen[str]:
        """Start a run, and return it when a log has so many commits."""
        running = self.start("run", "--until", "caught-up")
        end = time.monotonic() + SECONDS
        while len(list(log.glob("0*.json"))) < commits:
            assert running.poll() is None, running.communicate()[0]
            assert time.monotonic() < end
            time.sleep(0.05)
        return running

    def check_tables(self) -> None:
        """Run on this machine, and compare each table with the cluster's."""
        self.run("run", "--until", "caught-up", "--config", "local.toml")
        for table in TABLES:
            rows = self.rows(table, "lakehouse.toml")
            assert rows, table
            assert rows == self.rows(table, "local.toml"), table
        assert json.loads(self.run("test", "check"))["ok"]

    def produce(self, first: int, count: int) -> None:
        dice, lines = self._dice, []
        for number in range(first, first + count):
            value = {"room": f"r{dice.randrange(6)}", "celsius": dice.randrange(10, 35)}
            moment = 1_700_000_000 + number * 2 + dice.randrange(30)
            lines.append(json.dumps({"key": f"s{dice.randrange(40)}", "value": value | {"at": moment}}))
        names = [json.dumps({"key": f"r{number}", "value": {"label": f"room {number}"}}) for number in range(4)]
        for topic, records in ((self.topic, lines), (f"{self.topic}-rooms", names)):
            (self.folder / "records.jsonl").write_text("\n".join([*records, ""]))
            self.run("kafka", "produce", topic, "records.jsonl", "--partitions", "2")

    def rows(self, table: str, config: str) -> Any:
        return sorted(self.run("query", f"SELECT * FROM {table}", "--json", "--config", config).splitlines())


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_python(tmp_path_factory.mktemp("python"), *NEEDED)


def test_a_cluster_gives_the_tables_of_a_local_run_though_an_executor_is_killed(
    cluster: Cluster, tmp_path: Path, broker: Broker, bare_python: Path
) -> None:
    project = Project(tmp_path, broker, cluster.master, python=str(bare_python), executor_wait_seconds=300)
    project.produce(0, 400)
    project.run("run", "--until", "caught-up")
    project.produce(400, 2000)
    log = tmp_path / "lake/bronze/records/_delta_log"
    commits = len(list(log.glob("0*.json")))
    running = project.start_until(log, commits + 2)  # its epoch, and a tick: now tables are written
    pids = cluster.executor_pids()
    assert pids
    os.kill(pids[0], signal.SIGKILL)
    output = running.communicate(timeout=SECONDS)[0]
    assert running.returncode == 0, output
    project.check_tables()


def test_a_lake_on_s3_that_executors_write_outlives_the_driver_and_an_executor(
    cluster: Cluster, tmp_path: Path, broker: Broker, bare_python: Path, object_store: ObjectStore
) -> None:
    uri = object_store.new_lake()
    lake = f'path = "{uri}"\noptions = {object_store.options()}'
    project = Project(tmp_path, broker, cluster.master, lake, python=str(bare_python), executor_wait_seconds=300)
    project.produce(0, 400)
    log = object_store.files(uri) / "silver/hot/_delta_log"
    driver = project.start_until(log, 2)
    driver.kill()
    driver.wait()
    project.produce(400, 2000)
    running = project.start_until(log, len(list(log.glob("0*.json"))) + 1)
    pids = cluster.executor_pids()
    assert pids
    os.kill(pids[0], signal.SIGKILL)
    output = running.communicate(timeout=SECONDS)[0]
    assert running.returncode == 0, output
    project.run("run", "--until", "caught-up")
    project.check_tables()


def test_jobs_by_spark_submit_give_the_tables_of_a_local_run(
    cluster: Cluster, tmp_path: Path, broker: Broker, bare_python: Path
) -> None:
    """Master and jars are those of the command line, and the executors' Python, too."""
    project = Project(tmp_path, broker, "local[1]")
    project.produce(0, 600)
    jars = sorted(Path(jars_folder("spark")).glob("*.jar"))
    options = [
        "--master", cluster.master, "--driver-memory", "1g", "--driver-java-options", "-Xss256m",
        "--driver-class-path", f"{jars_folder('spark')}/*", "--jars", ",".join(map(str, jars)),
        "--conf", "spark.executor.memory=700m", "--conf", "spark.executor.cores=1",
    ]  # fmt: skip
    environ = os.environ | {"PYSPARK_PYTHON": str(bare_python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    for job in ("ingest", "silver"):
        command = [
            str(Path(sys.executable).with_name("spark-submit")), *options, str(JOBS / f"{job}.py"), "--app", "app.py",
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["event"] == "done"
    project.check_tables()


def test_a_python_that_lacks_a_package_is_named_before_anything_is_written(
    cluster: Cluster, tmp_path: Path, broker: Broker
) -> None:
    python = make_python(tmp_path / "python", "pytz")
    project = Project(tmp_path, broker, cluster.master, python=str(python), executor_wait_seconds=300)
    project.produce(0, 2)
    output = project.run("run", "--until", "caught-up", code=2)
    assert f"({python} on " in output
    assert "lacks pyarrow, pandas, numpy; expected pyarrow, pandas, numpy. Install them there" in output
    assert not (tmp_path / "lake/bronze").exists()


def test_a_cluster_without_workers_is_told_after_a_while(tmp_path: Path, broker: Broker) -> None:
    with running_cluster(tmp_path, workers=0) as idle:
        project = Project(tmp_path, broker, idle.master, executor_wait_seconds=5)
        project.produce(0, 2)
        output = project.run("run", "--until", "caught-up", code=2)
    assert f"no executor of {idle.master} ran a task within 5 s" in output
    assert "say a better address in [spark] driver_host" in output
    assert not (tmp_path / "lake/bronze").exists()
