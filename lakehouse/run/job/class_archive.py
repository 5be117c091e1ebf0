"""Writes Java's archive of classes, which a start of Spark maps instead of loading and verifying each class again.

    python -m lakehouse.run.job.class_archive

It holds what a small run on an embedded broker loads, in 220 MB beside the jars. Java takes it only with the Java and
the class path it was made with; otherwise it starts without, and nothing else changes. Java's own description: JEP 350.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lakehouse.errors import LakehouseError, StorageError
from lakehouse.kafka.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.plan.aggregates import count, latest
from lakehouse.plan.app import app
from lakehouse.plan.build import stream
from lakehouse.run.job.job import Job
from lakehouse.settings.config import load
from lakehouse.spark.session import class_archive, open_session

TOPIC = "orders"
RECORDS = 500
PATIENCE_SECONDS = 120.0

orders = stream(TOPIC, key="id string", schema="customer string, amount bigint, at timestamp")
last = {name: latest(name) for name in ("amount", "at")}
application = app(orders.latest("latest"), orders.group_by("customer").agg(n=count(), **last).table("customers"))


def write(archive: Path) -> None:
    """Run the small application in a JVM that writes the archive when it ends. Raises StorageError."""
    archive.unlink(missing_ok=True)  # a JVM that has one can't write one
    fresh = archive.with_name(f".new-{archive.name}")
    options = f'"-XX:ArchiveClassesAtExit={fresh}" -Xlog:cds=off -Xlog:cds+dynamic=off'
    with tempfile.TemporaryDirectory(prefix="lakehouse-classes-") as name, Broker(Path(name, "kafka")) as broker:
        environ = {
            "LAKEHOUSE_LAKE_PATH": str(Path(name, "lake")),
            "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "LAKEHOUSE_SPARK_OPTIONS": json.dumps({"spark.driver.extraJavaOptions": options}),
        }
        Cluster(broker.bootstrap_servers).create(TOPIC, 2)
        settings = load(environ=environ, start=Path(name))
        spark: Any = open_session(settings)
        for first in (0, RECORDS):  # the second run merges into rows
            produce(broker.bootstrap_servers, {}, TOPIC, map(_record, range(first, first + RECORDS)))
            Job(spark, settings, application, broker.bootstrap_servers).until_caught_up()
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # it ends, and writes
        gateway.proc.wait(PATIENCE_SECONDS)
    if not fresh.is_file():
        raise StorageError(f"Java wrote no archive of classes to {fresh}; expected one. Spark starts without, slower.")
    fresh.replace(archive)


def _record(number: int) -> ProducerRecord:
    value = {"customer": f"c{number % 7}", "amount": number, "at": "2026-01-31T12:00:00Z"}
    return ProducerRecord(f"k{number % 90}".encode(), json.dumps(value).encode())


def main() -> int:
    """The command. Returns the exit code: 0 written, 1 with the reason on stderr."""
    began = time.monotonic()
    archive = class_archive()
    try:
        write(archive)
    except (LakehouseError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    size = archive.stat().st_size >> 20
    print(f"classes: {archive.name}, {size} MB, so that Spark starts sooner ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
