"""SIGKILL of a running job, and its start again: seconds until the first commits of bronze and of all tables.

    .venv/bin/python benchmarks/killed.py [--rounds N] [--rate N]

Needs a quiet machine. Records come at a rate into two tables all the while. The job, Python and its JVM, is killed some
seconds after its first batch, in the middle of whatever it does, and the same command starts at once. The counts are
checked at the end: every record once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from common import app, lake_and_broker, show
from deltalake import DeltaTable
from freshness import offer

from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.run.watch.event import JobEvent
from lakehouse.settings.config import load

PATIENCE_SECONDS = 600.0


def job(folder: str, servers: str) -> None:
    """Run until killed; print each event's kind and moment as a line of JSON."""
    environ = {"LAKEHOUSE_LAKE_PATH": folder, "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers}

    def listen(event: JobEvent) -> None:
        print(json.dumps({"kind": event.kind, "at": time.time()}), flush=True)

    Lake(settings=load(environ=environ, start=Path(folder).parent)).run(app, listen=listen)


class Running:
    """The job in a process of its own, and the moments of the first event of each kind."""

    def __init__(self, folder: str, servers: str) -> None:
        self.began = time.time()
        command = [sys.executable, __file__, "--one", folder, servers]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self._first: dict[str, float] = {}
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            if line.startswith("{"):
                event = json.loads(line)
                self._first.setdefault(event["kind"], event["at"])

    def until(self, kind: str) -> float:
        """Wait for the first event of a kind; return the seconds from the command to it."""
        patience = time.time() + PATIENCE_SECONDS
        while kind not in self._first:
            if (ended := self._process.poll()) is not None or time.time() > patience:
                self.kill()
                said = f"after {PATIENCE_SECONDS:g} seconds" if ended is None else f"the job ended with {ended}"
                raise SystemExit(f"no {kind}: {said}")
            time.sleep(0.02)
        return self._first[kind] - self.began

    def kill(self) -> None:
        """SIGKILL for the job and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reading.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--one", nargs=2, metavar=("LAKE", "SERVERS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        job(*given.one)
        return
    dice = random.Random(7)
    found: dict[str, list[float]] = {"bronze": [], "silver": []}
    with lake_and_broker() as (settings, broker):
        servers, enough = broker.bootstrap_servers, threading.Event()

        def records() -> None:
            dice = random.Random(11)
            while not enough.is_set():
                offer(servers, 1.0, given.rate, dice)

        offering = threading.Thread(target=records)
        offering.start()
        try:
            running = Running(settings.lake.path, servers)
            running.until("batch")
            for _ in range(given.rounds):
                time.sleep(3 + 3 * dice.random())
                running.kill()
                running = Running(settings.lake.path, servers)
                found["bronze"].append(running.until("tick"))
                found["silver"].append(running.until("batch"))
            running.kill()
        finally:
            enough.set()
            offering.join()
        Lake(settings=settings).run(app, until="caught_up")
        layout = Layout(settings.lake.path)
        read = DeltaTable(layout.records).to_pyarrow_dataset().count_rows()
        counted = DeltaTable(layout.silver("counts")).to_pyarrow_table(columns=["n"]).to_pandas()["n"].sum()
        if counted != read:
            raise SystemExit(f"the counts add up to {counted}, bronze has {read} records")
    show(
        f"{given.rounds} times SIGKILL at {given.rate:,} records a second: seconds to the first commit again",
        ["of", "median", "largest"],
        [[place, f"{median(each):.1f}", f"{max(each):.1f}"] for place, each in found.items()],
    )


if __name__ == "__main__":
    main()
