"""Catch-up on a Spark cluster of this machine, with 1, 2 and 4 executor threads, beside Spark in the process.

    .venv/bin/python benchmarks/cluster.py [--records N]

What the driver does is told apart from what executors do, in seconds of a processor: the driver's part is what more
machines do not take away. Spark's start is not counted. The tables are checked: the counts add up to the records.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
from common import TOPIC, app, lake_and_broker, record, show

from lakehouse.kafka.produce import produce
from lakehouse.run.lake import Lake

HOME = Path(pyspark.__file__).parent
# The name of a row; executors and cores of each; a master without a cluster.
RUNS = (
    ("local[1]", 0, 0), ("local[2]", 0, 0), ("1 executor of 1 core", 1, 1), ("2 executors of 1 core", 2, 1),
    ("2 executors of 2 cores", 2, 2),
)  # fmt: skip
START_SECONDS = 60


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=500_000)
    arguments.add_argument("--one", nargs=2, metavar=("LAKE", "SERVERS"), help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.one:
        measure(*options.one, options.records)
        return
    dice = random.Random(7)
    rows = []
    with lake_and_broker() as (settings, broker):
        produce(broker.bootstrap_servers, {}, TOPIC, (record(n, dice) for n in range(options.records)))
        folder = Path(settings.lake.path).parent
        for number, (name, executors, cores) in enumerate(RUNS):
            with running_cluster(folder / f"cluster-{number}", executors, cores) as master:
                figures = run_one(
                    folder / f"lake-{number}", broker.bootstrap_servers, options.records, master or name, cores
                )
            rows.append([name, *(f"{figures[part]:.1f}" for part in ("bronze", "tables", "driver", "executors"))])
    columns = ["Spark", "Kafka -> bronze, s", "bronze -> 2 tables, s", "driver, processor s", "executors, processor s"]
    show(f"catch-up of {options.records:,} JSON records", columns, rows)


def run_one(lake: Path, servers: str, records: int, master: str, cores: int) -> dict[str, float]:
    executor_options = {"spark.executor.memory": "1g", "spark.executor.cores": str(cores)} if cores else {}
    environ = os.environ | {
        "LAKEHOUSE_SPARK_MASTER": master,
        "LAKEHOUSE_SPARK_PYTHON": sys.executable,
        "LAKEHOUSE_SPARK_OPTIONS": json.dumps(executor_options),
    }
    command = [sys.executable, __file__, "--records", str(records), "--one", str(lake), servers]
    process = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return figures


def measure(lake_path: str, servers: str, records: int) -> None:
    """Catch up once, and print the figures as JSON."""
    os.environ["LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS"] = servers
    lake = Lake(lake_path)
    context = lake.spark.sparkContext
    before = processor_seconds(context.applicationId)
    ticks: list[float] = []
    began = time.monotonic()
    lake.run(
        app,
        until="caught_up",
        listen=lambda event: ticks.append(time.monotonic() - began) if event.kind == "tick" else None,
    )
    total = time.monotonic() - began
    driver, executors = (
        after - start for after, start in zip(processor_seconds(context.applicationId), before, strict=True)
    )
    counted = lake.read(app.table("counts")).agg({"n": "sum"}).first()
    if counted is None or counted[0] != records:
        raise SystemExit(f"the counts add up to {counted}, expected {records}")
    lake.spark.stop()
    bronze = max(ticks)
    print(json.dumps({"bronze": bronze, "tables": total - bronze, "driver": driver, "executors": executors}))


def processor_seconds(application: str) -> tuple[float, float]:
    """Return what this process with its children has used, and what the executors of an application have."""
    executors = [
        process
        for process in psutil.process_iter(["cmdline"])
        if application in (process.info["cmdline"] or ())
        and any("Executor" in part for part in process.info["cmdline"])
    ]
    return family_seconds(psutil.Process()), sum(map(family_seconds, executors))


def family_seconds(process: psutil.Process) -> float:
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = member.cpu_times()
            total += times.user + times.system
    return total


@contextmanager
def running_cluster(folder: Path, executors: int, cores: int) -> Iterator[str | None]:
    """Run a master and workers of so many cores out of PySpark's own package; give the master's address."""
    if not executors:
        yield None
        return
    folder.mkdir()
    parts: list[subprocess.Popen[bytes]] = []
    log = folder / "master.log"
    try:
        parts.append(start_part("master.Master", log))
        end = time.monotonic() + START_SECONDS
        while not (match := re.search(r"Starting Spark master at (spark://\S+)", log.read_text("utf-8", "replace"))):
            if time.monotonic() > end:
                raise SystemExit(f"Spark's master did not start: {log.read_text()}")
            time.sleep(0.1)
        for number in range(executors):
            arguments = ["--cores", str(cores), "--memory", "1500m", "--work-dir", str(folder / f"work-{number}")]
            parts.append(start_part("worker.Worker", folder / f"worker-{number}.log", *arguments, match[1]))
        yield match[1]
    finally:
        for part in reversed(parts):
            part.terminate()
            part.wait()


def start_part(part: str, log_file: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environ = os.environ | {"SPARK_HOME": str(HOME), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{part}", "--host", "127.0.0.1", "--port", "0"]
    with log_file.open("wb") as log:
        return subprocess.Popen([*command, "--webui-port", "0", *arguments], env=environ, stdout=log, stderr=log)


if __name__ == "__main__":
    main()
