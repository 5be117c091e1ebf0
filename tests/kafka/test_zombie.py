"""Two writers of one table: the lease keeps the second out; where it can't see the first, the epoch fences it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakehouse as lh
from lakehouse.errors import Fenced, LeaseHeld
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import bronze_place
from lakehouse.run.job.job import Job
from lakehouse.spark.bronze.ingest import Ingest
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.silver.writer import SilverWriter
from lakehouse.spark.transaction import read_progress

from ..good_records import NoneBad

T = 1_700_000_000_000
HOLD = """
import sys
from lakehouse.lake.control.lease import Lease
from lakehouse.spark.open_lake import OpenLake
Lease(sys.argv[1], "x").acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_told_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "leases" / "silver-t.lock"
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(LeaseHeld, match=rf"table 't' is being written by another process: .*process {child.pid},"):
            Lease(str(path), "table 't'").acquire()
    finally:
        child.kill()
        child.wait(30)
    # The operating system released it; no clean-up was needed.
    with Lease(str(path), "table 't'"), pytest.raises(LeaseHeld):
        Lease(str(path), "table 't'").acquire()


# Slow: without Kafka the core has it in tests/spark/test_two_starters.py.
@pytest.mark.slow
def test_a_zombie_writer_of_a_table_is_fenced(lake, cluster, send, spark: SparkSession) -> None:
    cluster.create("zombie-silver")
    stream = lh.stream("zombie-silver", key="k string", schema="n bigint", format="kafka")
    table = stream.group_by("k").agg(records=lh.count(), total=lh.sum("n")).table("zombie")
    one, app = lake(), lh.app(table)
    layout = Layout(one.settings.lake.path)

    def tick(n: int) -> None:
        send("zombie-silver", [("k", n.to_bytes(8, "big").decode("latin-1"), T)])
        one.run(app, until="caught_up", parts=("ingest",))

    def rows() -> list[tuple[object, ...]]:
        return [tuple(row) for row in one.read(table).collect()]

    tick(1)
    zombie = SilverWriter(open_lake(spark, layout).open(table), uuid.uuid4().hex)
    successor = SilverWriter(open_lake(spark, layout).open(table), uuid.uuid4().hex)
    with zombie:
        assert zombie.apply(1, NoneBad()) == 1
        zombie._lease.release()  # as on a file system whose locks the other machine does not see
        with successor:
            tick(2)
            # The zombie is first: its number is too small, though the tick is new.
            with pytest.raises(Fenced, match="Another writer has taken it over"):
                zombie.apply(2, NoneBad())
            assert rows() == [("k", 1, 1)]
            assert successor.apply(2, NoneBad()) == 1
            assert rows() == [("k", 2, 3)]
            # And after it: the tick is already there.
            with pytest.raises(Fenced):
                zombie.apply(2, NoneBad())
            assert rows() == [("k", 2, 3)]
            tick(3)
            assert successor.apply(3, NoneBad()) == 1
    assert rows() == [("k", 3, 6)]


def finish(query: StreamingQuery, ingest: Ingest) -> None:
    """Wait for the query's end, and raise its error."""
    with contextlib.suppress(StreamingQueryException):
        query.awaitTermination()
    ingest.check_query(query)


def test_a_zombie_writer_of_bronze_is_fenced(lake, cluster, send, latest, bronze, spark: SparkSession) -> None:
    cluster.create("zombie-bronze")
    one, app = lake(), latest("zombie-bronze")
    layout = Layout(one.settings.lake.path)
    send("zombie-bronze", [("k", "1", T)])
    one.run(app, until="caught_up", parts=("ingest",))

    def job() -> Ingest:
        return Job(one.spark, one.settings, app, cluster.bootstrap_servers)._ingest()

    with job() as zombie:
        zombie._lease.release()
        with job() as successor:
            send("zombie-bronze", [("k", "2", T)])
            query = zombie.start_query(available_now=True)
            with pytest.raises(Fenced, match="Another writer has taken it over"):
                finish(query, zombie)
            assert read_progress(spark, bronze_place(layout)).tick == 1
            query = successor.start_query(available_now=True)
            finish(query, successor)
    assert [(row["tick"], row["offset"], row["value"]) for row in bronze(one)] == [(1, 0, b"1"), (2, 1, b"2")]
