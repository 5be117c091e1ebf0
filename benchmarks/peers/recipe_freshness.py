"""The recipe's freshness, as `freshness.py` measures lakehouse's: the same records, rate, tables and percentiles.

    .venv/bin/python benchmarks/peers/recipe_freshness.py [--seconds N] [--rate N] [--warm N] [--tuned]

Needs a quiet machine. A record is readable in bronze when the log file of its commit is there; in a table when that of
the batch is there which read this commit of bronze, by the stream's own checkpoint. The counts are checked.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from deltalake import DeltaTable

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from common import PARTITIONS, TOPIC, show  # noqa: E402
from freshness import offer  # noqa: E402

from lakehouse.kafka.embedded.broker import Broker  # noqa: E402
from lakehouse.kafka.topics import Cluster  # noqa: E402

TABLES = ("latest", "counts")
PATIENCE_SECONDS = 600.0


def log(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020}.json"


def stamps(bronze: Path) -> list[tuple[np.ndarray, float]]:
    """Of each commit of bronze: its records' timestamps and the moment it became readable, in seconds since 1970."""
    found = []
    for file in sorted((bronze / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        files = [bronze / action["add"]["path"] for action in actions if "add" in action]
        columns = [pq.read_table(one, columns=["timestamp"])["timestamp"].to_numpy() for one in files]
        each = [column.astype("datetime64[us]").astype("int64") / 1e6 for column in columns]
        found.append((np.concatenate(each) if each else np.array([]), file.stat().st_mtime))
    return found


def batches(offsets: Path) -> list[tuple[int, float]]:
    """Of each batch of silver: the last commit of bronze that it read, and when it was planned."""
    found = []
    for number in sorted(int(each.name) for each in offsets.iterdir() if each.name.isdigit()):
        file = offsets / str(number)
        end = json.loads(file.read_text().splitlines()[-1])
        # Files up to `index` of this version; a negative one stands before its first file.
        last = end["reservoirVersion"] if end["index"] >= 0 else end["reservoirVersion"] - 1
        found.append((last, file.stat().st_mtime))
    return found


def readable(planned: list[tuple[int, float]], merges: list[float], commits: int) -> np.ndarray:
    """When a table had each commit of bronze: with the first MERGE after its batch was planned.

    A batch without rows leaves no commit in the table, so numbers of batches say nothing of its versions.
    """
    ends, began = (np.array(each) for each in zip(*planned, strict=True))
    moments = np.array(merges)[np.searchsorted(merges, began[np.searchsorted(ends, np.arange(commits))])]
    return np.asarray(moments)


def counted(folder: Path) -> int:
    """The records that the table of counts holds now."""
    path = folder / "silver" / "counts"
    if not log(path, 1).exists():
        return 0
    return int(DeltaTable(str(path)).to_pyarrow_table(columns=["n"]).to_pandas()["n"].sum())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--rate", type=int, default=1000)
    arguments.add_argument("--warm", type=float, default=60.0)
    arguments.add_argument("--tuned", action="store_true", help="with our session's settings for small machines")
    chosen = arguments.parse_args()
    name = "recipe, tuned" if chosen.tuned else "recipe"
    with tempfile.TemporaryDirectory(prefix="lakehouse-recipe-") as place, Broker(Path(place, "kafka")) as broker:
        folder = Path(place, "lake")
        servers = broker.bootstrap_servers
        cluster = Cluster(servers)
        cluster.create(TOPIC, PARTITIONS)
        command = [sys.executable, str(HERE / "recipe_stream.py"), servers, str(folder)]
        process = subprocess.Popen([*command, *(["--tuned"] if chosen.tuned else [])], stderr=subprocess.DEVNULL)
        while not (folder / "checkpoints" / "bronze" / "offsets" / "0").exists() and process.poll() is None:
            time.sleep(0.1)
        offer(servers, chosen.warm, chosen.rate)
        began = time.time()
        offer(servers, chosen.seconds, chosen.rate)
        ends = cluster.offsets((TOPIC, partition) for partition in range(PARTITIONS))
        sent = sum(end for _, end in ends.values())
        until = time.time() + PATIENCE_SECONDS
        while counted(folder) < sent and process.poll() is None and time.time() < until:
            time.sleep(1.0)
        ended = process.poll()
        process.kill()
        process.wait()
        if ended is not None or (found := counted(folder)) != sent:
            raise SystemExit(f"{name}: ended with {ended}" if ended is not None else f"{name}: {found} of {sent}")
        commits = stamps(folder / "bronze" / "records")
        planned = batches(folder / "checkpoints" / "silver" / "offsets")
        known = np.concatenate([each for each, _ in commits])
        measured = (known >= began) & (known < began + chosen.seconds - 5)

        def row(what: str, moments: Sequence[float]) -> list[str]:
            late = (np.repeat(moments, [len(each) for each, _ in commits]) - known)[measured]
            return [what, *(f"{np.percentile(late, p):.2f}" for p in (50, 99, 100))]

        shown = [row("bronze", [moment for _, moment in commits])]
        for table in TABLES:
            # The first commit made the table.
            files = sorted((folder / "silver" / table / "_delta_log").glob("*.json"))[1:]
            merges = [file.stat().st_mtime for file in files]
            shown.append(row(f"silver {table}", readable(planned, merges, len(commits)).tolist()))
        title = f"{name}: freshness at {chosen.rate:,} records a second, {int(measured.sum()):,} records"
        show(title, ["readable in", "p50 (s)", "p99 (s)", "largest (s)"], shown)


if __name__ == "__main__":
    main()
