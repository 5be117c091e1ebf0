"""A process that restores an application's tables, runs it, and kills itself at a given point.

    restoring.py LAKE SERVERS POINT      POINT: as the driver of the faults has them, or files:FOLDER:N

It does what a person does who starts it all again: what is restored already stays. At files:FOLDER:N it kills itself
when that folder of the lake has its N-th file of rows, which no commit names yet.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import lakehouse as lh
from lakehouse.errors import StorageError
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load

from ..faults.driver import kill_at
from .waiting import ORDERS, OUTER, pairs, published, topic_of

# What it keeps is in a topic of its own: open windows.
MANY = (
    ORDERS.group_by("who").window(lh.tumbling("10 seconds", grace="5 seconds"))
    .agg(n=lh.count(), all=lh.collect_list("amount")).having("n > 1").table("many", emit="final")
)  # fmt: skip
TABLES = (MANY, pairs(OUTER, "outer"))


def kill_with_files(folder: Path, count: int) -> None:
    """End this process as soon as there are so many files of a table that is not committed."""

    def watch() -> None:
        while len(list(folder.glob("*.parquet"))) < count:
            time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main(folder: str, servers: str, point: str) -> None:
    environ = {"LAKEHOUSE_LAKE_PATH": folder, "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers}
    lake = Lake(settings=load(environ=environ, start=Path(folder).parent))
    what, when, number = point.split(":")
    if what == "files":
        kill_with_files(Path(folder, when), int(number))
    else:
        kill_at(what, when, int(number))
    for table in TABLES:
        try:
            lake.restore(table, topic_of(table))
        except StorageError as error:
            if "exists in" not in str(error):
                raise
    lake.run(published(*TABLES), until="caught_up")


if __name__ == "__main__":
    main(*sys.argv[1:])
