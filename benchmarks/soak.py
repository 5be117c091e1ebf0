"""A soak: records at a rate into two tables for an hour, with upkeep on; what drifts is said, and can be drawn.

    .venv/bin/python benchmarks/soak.py [--minutes N] [--rate N] [--upkeep SECONDS] [--out FILE]

Needs a quiet machine. Every ten seconds it notes the longest batch since, the records that wait, the memory of the job
(with the one that offers the records, without the broker), the live files of bronze and of the tables, and the bytes of
their logs; every five minutes, what Java's heap holds after a collection: memory itself is also heap that Java has not
collected yet. --upkeep: upkeep after so many seconds, instead of the settings' ten minutes. Slopes are straight lines
through what came after the first quarter. The counts are checked at the end.
`peers/plots.py` draws --out (build/peers/soak.json).

Bronze's files grow by a tick's until upkeep brings them together; logs grow for as long as they are kept, which is
longer than a soak. What must not drift is the batch, what waits, memory, and the tables' files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from common import LOAD, app, lake_and_broker, machine, resident, show
from deltalake import DeltaTable
from freshness import offer
from peers.figures import drift

from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.run.watch.event import JobEvent

PROJECT = Path(__file__).resolve().parent.parent
SAMPLE_SECONDS = 10.0
SAMPLES_PER_COLLECTION = 30
WHAT = {
    "batch": "longest batch, s", "waiting": "records that wait", "memory": "memory, GB", "heap": "live heap, MB",
    "bronze_files": "bronze's files", "table_files": "the tables' files", "log": "logs, MB",
}  # fmt: skip


class Seen:
    """What the job told since it was last asked."""

    def __init__(self) -> None:
        self.records = self.upkeeps = 0
        self.failed: list[str] = []
        self._batches: list[float] = []
        self._lock = threading.Lock()

    def listen(self, event: JobEvent) -> None:
        with self._lock:
            if event.kind == "batch":
                self.records += event.records
                self._batches.append(event.details["took"])
            elif event.kind == "upkeep":
                self.upkeeps += 1
            elif event.kind.endswith("failed"):
                self.failed.append(f"{event.kind}: {event.details}")

    def longest(self) -> float | None:
        """The seconds of the longest batch since the last call; None if there was none."""
        with self._lock:
            found, self._batches = self._batches, []
        return max(found, default=None)


def files(paths: Sequence[str]) -> int:
    """The live files of tables that may not be there yet."""
    return sum(len(DeltaTable(path).file_uris()) for path in paths if DeltaTable.is_deltatable(path))


def log_bytes(paths: Sequence[str]) -> int:
    return sum(file.stat().st_size for path in paths for file in Path(path, "_delta_log").rglob("*") if file.is_file())


def sample(seconds: float, seen: Seen, sent: float, bronze: str, tables: Sequence[str]) -> dict[str, float | None]:
    return {
        "seconds": seconds, "batch": seen.longest(), "waiting": max(0.0, sent - seen.records / len(tables)),
        "memory": resident(psutil.Process()), "bronze_files": files([bronze]), "table_files": files(tables),
        "log": log_bytes([bronze, *tables]) / 1e6,
    }  # fmt: skip


def live_heap(lake: Lake) -> float:
    """The megabytes of Java's heap that are in use after a collection of all of it."""
    java = lake.spark._jvm.java.lang  # type: ignore[union-attr]
    java.System.gc()
    heap = java.Runtime.getRuntime()
    return float(heap.totalMemory() - heap.freeMemory()) / 1e6


def slopes(samples: Sequence[dict[str, Any]], warm: float) -> dict[str, tuple[float, float]]:
    """Of each thing that was noted: its mean, and its drift an hour, after `warm` seconds."""
    found = {}
    for name in WHAT:
        late = [(each["seconds"] / 3600, each[name]) for each in samples if each["seconds"] >= warm]
        points = [(hours, value) for hours, value in late if value is not None]
        found[name] = (statistics.fmean(value for _, value in points) if points else 0.0, drift(points))
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=60.0)
    arguments.add_argument("--rate", type=int, default=1000)
    arguments.add_argument("--upkeep", type=float)
    arguments.add_argument("--out", type=Path, default=PROJECT / "build" / "peers" / "soak.json")
    chosen = arguments.parse_args()
    seconds, samples = chosen.minutes * 60, []
    with lake_and_broker() as (settings, broker):
        layout, seen, stop = Layout(settings.lake.path), Seen(), threading.Event()
        tables = [layout.silver(table.name) for table in app.tables]
        if chosen.upkeep is not None:
            settings = replace(settings, upkeep=replace(settings.upkeep, every_seconds=chosen.upkeep, every_ticks=1))
        lake = Lake(settings=settings)
        _ = lake.spark
        job = threading.Thread(target=lambda: lake.run(app, stop=stop, listen=seen.listen))
        offering = threading.Thread(target=offer, args=(broker.bootstrap_servers, seconds, chosen.rate))
        began = time.monotonic()
        job.start()
        offering.start()
        while offering.is_alive() and job.is_alive():
            offering.join(SAMPLE_SECONDS)
            passed = time.monotonic() - began
            sent = min(passed, seconds) * chosen.rate
            samples.append(sample(passed, seen, sent, layout.records, tables))
            collected = len(samples) % SAMPLES_PER_COLLECTION == 0
            samples[-1]["heap"] = live_heap(lake) if collected else None
        stop.set()
        offering.join()
        job.join()
        lake.run(app, until="caught_up")
        counted = lake.read(app.table("counts")).agg({"n": "sum"}).first()
        read = lake.spark.read.format("delta").load(layout.records).count()
        lake.spark.stop()
    if counted is None or counted[0] != read or read < 0.9 * seconds * chosen.rate:
        raise SystemExit(f"the counts add up to {counted}, bronze has {read} records")
    warm = seconds / 4
    drifts = slopes(samples, warm)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(), "load": LOAD, "warm": warm,
        "minutes": chosen.minutes, "rate": chosen.rate, "records": read, "upkeeps": seen.upkeeps,
        "failed": seen.failed, "what": WHAT, "drifts": drifts, "samples": samples,
    }  # fmt: skip
    chosen.out.write_text(json.dumps(found, indent=1) + "\n")
    title = f"{chosen.minutes:g} minutes at {chosen.rate:,} records a second, {read:,} records, {seen.upkeeps} upkeeps"
    rows = [
        [WHAT[name], f"{mean:,.2f}", f"{slope:+,.2f}", f"{100 * slope / mean:+.0f}%" if mean else ""]
        for name, (mean, slope) in drifts.items()
    ]
    show(title, ["what", "mean", "drift an hour", "of the mean"], rows)
    for failed in seen.failed:
        print(failed)


if __name__ == "__main__":
    main()
