"""Two tables kept and their changelogs published: by one process, and by two that have a table each.

    .venv/bin/python benchmarks/publishing.py [--records N] [--rounds N]

Bronze is filled first, and is not counted. Each round has a new lake. A process is cold: its start counts.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import TOPIC, lake_and_broker, record, show

from lakehouse.kafka.produce import produce
from lakehouse.kafka.topics import Cluster

PARTITIONS = 4
APP = f"""
import lakehouse as lh

events = lh.stream({TOPIC!r}, key="id string", schema="kind string, amount bigint, note string")
latest = events.latest("latest")
counts = events.group_by("id").agg(n=lh.count(), total=lh.sum("amount")).table("counts")
"""
WAYS = {"without publishing": ("",), "one process": ("",), "two processes": ("1/2", "2/2")}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=500_000)
    arguments.add_argument("--rounds", type=int, default=1)
    options = arguments.parse_args()
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    changes = 0
    with lake_and_broker() as (settings, broker):
        folder, dice = Path(settings.lake.path).parent, random.Random(7)
        produce(broker.bootstrap_servers, {}, TOPIC, (record(n, dice) for n in range(options.records)))
        cluster = Cluster(broker.bootstrap_servers)
        (folder / "lakehouse.toml").write_text(
            f'[lake]\npath = "lake"\napp = "app.py"\n[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\n'
        )
        for number in range(options.rounds):
            for way, parts in WAYS.items():
                shutil.rmtree(folder / "lake", ignore_errors=True)
                topics = [] if way == "without publishing" else [f"{name}-{number}-{len(parts)}" for name in ("a", "b")]
                for topic in topics:
                    cluster.create(topic, PARTITIONS)
                sinks = [f".changes().to_topic({topic!r})" for topic in topics] or ["", ""]
                (folder / "app.py").write_text(f"{APP}app = lh.app(latest{sinks[0]}, counts{sinks[1]})\n")
                run(folder, ["--only", "ingest"])
                lines = [["--only", "silver", *(["--part", part] if part else [])] for part in parts]
                seconds[way].append(run(folder, *lines))
                ends = cluster.offsets((topic, partition) for topic in topics for partition in range(PARTITIONS))
                changes = sum(end for _, end in ends.values())
    medians = {way: statistics.median(values) for way, values in seconds.items()}
    show(
        f"{options.records:,} records into two tables, {changes:,} offsets published",
        ["way", "seconds", "offsets published a second"],
        [
            [way, f"{took:.1f}", "" if way == "without publishing" else f"{changes / took:,.0f}"]
            for way, took in medians.items()
        ],
    )


def run(folder: Path, *lines: list[str]) -> float:
    """Run processes of the application until all have caught up; return the seconds."""
    began = time.monotonic()
    command = [sys.executable, "-m", "lakehouse.cli.main", "run", "--until", "caught-up"]
    processes = [subprocess.Popen([*command, *line], cwd=folder) for line in lines]
    for process in processes:
        if process.wait() != 0:
            raise SystemExit(f"a process ended with {process.returncode}")
    return time.monotonic() - began


if __name__ == "__main__":
    main()
