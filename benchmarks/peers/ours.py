"""lakehouse: one table with a count and the last values of each key. One argument: the work, see `work.py`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from work import SCHEMA, TOPIC, VALUES, Work

import lakehouse as lh
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load

events = lh.stream(TOPIC, key="id string", schema=SCHEMA)
last = {name: lh.latest(name, ignore_nulls=False) for name in VALUES}
app = lh.app(events.group_by("id").agg(n=lh.count(), **last).table("events"))


def catch_up(*apps: lh.App) -> None:
    """Bring each application up to date, in its turn, and tell when; the work is the program's argument."""
    began = time.time()
    work = Work.of(sys.argv[1])
    environ = {
        "LAKEHOUSE_LAKE_PATH": work.folder,
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": work.servers,
        "LAKEHOUSE_SPARK_MEMORY": work.memory,
    }
    lake = Lake(settings=load(environ=environ, start=Path(work.folder)))
    spark = lake.spark
    ready = time.time()
    for each in apps:
        lake.run(each, until="caught_up")
    print(json.dumps({"began": began * 1000, "ready": ready * 1000}))
    spark.stop()


if __name__ == "__main__":
    catch_up(app)
