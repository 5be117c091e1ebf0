"""Records that Kafka lost before bronze had them: found, reported with the exact range, never skipped in silence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import DataLoss, JobFailed
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import TablePlace
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load
from lakehouse.spark.bronze import ingest as ingest_module
from lakehouse.spark.bronze import tick as bronze_tick
from lakehouse.spark.bronze.gaps import Gap, KafkaTopic, accept_gaps

T = 1_700_000_000_000
WAIT_SECONDS = 60.0


@pytest.fixture
def expire(broker: Broker):
    """expire(topic, partition, offset): remove the records before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def remove(topic: str, partition: int, before: int) -> None:
        for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
            future.result()

    return remove


def written(spark: SparkSession, lake: Lake) -> list[tuple[Any, ...]]:
    frame = spark.read.format("delta").load(Layout(lake.settings.lake.path).gaps)
    names = ("topic", "topic_id", "partition", "from_offset", "to_offset", "tick")
    return sorted((tuple(row) for row in frame.select(*names).collect()), key=lambda row: (row[5], row[2], row[3]))


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


@pytest.mark.rotated
def test_expired_offsets_are_named_and_recorded_once(
    lake, cluster, send, latest, bronze, expire, spark: SparkSession, ingest
) -> None:
    cluster.create("dl-expired", partitions=2)
    topic_id = cluster.topics(["dl-expired"])["dl-expired"].id
    send("dl-expired", [("k", str(n), T, n % 2) for n in range(8)])
    one, app = lake(), latest("dl-expired")
    ingest(one, app)
    send("dl-expired", [("k", str(n), T, n % 2) for n in range(8)])
    expire("dl-expired", 0, 6)
    with pytest.raises(DataLoss) as actual:
        ingest(one, app)
    assert f"topic dl-expired (id {topic_id}) partition 0: offsets [4, 6): expired" in str(actual.value)
    assert 'on_data_loss = "record"' in str(actual.value)
    assert "partition 1" not in str(actual.value)
    assert len(bronze(one)) == 8  # nothing was written

    accepting = lake(on_data_loss="record")
    assert ingest(accepting, app) == [(2, 6)]
    gap = ("dl-expired", topic_id, 0, 4, 6, 1)
    assert written(spark, one) == [gap]
    assert sorted(places(bronze(one))) == [(0, n) for n in (0, 1, 2, 3, 6, 7)] + [(1, n) for n in range(8)]

    expire("dl-expired", 1, 8)  # what bronze has may expire
    assert ingest(one, app) == []  # accepted: it is not reported again
    assert written(spark, one) == [gap]


@pytest.mark.slow
def test_an_accepted_gap_that_has_grown_is_reported_from_its_old_end(
    lake, cluster, send, latest, expire, spark: SparkSession, ingest
) -> None:
    cluster.create("dl-grown")
    topic_id = cluster.topics(["dl-grown"])["dl-grown"].id
    send("dl-grown", [("k", "v", T)] * 2)
    one, app = lake(), latest("dl-grown")
    ingest(one, app)
    send("dl-grown", [("k", "v", T)] * 4)
    expire("dl-grown", 0, 6)
    accepting = lake(on_data_loss="record")
    assert ingest(accepting, app) == []  # nothing is left to read: no tick carries the gap
    send("dl-grown", [("k", "v", T)] * 2)
    expire("dl-grown", 0, 7)
    with pytest.raises(DataLoss, match=r"offsets \[6, 7\): expired"):
        ingest(one, app)
    assert ingest(accepting, app) == [(2, 1)]
    assert written(spark, one) == [("dl-grown", topic_id, 0, 2, 6, 1), ("dl-grown", topic_id, 0, 6, 7, 1)]


@pytest.mark.slow
def test_what_expired_before_the_first_run_is_no_loss(lake, cluster, send, latest, bronze, expire, ingest) -> None:
    cluster.create("dl-before")
    send("dl-before", [("k", "v", T)] * 5)
    expire("dl-before", 0, 5)
    one, app = lake(), latest("dl-before")
    assert ingest(one, app) == []
    send("dl-before", [("k", "v", T)] * 2)
    assert ingest(one, app) == [(1, 2)]
    assert places(bronze(one)) == [(0, 5), (0, 6)]
    assert ingest(one, app) == []


