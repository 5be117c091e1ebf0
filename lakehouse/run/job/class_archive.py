"""Writes Java's archive of classes, which a start of Spark maps instead of loading and verifying each class again.

It holds the classes that a small run on an embedded broker loads, in 220 MB beside the jars. Java uses the archive only
with the Java and the class path that made it; otherwise Java starts without, and nothing else changes. Java's own
description: JEP 350.
"""

from __future__ import annotations

import fcntl
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lakehouse.errors import StorageError
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.plan.aggregate_functions import count, latest
from lakehouse.plan.app import app
from lakehouse.plan.build import stream
from lakehouse.run.job.job import Job
from lakehouse.settings.config import load
from lakehouse.setup.places import jars_target
from lakehouse.spark.jvm.session.session import class_archive, open_session

TOPIC = "orders"
RECORDS = 500
PATIENCE_SECONDS = 120.0

orders = stream(TOPIC, key="id string", schema="customer string, amount bigint, at timestamp")
last = {name: latest(name) for name in ("amount", "at")}
application = app(orders.latest("latest"), orders.group_by("customer").agg(n=count(), **last).table("customers"))


def write_archive() -> bool:
    """Run the small application in a JVM that writes the archive when it ends; return False if these jars have one.

    Where Java can't write an archive, an empty file takes its place, so that no later set-up tries again. Raises
    StorageError then, and where Java is too slow, which a later set-up tries again; LakehouseError or PySparkException
    if the application did not run.
    """
    archive, target = class_archive(), jars_target()
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two set-ups at once, the second finds the work done
        if archive.is_file() and archive.stat().st_mtime_ns >= (target / "stamp.json").stat().st_mtime_ns:
            return False
        archive.unlink(missing_ok=True)  # a JVM that uses an archive can't write one
        fresh = archive.with_name(f".new-{archive.name}")
        try:
            _run_application(f'"-XX:ArchiveClassesAtExit={fresh}"')
            fresh.replace(archive) if fresh.is_file() else archive.touch()
        finally:
            fresh.unlink(missing_ok=True)
    if not archive.stat().st_size:
        raise StorageError(
            f"Java wrote no archive of classes; expected one in {archive}. Spark starts without it, some seconds "
            "later. Remove that file and run `lakehouse setup` to try once more."
        )
    return True


def _run_application(option: str) -> None:
    with tempfile.TemporaryDirectory(prefix="lakehouse-classes-") as name, Broker(Path(name, "kafka")) as broker:
        environ = {
            "LAKEHOUSE_LAKE_PATH": str(Path(name, "lake")),
            "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "LAKEHOUSE_SPARK_OPTIONS": json.dumps({"spark.driver.extraJavaOptions": option}),
            "LAKEHOUSE_SPARK_KEEP": "off",
        }
        Cluster(broker.bootstrap_servers).create(TOPIC, 2)
        settings = load(environ=environ, start=Path(name))
        spark: Any = open_session(settings)
        for first_number in (0, RECORDS):  # the second run merges into the rows of the first
            produce(broker.bootstrap_servers, {}, TOPIC, map(_make_record, range(first_number, first_number + RECORDS)))
            Job(spark, settings, application, broker.bootstrap_servers).until_caught_up()
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM ends, and writes the archive
        try:
            gateway.proc.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
            raise StorageError(
                f"Java was still writing them after {PATIENCE_SECONDS:g} s; expected less than a minute. Spark starts "
                "without them, some seconds later. Run `lakehouse setup` again when the machine is less busy."
            ) from None


def _make_record(number: int) -> ProducerRecord:
    value = {"customer": f"c{number % 7}", "amount": number, "at": "2026-01-31T12:00:00Z"}
    return ProducerRecord(f"k{number % 90}".encode(), json.dumps(value).encode())
