"""What Hadoop's processes cost a small commit: an append of 100 rows, in turns, as we set Spark and by Spark's default.

.venv/bin/python benchmarks/commit.py [--commits N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from common import show

from lakehouse.settings.config import load
from lakehouse.spark.jvm.session.session import LOCAL_FILES, open_session

((SETTING, OURS),) = LOCAL_FILES.items()
DEFAULT = OURS.replace("FileSystemBased", "FileContextBased")
WARM_UP = 10


def started() -> int:
    """Return how many processes and threads the machine has started so far."""
    lines = Path("/proc/stat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("processes"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=30)
    commits = parser.parse_args().commits
    seconds: dict[str, list[float]] = {OURS: [], DEFAULT: []}
    processes: dict[str, list[int]] = {OURS: [], DEFAULT: []}
    with tempfile.TemporaryDirectory() as folder:
        spark = open_session(load(environ={"LAKEHOUSE_LAKE_PATH": f"{folder}/lake"}, start=Path(folder)))
        rows = spark.range(100)
        rows.write.format("delta").save(f"{folder}/table")
        for number in range(WARM_UP + commits):
            for way in seconds:
                spark.conf.set(SETTING, way)
                before, began = started(), time.monotonic()
                rows.write.format("delta").mode("append").save(f"{folder}/table")
                if number >= WARM_UP:
                    seconds[way].append(time.monotonic() - began)
                    processes[way].append(started() - before)
        spark.stop()
    show(
        f"an append of 100 rows, medians of {commits}",
        ["files of a local disk", "seconds", "processes and threads started"],
        [
            [name, f"{median(seconds[way]):.3f}", f"{median(processes[way]):.0f}"]
            for name, way in (("as we set it", OURS), ("Spark's default", DEFAULT))
        ],
    )


if __name__ == "__main__":
    main()
