"""A process that runs an application with alerts, and kills itself in the call of a function.

alerting.py LAKE SERVERS TOLD NTH     TOLD: a file, a line for each alert told. NTH: it kills itself at that line
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import lakehouse as lh
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load

NUMBERS = lh.stream("alerted-numbers", key="id string", schema="room string, n bigint")
ROOMS = NUMBERS.group_by("room").agg(total=lh.sum("n")).table("alerted_rooms")


def application(told: Path, nth: int = 0) -> lh.App:
    """The alert goes to a topic, and to a function."""

    def tell(record: lh.StreamRecord) -> None:
        with told.open("a") as file:
            file.write(json.dumps([record.id, record.key, record.value]) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if len(told.read_text().splitlines()) == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    above = ROOMS.alert("above", "total > 10", on="both")
    return lh.app(above.to_topic("alerts"), above.to_function("tell", tell))


if __name__ == "__main__":
    folder, servers, told, nth = sys.argv[1:]
    environ = {"LAKEHOUSE_LAKE_PATH": folder, "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": servers}
    Lake(settings=load(environ=environ, start=Path(folder).parent)).run(
        application(Path(told), int(nth)), until="caught_up"
    )
