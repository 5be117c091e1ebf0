"""Many records into a lake on s3a, by a cluster of two executors; the driver and an executor are killed on the way.

    .venv/bin/python benchmarks/scale.py [--records N]

Tells the seconds of each part and the driver's memory, and checks that nothing is lost: bronze has every offset, and
the counts add up to the records. The S3 server, Kafka and Spark share this machine, so the seconds are no bound for
others.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]  # the tests' S3 server

from cluster import running_cluster  # noqa: E402
from common import TOPIC, lake_and_broker, record, resident, show  # noqa: E402

from lakehouse.kafka.produce import produce  # noqa: E402
from tests.s3.server import running_store  # noqa: E402

APP = f"""
import lakehouse as lh

events = lh.stream({TOPIC!r}, key="id string", schema="kind string, amount bigint, note string")
app = lh.app(events.group_by("id").agg(n=lh.count(), total=lh.sum("amount")).table("counts"))
"""
LOOK_SECONDS = 0.5


class Job:
    """`lakehouse run`, again and again until it is done; peak: the most memory of its driver, in GB."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.peak, self.seconds = folder, 0.0, 0.0

    def run(self, part: str, kill: str | None = None, after_seconds: float = 0.0) -> None:
        """Run a part of the application until it is caught up. kill: "driver" or "executor", once, after so long."""
        command = [sys.executable, "-m", "lakehouse.cli.main", "run", "--until", "caught-up", "--only", part]
        began = time.monotonic()
        process = psutil.Popen(command, cwd=self.folder)
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                self.peak = max(self.peak, resident(process))
            if kill is not None and time.monotonic() - began > after_seconds:
                victims = [process, *process.children(recursive=True)] if kill == "driver" else executors()[:1]
                for victim in victims:
                    with suppress(psutil.NoSuchProcess):
                        victim.send_signal(signal.SIGKILL)
                print(f"{part}: the {kill} was killed after {time.monotonic() - began:.0f} s", flush=True)
                if kill == "driver":
                    process.wait()
                    self.seconds += time.monotonic() - began
                    return self.run(part)
                kill = None
            time.sleep(LOOK_SECONDS)
        self.seconds += time.monotonic() - began
        if process.returncode != 0:
            raise SystemExit(f"{part} ended with {process.returncode}")
        if kill is not None:
            raise SystemExit(f"{part} was done before its {kill} could be killed; give more --records")
        return None

    def answer(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "lakehouse.cli.main", *arguments]
        return subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True).stdout


def executors() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any("CoarseGrainedExecutorBackend" in part for part in process.info["cmdline"] or ())
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=20_000_000)
    records = arguments.parse_args().records
    dice = random.Random(7)
    with lake_and_broker() as (settings, broker):
        folder = Path(settings.lake.path).parent
        began = time.monotonic()
        produce(broker.bootstrap_servers, {}, TOPIC, (record(n, dice) for n in range(records)))
        print(f"{records:,} records in Kafka after {time.monotonic() - began:.0f} s", flush=True)
        (folder / "store").mkdir()
        with running_store(folder / "store") as store, running_cluster(folder / "cluster", 2, 1) as master:
            options = {"spark.executor.memory": "1g", "spark.executor.cores": "1"}
            spark = {"master": master, "python": sys.executable, "memory": "2g"}
            lines = [f"{name} = {json.dumps(value)}" for name, value in spark.items()]
            listed_options = ", ".join(f'"{name}" = "{value}"' for name, value in options.items())
            (folder / "lakehouse.toml").write_text(
                f'[lake]\npath = "{store.new_lake()}"\napp = "app.py"\noptions = {store.options()}\n'
                f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
                + "\n".join(["[spark]", *lines, f"options = {{ {listed_options} }}", ""])
            )
            (folder / "app.py").write_text(APP)
            rows = []
            for part, kill in (("ingest", "driver"), ("silver", "executor")):
                job = Job(folder)
                job.run(part, kill, after_seconds=60)
                rows.append([part, kill, f"{job.seconds:.0f}", f"{records / job.seconds:,.0f}", f"{job.peak:.1f}"])
            print(job.answer("test", "check"), flush=True)
            counted = json.loads(job.answer("query", "SELECT sum(n) AS n FROM counts", "--json"))["n"]
            bronze_count = json.loads(job.answer("query", f'SELECT count(*) AS n FROM bronze."{TOPIC}"', "--json"))["n"]
    if (int(counted), int(bronze_count)) != (records, records):
        raise SystemExit(f"bronze has {bronze_count}, the counts add up to {counted}; expected {records}")
    show(
        f"{records:,} JSON records on s3a by two executors of one core",
        ["part", "killed once", "seconds", "records a second", "driver, GB"],
        rows,
    )


if __name__ == "__main__":
    os.environ.pop("SPARK_HOME", None)
    main()
