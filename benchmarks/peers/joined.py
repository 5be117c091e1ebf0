"""lakehouse: a stream joined with a table by their key, the last joined record of each key. One argument: the work."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from work import Work

import lakehouse as lh
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load

clicks = lh.stream("clicks", key="user string", schema="amount bigint, note string")
users = lh.stream("users", key="user string", schema="city string").latest("users")
app = lh.app(clicks.join(users).latest("joined"))


def main() -> None:
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
    # A record finds what the table has when it arrives: the users come first.
    lake.run(lh.app(users), until="caught_up")
    lake.run(app, until="caught_up")
    print(json.dumps({"began": began * 1000, "ready": ready * 1000}))
    spark.stop()


if __name__ == "__main__":
    main()
