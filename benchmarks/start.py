"""A cold start: seconds from the command to Spark, to bronze's first commit, to all tables'; and processor time.

    .venv/bin/python benchmarks/start.py [--records N] [--rounds N] [--java OPTIONS]

Each start is a process of its own: one on a new lake, then one on the lake that exists, each with N new records and two
tables. --java: options for Spark's JVM, such as those that undo what lakehouse sets on two cores:
"-XX:+UseG1GC -XX:Tier4InvocationThreshold=5000 -XX:Tier4MinInvocationThreshold=600 -XX:Tier4CompileThreshold=15000
-XX:Tier4BackEdgeThreshold=40000". Processor seconds: of Python, of Spark's JVM and its Python workers; not of Kafka.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import psutil
from common import TOPIC, app, lake_and_broker, record, show

from lakehouse.kafka.produce import produce
from lakehouse.run.lake import Lake
from lakehouse.run.watch.event import JobEvent
from lakehouse.settings.config import load

SHOWN = ("spark", "bronze", "silver", "processor")


def start(folder: str, servers: str, java: str, began: float) -> None:
    """Catch up in this process; print the seconds since `began` as a line of JSON."""
    environ = {
        "LAKEHOUSE_LAKE_PATH": folder,
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers,
        "LAKEHOUSE_SPARK_OPTIONS": json.dumps({"spark.driver.extraJavaOptions": java}),
    }
    lake = Lake(settings=load(environ=environ, start=Path(folder).parent))
    _ = lake.spark
    seen = {"spark": time.time() - began}

    def listen(event: JobEvent) -> None:
        seen.setdefault(event.kind, time.time() - began)

    lake.run(app, until="caught_up", listen=listen)
    mine = psutil.Process()
    times = [one.cpu_times() for one in (mine, *mine.children(recursive=True))]
    took = {"spark": seen["spark"], "bronze": seen["tick"], "silver": seen["batch"]}
    print(json.dumps({**took, "processor": sum(t.user + t.system for t in times)}), flush=True)
    lake.spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--java", default="")
    parser.add_argument("--one", nargs=2, metavar=("LAKE", "SERVERS"), help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        folder, servers = given.one
        start(folder, servers, given.java, given.began)
        return
    dice = random.Random(7)
    found: dict[str, list[dict[str, float]]] = {"a new lake": [], "a lake that exists": []}
    for _ in range(given.rounds):
        with lake_and_broker() as (settings, broker):
            for starts in found.values():
                produce(broker.bootstrap_servers, {}, TOPIC, (record(n, dice) for n in range(given.records)))
                one = ["--one", settings.lake.path, broker.bootstrap_servers, "--began", str(time.time())]
                command = [sys.executable, __file__, f"--java={given.java}", *one]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                starts.append(json.loads(done.stdout.splitlines()[-1]))
    show(
        f"a cold start with {given.records:,} records, seconds from the command, medians of {given.rounds}",
        ["lake", "Spark is up", "first commit of bronze", "tables", "processor seconds"],
        [
            [name, *[f"{median(one[column] for one in starts):.1f}" for column in SHOWN]]
            for name, starts in found.items()
        ],
    )


if __name__ == "__main__":
    main()
