"""What a crash left half written: a tick that only the tables of single topics have; logs without a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import JobFailed, LakehouseError, NotFound, StorageError
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import TablePlace
from lakehouse.run.job.job import Job
from lakehouse.run.repair.intervene import intervene
from lakehouse.spark.bronze import tick as bronze_tick
from lakehouse.spark.bronze.ingest import Ingest
from lakehouse.spark.bronze.interventions import InterventionRequest
from lakehouse.spark.changelog.upstream import open_lake

T = 1_700_000_000_000
NOBODYS = InterventionRequest("refold", ())


@pytest.fixture
def crash(monkeypatch):
    """crash(): from now on the append to bronze's main table fails; mend() ends that."""
    real = bronze_tick.append

    def failing(frame: Any, place: TablePlace, *rest: Any) -> None:
        if place.path.endswith("/bronze/records"):
            raise OSError("the disk is gone")
        real(frame, place, *rest)

    def start() -> None:
        monkeypatch.setattr(bronze_tick, "append", failing)

    def mend() -> None:
        monkeypatch.setattr(bronze_tick, "append", real)

    return start, mend


def counted(topic: str) -> lh.App:
    stream = lh.stream(topic, key="k string", schema="word string", format="kafka", own_table=True)
    return lh.app(stream.group_by("k").agg(n=lh.count()).table(topic.replace("-", "_")))


@pytest.mark.rotated
def test_another_applications_intervention_does_not_double_a_half_written_tick(
    lake, cluster, send, latest, bronze, spark: SparkSession, crash
) -> None:
    fail, mend = crash
    for topic in ("half-own", "half-other"):
        cluster.create(topic)
    send("half-own", [("k", "1", T)])
    one, app, other = lake(), counted("half-own"), latest("half-other")
    layout = Layout(one.settings.lake.path)
    one.run(app, until="caught_up", parts=("ingest",))
    send("half-own", [("k", "2", T), ("k", "3", T)])
    fail()
    with pytest.raises(JobFailed, match="the disk is gone"):
        one.run(app, until="caught_up", parts=("ingest",))
    mend()
    with pytest.raises(StorageError, match="topic 'half-own' has tick 2, which is not complete"):
        intervene(open_lake(spark, layout), other, NOBODYS)
    # Nor does ingest of the other application make another tick of that number: it completes this one.
    send("half-other", [("a", "x", T)])
    one.run(other, until="caught_up", parts=("ingest",))
    one.run(app, until="caught_up", parts=("ingest",))
    assert [(row["tick"], row["offset"]) for row in bronze(one, "half-own")] == [(1, 0), (2, 1), (2, 2)]
    assert [(row["tick"], row["topic"]) for row in bronze(one)] == [(3, "half-other")]
    assert intervene(open_lake(spark, layout), other, NOBODYS) == 4


# Slow: a half-written tick and a recreated topic are each in the core; this is both at once.
@pytest.mark.slow
def test_a_half_written_tick_of_a_recreated_topic_swallows_none_of_the_new_records(
    lake, cluster, send, bronze, crash
) -> None:
    fail, mend = crash
    cluster.create("half-anew")
    send("half-anew", [("k", "1", T)])
    one, app = lake(on_data_loss="record"), counted("half-anew")
    one.run(app, until="caught_up", parts=("ingest",))
    send("half-anew", [("k", "2", T), ("k", "3", T)])
    fail()
    with pytest.raises(JobFailed, match="the disk is gone"):
        one.run(app, until="caught_up", parts=("ingest",))
    mend()
    cluster.delete("half-anew")
    cluster.create("half-anew")
    send("half-anew", [("k", "new", T)])
    one.run(app, until="caught_up", parts=("ingest",))
    assert [(row["tick"], row["value"]) for row in bronze(one, "half-anew")] == [
        (1, b"1"), (2, b"2"), (2, b"3"), (3, b"new"),
    ]  # fmt: skip


@pytest.mark.rotated
def test_a_job_whose_tick_has_just_failed_takes_up_no_intervention(lake, cluster, send, bronze, crash) -> None:
    fail, mend = crash
    cluster.create("half-live")
    send("half-live", [("k", "1", T)])
    one, app = lake(), counted("half-live")
    ingest: Ingest = Job(one.spark, one.settings, app, cluster.bootstrap_servers)._ingest()
    fail()
    with ingest:
        query = ingest.start_query(available_now=True)
        with pytest.raises(Exception, match="the disk is gone"):
            query.awaitTermination()
        with pytest.raises(StorageError, match="not complete"):
            ingest.record_intervention(NOBODYS)
    mend()
    one.run(app, until="caught_up", parts=("ingest",))
    assert [(row["tick"], row["offset"]) for row in bronze(one, "half-live")] == [(1, 0)]


# Slow: two lakes from nothing.
@pytest.mark.slow
def test_logs_without_a_commit_are_no_tables_and_stand_in_nobodys_way(lake, cluster, send, spark: SparkSession) -> None:
    """Delta makes the folder of a log some time before the first commit, and makes no table over it."""
    cluster.create("half-made")
    send("half-made", [("k", "1", T), ("k", "2", T + 3 * 3_600_000), ("k", "late", T)])
    stream = lh.stream("half-made", key="k string", schema="word string", format="kafka", own_table=True)
    late = stream.group_by("k").window(lh.tumbling("1 hour", grace="1 minute")).agg(n=lh.count()).table("half_late")
    app = lh.app(*counted("half-made").tables, late)
    whole, killed = lake("whole"), lake("killed")
    root, other = Path(whole.settings.lake.path), Path(killed.settings.lake.path)
    whole.run(app, until="caught_up")
    intervene(open_lake(spark, Layout(str(root))), app, NOBODYS)
    made = [log.relative_to(root) for log in sorted(root.rglob("_delta_log"))]
    assert len(made) >= 7  # bronze's two, the quarantine, the tables, their state or late records, the interventions
    for log in made:
        (other / log).mkdir(parents=True)
        (other / log / ".00000000000000000000.json.0b1e.tmp").touch()

    with pytest.raises(NotFound, match="table 'half_made' does not exist"):
        killed.read(app.tables[0])
    killed.run(app, until="caught_up")
    intervene(open_lake(spark, Layout(str(other))), app, NOBODYS)
    for table in app.tables:
        assert killed.read(table).collect() == whole.read(table).collect() != []


def test_files_without_their_log_are_refused_and_stay(lake, cluster, latest) -> None:
    cluster.create("half-lost")
    one = lake()
    lost = Path(Layout(one.settings.lake.path).records, "topic=half-lost", "one.parquet")
    lost.parent.mkdir(parents=True)
    lost.write_bytes(b"rows")
    with pytest.raises(LakehouseError, match=r"Found topic=half-lost in .*/bronze/records, and no commit that names"):
        one.run(latest("half-lost"), until="caught_up")
    assert lost.read_bytes() == b"rows"
