"""A Spark cluster on this machine: a master and two workers out of PySpark's own package, each with one core."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
import pytest

from tests.s3.conftest import object_store as object_store

HOME = Path(pyspark.__file__).parent
START_SECONDS = 120
# What an executor's Python needs; they bring their own dependencies.
NEEDED = ("pyarrow", "pandas", "numpy", "python-dateutil", "pytz", "tzdata")


@dataclass(frozen=True)
class Host:
    """Where a part runs: its address, and the command behind which a process is there."""

    address: str = "127.0.0.1"
    inside: tuple[str, ...] = ()


HERE = Host()


@dataclass
class Cluster:
    """A running master, and its workers' processes."""

    folder: Path
    master: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    worker_host: Host = HERE

    def add_worker(self) -> None:
        number = len(self.workers)
        arguments = [
            "--cores",
            "1",
            "--memory",
            "1200m",
            "--work-dir",
            str(self.folder / f"work-{number}"),
            self.master,
        ]
        log_file = self.folder / f"worker-{number}.log"
        self.workers.append(start_part("worker.Worker", log_file, *arguments, host=self.worker_host))

    def executor_pids(self) -> list[int]:
        """Return the processes of all executors that run now."""
        worker_pids, pids = {worker.pid for worker in self.workers}, []
        for stat_file in Path("/proc").glob("[0-9]*/stat"):
            try:
                pid, _, rest = stat_file.read_text().partition(" ")
                command = (stat_file.parent / "cmdline").read_bytes()
            except OSError:
                continue  # it has ended
            if int(rest.rpartition(")")[2].split()[1]) in worker_pids and b"CoarseGrainedExecutorBackend" in command:
                pids.append(int(pid))
        return pids


def start_part(part: str, log_file: Path, *arguments: str, host: Host) -> subprocess.Popen[bytes]:
    own_settings = {"SPARK_HOME": str(HOME), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host.address}
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own_settings
    command = [*host.inside, str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{part}", "--host", host.address]
    with log_file.open("wb") as log:
        return subprocess.Popen(
            [*command, "--port", "0", "--webui-port", "0", *arguments], env=environ, stdout=log, stderr=log
        )


@contextmanager
def running_cluster(
    folder: Path, workers: int, master_host: Host = HERE, worker_host: Host = HERE
) -> Iterator[Cluster]:
    log_file = folder / "master.log"
    master = start_part("master.Master", log_file, host=master_host)
    cluster = Cluster(folder, "", worker_host=worker_host)
    try:
        end = time.monotonic() + START_SECONDS
        while not (
            match := re.search(r"Starting Spark master at (spark://\S+)", log_file.read_text("utf-8", "replace"))
        ):
            assert time.monotonic() < end, log_file.read_text("utf-8", "replace")
            assert master.poll() is None, log_file.read_text("utf-8", "replace")
            time.sleep(0.1)
        cluster.master = match[1]
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in [*cluster.workers, master]:  # a worker ends its executors
            process.terminate()
        for process in [*cluster.workers, master]:
            process.wait(60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as started:
        yield started


def make_python(folder: Path, *packages: str) -> Path:
    """Make a Python that has these packages of this one's, and nothing else."""
    venv.create(folder, symlinks=True, with_pip=False)
    [site_packages] = folder.glob("lib/python*/site-packages")
    for package in packages:
        distribution = importlib.metadata.distribution(package)
        names = {Path(file).parts[0] for file in distribution.files or [] if ".." not in Path(file).parts}
        for name in names - {"__pycache__"}:
            (site_packages / name).symlink_to(Path(str(distribution.locate_file(name))))
    python = folder / "bin/python"
    subprocess.run([python, "-c", f"import {packages[0]}" if packages else "pass"], check=True, timeout=60)
    assert sys.version_info[:2] == tuple(map(int, re.findall(r"python(\d+)\.(\d+)", str(site_packages))[0]))
    return python
