"""Records that Kafka lost before bronze had them: found, reported with the exact range, never skipped in silence."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from lakehouse.errors import DataLoss
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake

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
