"""`lakehouse airflow up` and `down`: seconds until healthy, processor time, memory, and what doing nothing costs.

    .venv/bin/python benchmarks/airflow_start.py [--idle SECONDS] [--workers N]

In a home of its own, on SQLite, without applications. Each step is the command, Python's start included.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import show

from lakehouse.airflow import members, report
from lakehouse.process import find_free_port
from lakehouse.settings.config import Airflow
from lakehouse.setup.airflow import set_up_airflow


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--idle", type=int, default=60, metavar="SECONDS", help="how long to look at it doing nothing")
    options.add_argument("--workers", type=int, default=2, help="tasks at a time: so many processes wait for work")
    given = options.parse_args()
    set_up_airflow()  # installing is not measured
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-benchmark-"))
    (folder / "lakehouse.toml").write_text(f"[airflow]\nport = {find_free_port()}\nworkers = {given.workers}\n")
    home = folder / ".lakehouse" / "airflow"
    rows = []
    try:
        for what in ("up, new home", "up, after down"):
            seconds = command(folder, "up")
            rows.append([what, f"{seconds:.1f}", f"{sum(processor(home).values()):.1f}"])
            if what == "up, after down":
                break
            rows.append(["up, runs already", f"{command(folder, 'up'):.1f}", ""])
            rows.append(["status", f"{command(folder, 'status'):.1f}", ""])
            rows.append(["down", f"{command(folder, 'down'):.1f}", ""])
        time.sleep(10)
        before = processor(home)
        time.sleep(given.idle)
        after = processor(home)
        found = report.report_airflow(Airflow(home))
        parts = [
            [
                one.name,
                f"{one.memory_bytes / 2**20:.0f}",
                f"{one.rss_bytes / 2**20:.0f}",
                idle(one.name, before, after, given.idle),
            ]
            for one in found.processes
        ]
        parts.append(["all", f"{found.memory_bytes / 2**20:.0f}", f"{found.rss_bytes / 2**20:.0f}", ""])
    finally:
        command(folder, "down")
        shutil.rmtree(folder)
    show(f"lakehouse airflow, load {os.getloadavg()[0]:.0f}", ["command", "seconds", "processor seconds"], rows)
    show("Airflow, doing nothing", ["process, with its children", "MB", "RSS added up, MB", "of a core"], parts)


def command(folder: Path, name: str) -> float:
    """Run a command; return its seconds."""
    started = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "lakehouse.cli.main", "airflow", name], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    return time.monotonic() - started


def processor(home: Path) -> dict[str, float]:
    """The processor seconds of each part's living processes, with those of their children that have ended."""
    found: dict[str, float] = {}
    for process in members.processes_of_home(home):
        part = process.environ()[members.SUPERVISED_BY].rpartition("#")[2]
        times = process.cpu_times()
        spent = times.user + times.system + times.children_user + times.children_system
        found[part] = found.get(part, 0.0) + spent
    return found


def idle(part: str, before: dict[str, float], after: dict[str, float], seconds: int) -> str:
    return f"{(after[part] - before[part]) / seconds:.1%}" if part in before and part in after else ""


if __name__ == "__main__":
    main()