@pytest.mark.rotated
def test_a_recreated_topic_is_another_topic(lake, cluster, send, latest, bronze, spark: SparkSession, ingest) -> None:
    cluster.create("dl-anew")
    old = cluster.topics(["dl-anew"])["dl-anew"].id
    send("dl-anew", [("k", f"old {n}", T + 100) for n in range(2)])
    one, app = lake(), latest("dl-anew")
    ingest(one, app)
    cluster.delete("dl-anew")
    cluster.create("dl-anew")
    new = cluster.topics(["dl-anew"])["dl-anew"].id
    send("dl-anew", [("k", f"new {n}", T) for n in range(4)])
    message = rf"topic dl-anew \(id {old}\) partition 0: offsets \[2, unknown\): .*recreated \(id {new}\)"
    with pytest.raises(DataLoss, match=message):
        ingest(one, app)
    assert len(bronze(one)) == 2
    accepting = lake(on_data_loss="record")
    assert ingest(accepting, app) == [(2, 4)]
    assert written(spark, one) == [("dl-anew", old, 0, 2, None, 1)]
    rows = [(row["topic_id"], row["offset"], row["value"], row["order_time"].timestamp()) for row in bronze(one)]
    # Another topic: offsets and order times begin again.
    assert rows == [
        *[(old, n, f"old {n}".encode(), T / 1000 + 0.1) for n in range(2)],
        *[(new, n, f"new {n}".encode(), T / 1000) for n in range(4)],
    ]
    assert ingest(one, app) == []
    assert written(spark, one) == [("dl-anew", old, 0, 2, None, 1)]


@pytest.mark.slow
def test_a_topic_recreated_while_the_job_runs_is_found(lake, cluster, send, latest, bronze) -> None:
    cluster.create("dl-live")
    old = cluster.topics(["dl-live"])["dl-live"].id
    send("dl-live", [("k", "old", T)] * 2)
    one, app = lake(), latest("dl-live")
    came, failure, stop = threading.Event(), [], threading.Event()

    def work() -> None:
        try:
            one.run(app, stop=stop, parts=("ingest",), listen=lambda event: came.set())
        except DataLoss as error:
            failure.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert came.wait(WAIT_SECONDS)
        cluster.delete("dl-live")
        cluster.create("dl-live")
        send("dl-live", [("k", "new", T)] * 5)  # more than bronze has: Spark alone would go on in silence
        thread.join(WAIT_SECONDS)
    finally:
        stop.set()
        thread.join(WAIT_SECONDS)
    assert len(failure) == 1
    assert f"topic dl-live (id {old}) partition 0: offsets [2, unknown)" in str(failure[0])
    assert [row["value"] for row in bronze(one)] == [b"old"] * 2


@pytest.mark.slow
def test_a_deleted_topic_of_a_pattern_is_named(lake, cluster, send, latest, monkeypatch, broker, ingest) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA_TOPIC_PATTERN", r"dl-pattern-\d")
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    one, app = Lake(lake("pattern").settings.lake.path), latest("dl-listed")
    for topic in ("dl-listed", "dl-pattern-1"):
        cluster.create(topic)
        send(topic, [("k", "v", T)] * 3)
    assert ingest(one, app) == [(1, 6)]
    cluster.delete("dl-pattern-1")
    with pytest.raises(DataLoss, match=r"topic dl-pattern-1 .* offsets \[3, unknown\): the topic was deleted"):
        ingest(one, app)


@pytest.fixture
def by_pattern(broker: Broker, tmp_path: Path) -> Callable[..., Lake]:
    """by_pattern(pattern, on_data_loss): the lake of the test, whose feed has the topics that match, too."""

    def make(pattern: str, on_data_loss: str) -> Lake:
        environ = {
            "LAKEHOUSE_LAKE_PATH": str(tmp_path / "lake"),
            "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "LAKEHOUSE_KAFKA_TOPIC_PATTERN": pattern,
            "LAKEHOUSE_RUN_ON_DATA_LOSS": on_data_loss,
        }
        (tmp_path / "lake").mkdir(exist_ok=True)
        return Lake(settings=load(environ=environ, start=tmp_path))

    return make


@pytest.mark.rotated
def test_a_topic_that_was_only_out_of_sight_is_not_read_again(
    cluster, send, latest, bronze, ingest, by_pattern, monkeypatch
) -> None:
    app, one = latest("dl-sight-listed"), by_pattern("dl-sight-.*", "record")
    monkeypatch.setattr(ingest_module, "LOOK_AGAIN_SECONDS", 0.01)
    for topic in ("dl-sight-listed", "dl-sight-hidden"):
        cluster.create(topic)
        send(topic, [("k", "1", T)])
    ingest(one, app)
    listed = Cluster.names
    # The list of topics lacks it: Kafka is asked for it by its name.
    monkeypatch.setattr(Cluster, "names", lambda self: [name for name in listed(self) if name != "dl-sight-hidden"])
    send("dl-sight-hidden", [("k", "2", T)])
    assert ingest(one, app) == [(2, 1)]
    # Nor does the broker know the name, as one that has just started. Spark sees the topic, and lacks its offsets.
    with monkeypatch.context() as unknown:
        unknown.setattr(Cluster, "existing_topics", lambda self, names: {})
        facts = Cluster._describe_topics
        unknown.setattr(Cluster, "topics", lambda self, names: facts(self, ["dl-sight-listed"], may_lack=True))
        with pytest.raises(JobFailed, match="startingOffsets"):
            ingest(one, app)
    monkeypatch.undo()
    assert ingest(one, app) == []
    send("dl-sight-hidden", [("k", "3", T)])
    assert ingest(by_pattern("dl-sight-.*", "fail"), app) == [(3, 1)]
    rows = [row["offset"] for row in bronze(one) if row["topic"] == "dl-sight-hidden"]
    assert rows == [0, 1, 2]


