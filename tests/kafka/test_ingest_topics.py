"""Topics of every kind: growing, transactional, compacted, found by a pattern, with a bronze table of their own."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.settings.config import load
from lakehouse.spark.bronze import bronze as bronze_table
from lakehouse.spark.changelog.upstream import open_lake

T = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WAIT_SECONDS = 60.0


def moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def identity(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


@pytest.mark.rotated
def test_new_partitions_are_read_from_their_first_record(
    lake, broker, cluster, send, latest, bronze, ingest, running
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def grow(partitions: int) -> None:
        admin.create_partitions([NewPartitions("in-grow", partitions)])["in-grow"].result()
        deadline = time.monotonic() + WAIT_SECONDS
        while cluster.topics(["in-grow"])["in-grow"].partitions < partitions:
            assert time.monotonic() < deadline
        cluster.offsets(("in-grow", p) for p in range(partitions))

    def send_to(partition: int, *values: str) -> None:
        # A new producer: an existing one learns of new partitions minutes later.
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for value in values:
            producer.produce("in-grow", value=value, key="k", partition=partition)
        assert producer.flush(WAIT_SECONDS) == 0

    cluster.create("in-grow")
    send("in-grow", [("k", "0", T, 0)])
    one, app = lake(), latest("in-grow")
    ingest(one, app)
    grow(2)
    send_to(1, "1", "2")
    assert ingest(one, app) == [(2, 2)]
    with running(one, app) as wait:
        send("in-grow", [("k", "3", T, 0)])
        wait(1)
        grow(3)
        send_to(2, "4", "5")
        wait(3)
    places = [(row["partition"], row["offset"]) for row in bronze(one)]
    assert sorted(places) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    assert ingest(one, app) == []


@pytest.mark.rotated
def test_aborted_records_never_come_and_markers_make_no_tick_of_their_own(
    lake, broker, cluster, send, latest, bronze, spark: SparkSession, ingest
) -> None:
    """
    offset   0 1 | 2      | 3 4 | 5     | 6 7  | 8     | 9
             txn | commit | txn | abort | txn  | abort | plain
    """
    cluster.create("in-txn")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "in-txn", "log_level": 0})
    producer.init_transactions()

    def transaction(values: list[str], commit: bool) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce("in-txn", value=value, key="k", timestamp=T)
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()

    one, app = lake(), latest("in-txn")
    transaction(["0", "1"], commit=True)
    assert ingest(one, app) == [(1, 2)]
    assert ingest(one, app) == []
    transaction(["3", "4"], commit=False)
    ingest(one, app)  # only aborted records: one tick may say so, and then no other
    layout = Layout(one.settings.lake.path)
    assert bronze_table.read_state(open_lake(spark, layout)).topics["in-txn"].order == {0: T}
    assert ingest(one, app) == []
    transaction(["6", "7"], commit=False)
    send("in-txn", [("k", "9", T - 50)])
    ingest(one, app)
    assert ingest(one, app) == []
    rows = bronze(one)
    assert [(row["offset"], row["value"]) for row in rows] == [(0, b"0"), (1, b"1"), (9, b"9")]
    assert [row["order_time"] for row in rows] == [moment(T)] * 3


@pytest.mark.slow
def test_a_pattern_takes_new_topics_too_and_a_list_stands_beside_it(
    lake, broker, cluster, send, bronze, latest, tmp_path, ingest
) -> None:
    environ = {
        "LAKEHOUSE_LAKE_PATH": str(tmp_path / "pattern"),
        "LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "LAKEHOUSE_KAFKA_TOPIC_PATTERN": r"in-pat\.\d+",
        "LAKEHOUSE_KAFKA_TOPICS": "in-listed",
    }
    one = Lake(settings=load(environ=environ, start=tmp_path))
    for topic in ("in-pat.1", "in-listed", "in-app", "in-pat.x", "in-pat.12x"):
        cluster.create(topic)
        send(topic, [("k", topic, T)])
    app = latest("in-app")
    assert ingest(one, app) == [(1, 3)]
    assert [row["topic"] for row in bronze(one)] == ["in-app", "in-listed", "in-pat.1"]
    cluster.create("in-pat.2")
    send("in-pat.2", [("k", "new", T)])
    assert ingest(one, app) == [(2, 1)]
    assert bronze(one)[-1]["topic_id"] == cluster.topics(["in-pat.2"])["in-pat.2"].id


@pytest.mark.slow
def test_a_topic_with_a_table_of_its_own_shares_the_ticks(
    lake, cluster, send, latest, bronze, spark: SparkSession, ingest
) -> None:
    shared, own = latest("in-shared"), latest("in-own", own_table=True)
    app = lh.app(*shared.tables, *own.tables)
    for topic in ("in-shared", "in-own"):
        cluster.create(topic)
        send(topic, [("a", "1", T), ("b", "2", T + 9)])
    one = lake()
    assert ingest(one, app) == [(1, 4)]
    send("in-own", [("a", "3", T + 1)])
    assert ingest(one, app) == [(2, 1)]
    assert ingest(one, app) == []
    assert identity(bronze(one)) == [("in-shared", 0, 0), ("in-shared", 0, 1)]
    rows = bronze(one, "in-own")
    assert [(row["offset"], row["tick"], row["order_time"]) for row in rows] == [
        (0, 1, moment(T)), (1, 1, moment(T + 9)), (2, 2, moment(T + 9)),
    ]  # fmt: skip
    layout = Layout(one.settings.lake.path)
    said = bronze_table.read_state(open_lake(spark, layout), ["in-own"])
    assert said.topics == bronze_table.state_from_rows(open_lake(spark, layout), ["in-own"]).topics
    one.run(app, until="caught_up", parts=("silver",))
    actual = {(row.k, row.word) for row in one.read(app.table("in_own")).collect()}
    assert actual == {("a", "3"), ("b", "2")}
    with pytest.raises(PlanError, match=r"'in-own': its rows lie in a table of its own .*own_table=True"):
        ingest(one, lh.app(*shared.tables, *latest("in-own").tables))
    with pytest.raises(PlanError, match=r"'in-shared': its rows lie in the shared table .*own_table=False"):
        ingest(one, lh.app(*own.tables, *latest("in-shared", own_table=True).tables))


@pytest.mark.slow
def test_silver_follows_when_only_the_tables_of_single_topics_grow(lake, cluster, send, latest, running) -> None:
    cluster.create("in-alone")
    send("in-alone", [("a", "1", T)])
    one, app = lake(), latest("in-alone", own_table=True)

    def rows() -> list[tuple[str, str]]:
        return [tuple(row) for row in one.read(app.table("in_alone")).collect()]

    one.run(app, until="caught_up")
    assert rows() == [("a", "1")]
    send("in-alone", [("a", "2", T)])
    one.run(app, until="caught_up")
    assert rows() == [("a", "2")]
    with running(one, app, parts=("ingest", "silver"), kind="batch") as wait:
        for number, value in enumerate(("3", "4"), start=1):
            send("in-alone", [("a", value, T)])
            wait(number)
            assert rows() == [("a", value)]


@pytest.mark.slow
def test_a_compacted_topic_with_holes(lake, cluster: Cluster, send, latest, bronze, records, ingest) -> None:
    config = {
        "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100", "delete.retention.ms": "100",
    }  # fmt: skip
    cluster.create("in-compact", config=config)
    now = time.time_ns() // 1_000_000  # Kafka's log cleaner goes by the records' times
    send("in-compact", [("a", str(n), now) for n in range(50)])
    one, app = lake(), latest("in-compact")
    deadline = time.monotonic() + WAIT_SECONDS
    while len(records("in-compact")) > 40:
        # A newer record closes a segment; the next run of the cleaner compacts it.
        assert time.monotonic() < deadline, "the broker did not compact the topic"
        send("in-compact", [("b", "x", time.time_ns() // 1_000_000)])
        time.sleep(0.2)
    ingest(one, app)
    left = [(m.offset(), m.key(), m.value()) for m in records("in-compact")]
    rows = [(row["offset"], row["key"], row["value"]) for row in bronze(one)]
    assert rows[-1] == left[-1]
    assert set(left) <= set(rows)
    assert 0 not in [offset for offset, _, _ in rows]  # there are holes
    assert ingest(one, app) == []
    send("in-compact", [("c", "last", now)])
    assert ingest(one, app) == [(2, 1)]
