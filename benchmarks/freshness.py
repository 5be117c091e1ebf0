"""Freshness: 1,000 records a second for a minute; from the Kafka timestamp to being readable in bronze and in silver.

    .venv/bin/python benchmarks/freshness.py [--seconds N] [--rate N] [--warm N]

Needs a quiet machine. A record is readable when the log file of the commit that holds it is there: the file's time of
change is compared with the record's timestamp. The first --warm seconds (the JVM compiles) are left out, and said.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from pathlib import Path

import numpy as np
from common import TOPIC, app, lake_and_broker, record, show

from lakehouse.kafka.produce import produce
from lakehouse.lake import reader
from lakehouse.lake.commit_metadata import UnchangedRows
from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake


def offer(servers: str, seconds: float, rate: int, dice: random.Random | None = None) -> None:
    """Produce `rate` records a second, in bursts of a fiftieth of a second, each stamped with its own moment.

    dice: chooses the keys; without one every call chooses the same.
    """
    dice = dice or random.Random(7)
    began = time.time()
    sent = 0
    while (now := time.time()) < began + seconds:
        due = int((now - began) * rate)
        produce(servers, {}, TOPIC, (record(n, dice, int(now * 1000)) for n in range(sent, due)))
        sent = due
        time.sleep(max(0.0, 0.02 - (time.time() - now)))


def visible(path: str) -> dict[int, float]:
    """When each tick of a table became readable: tick -> seconds since the epoch."""
    found: dict[int, float] = {}
    for commit in reader.open_table(path, path).history():
        metadata = reader.parse_commit(commit, path)
        if metadata is not None and not isinstance(metadata.content, UnchangedRows):
            found[metadata.tick] = Path(path, "_delta_log", f"{commit['version']:020}.json").stat().st_mtime
    return found


def latencies(ticks: np.ndarray, stamps: np.ndarray, readable: dict[int, float]) -> np.ndarray:
    """Seconds from each record's timestamp to the first commit that covers its tick."""
    known = np.array(sorted(readable))
    moments = np.array([readable[tick] for tick in sorted(readable)])
    return moments[np.searchsorted(known, ticks)] - stamps


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--rate", type=int, default=1000)
    arguments.add_argument("--warm", type=float, default=60.0)
    chosen = arguments.parse_args()
    with lake_and_broker() as (settings, broker):
        lake = Lake(settings=settings)
        _ = lake.spark
        stop = threading.Event()
        job = threading.Thread(target=lambda: lake.run(app, stop=stop))
        job.start()
        offer(broker.bootstrap_servers, chosen.warm, chosen.rate)
        began = time.time()
        offer(broker.bootstrap_servers, chosen.seconds, chosen.rate)
        stop.set()
        job.join()
        lake.run(app, until="caught_up")
        layout = Layout(settings.lake.path)
        rows = reader.open_dataset(layout.records).to_table(columns=["tick", "timestamp"]).to_pandas()
        stamps = rows["timestamp"].astype("int64").to_numpy() / 1e6
        measured = (stamps >= began) & (stamps < began + chosen.seconds - 5)
        ticks, stamps = rows["tick"].to_numpy()[measured], stamps[measured]
        shown = []
        places = [("bronze", layout.records)] + [(f"silver {t.name}", layout.silver(t.name)) for t in app.tables]
        for name, path in places:
            late = latencies(ticks, stamps, visible(path))
            shown.append([name, *(f"{np.percentile(late, p):.2f}" for p in (50, 99, 100))])
        title = (
            f"freshness at {chosen.rate:,} records a second, {len(ticks):,} records, after {chosen.warm:g} s of warm-up"
        )
        show(title, ["readable in", "p50 (s)", "p99 (s)", "largest (s)"], shown)
        lake.spark.stop()


if __name__ == "__main__":
    main()