@pytest.mark.slow
def test_the_loss_of_a_deleted_topic_of_a_pattern_is_accepted_once(
    cluster, send, latest, bronze, ingest, by_pattern, spark: SparkSession
) -> None:
    app = latest("dl-twice-listed")
    accepting, failing = by_pattern("dl-twice-.*", "record"), by_pattern("dl-twice-.*", "fail")
    for topic in ("dl-twice-listed", "dl-twice-gone"):
        cluster.create(topic)
        send(topic, [("k", "1", T)])
    ingest(failing, app)
    old = cluster.topics(["dl-twice-gone"])["dl-twice-gone"].id
    cluster.delete("dl-twice-gone")
    with pytest.raises(DataLoss, match=r"dl-twice-gone .* offsets \[1, unknown\): the topic was deleted"):
        ingest(failing, app)
    send("dl-twice-listed", [("k", "2", T)])
    assert ingest(accepting, app) == [(2, 1)]
    gap = ("dl-twice-gone", old, 0, 1, None, 1)
    assert written(spark, accepting) == [gap]
    assert ingest(failing, app) == []
    cluster.create("dl-twice-gone")
    send("dl-twice-gone", [("k", "new", T)])
    assert ingest(failing, app) == [(3, 1)]  # another topic, from its first record
    assert [(row["tick"], row["offset"]) for row in bronze(failing) if row["topic"] == "dl-twice-gone"] == [
        (1, 0), (3, 0),
    ]  # fmt: skip
    assert written(spark, failing) == [gap]


def test_an_accepted_loss_is_that_of_the_place_where_the_topic_was() -> None:
    here = {"one": TopicState("old", {0: 5, 1: 7}, {0: 1, 1: 1})}
    lost = [Gap("one", "old", 0, 5, None, "deleted"), Gap("one", "old", 1, 7, None, "deleted")]
    other = {"one": KafkaTopic("new", {0: (0, 1)})}
    assert accept_gaps(here, lost, other) == {}
    assert accept_gaps(here, lost, {}) == here  # it may only be out of sight
    assert accept_gaps(here, lost, {"one": KafkaTopic("old", {0: (0, 5), 1: (0, 7)})}) == here
    assert accept_gaps(here, lost[:1], other) == here
    later = {"one": TopicState("old", {0: 5, 1: 8}, {0: 1, 1: 2})}  # it came back, and was lost later
    assert accept_gaps(later, lost, other) == later


@pytest.mark.slow
def test_what_a_killed_ingest_left_in_an_own_table_is_not_lost_when_it_expires(
    lake, cluster, send, latest, bronze, expire, ingest, spark: SparkSession, monkeypatch
) -> None:
    """It was killed between the append to an own table and the one that completes the tick; then retention came."""
    for topic in ("dl-half-own", "dl-half-shared"):
        cluster.create(topic)
        send(topic, [("k", "1", T)])
    one, accepting = lake(), lake(on_data_loss="record")
    app = lh.app(*latest("dl-half-own", own_table=True).tables, *latest("dl-half-shared").tables)
    ingest(one, app)
    for topic in ("dl-half-own", "dl-half-shared"):
        send(topic, [("k", "2", T + 100), ("k", "3", T + 100)])
    append = bronze_tick.append

    def fail_at_last(frame: Any, place: TablePlace, *rest: Any) -> None:
        if place.path.endswith("/bronze/records"):
            raise OSError("the disk is gone")
        append(frame, place, *rest)

    with monkeypatch.context() as crashing:
        crashing.setattr(bronze_tick, "append", fail_at_last)
        with pytest.raises(JobFailed, match="the disk is gone"):
            ingest(one, app)
    expire("dl-half-own", 0, 3)
    expire("dl-half-shared", 0, 2)
    with pytest.raises(DataLoss, match=r"dl-half-shared .* offsets \[1, 2\): expired") as actual:
        ingest(one, app)
    assert "dl-half-own" not in str(actual.value)
    send("dl-half-own", [("k", "4", T + 50)])
    ingest(accepting, app)
    rows = [(row["tick"], row["offset"], row["order_time"].timestamp()) for row in bronze(one, "dl-half-own")]
    first, later = T / 1000, T / 1000 + 0.1
    assert rows == [(1, 0, first), (2, 1, later), (2, 2, later), (3, 3, later)]
    assert [(row["tick"], row["offset"]) for row in bronze(one)] == [(1, 0), (2, 2)]
    assert [gap[:1] + gap[2:5] for gap in written(spark, one)] == [("dl-half-shared", 0, 1, 2)]
    assert ingest(one, app) == []
