"""Kafka to bronze: every committed record once, with its position, whatever the ticks were and whatever was lost."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.delta import bronze as bronze_table
from lakehouse.delta.layout import Layout
from lakehouse.errors import NotFound, StorageError
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.run.lake import Lake

INGEST = ("ingest",)
T = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WAIT_SECONDS = 60.0


def moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def ingest(lake: Lake, app: lh.App) -> list[tuple[int, int]]:
    """Run until caught up; return the ticks: (tick, rows)."""
    ticks: list[tuple[int, int]] = []
    lake.run(app, until="caught_up", parts=INGEST, listen=lambda event: ticks.append((event.tick, event.records)))
    return ticks


@contextmanager
def running(lake: Lake, app: lh.App) -> Iterator[Callable[[int], None]]:
    """Ingest in a thread; gives a function that waits until so many rows have come."""
    stop, came, rows = threading.Event(), threading.Condition(), 0
    failure: list[BaseException] = []

    def listen(event: Any) -> None:
        nonlocal rows
        with came:
            rows += event.records
            came.notify_all()

    def work() -> None:
        try:
            lake.run(app, stop=stop, parts=INGEST, listen=listen)
        except BaseException as error:
            failure.append(error)
            with came:
                came.notify_all()

    def wait(wanted: int) -> None:
        with came:
            assert came.wait_for(lambda: rows >= wanted or failure, WAIT_SECONDS), f"{rows} of {wanted} rows came"

    thread = threading.Thread(target=work, name="ingest-test")
    thread.start()
    try:
        yield wait
    finally:
        stop.set()
        thread.join(WAIT_SECONDS)
        if failure:
            raise failure[0]


def identity(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def test_a_row_is_the_record_as_kafka_has_it(lake, broker, cluster, latest, bronze) -> None:
    cluster.create("in-row", partitions=2)
    headers = (("a", b"\x00\xff"), ("a", None), ("", b""))
    records = [
        ProducerRecord(b"k\x00", b"\xff\xfe", T, headers, partition=1),
        ProducerRecord(None, None, T + 5, partition=1),
        ProducerRecord(b"", b"", T - 7, partition=0),
    ]
    produce(broker.bootstrap_servers, {}, "in-row", records)
    one = lake()
    assert ingest(one, latest("in-row")) == [(1, 3)]
    common = {"topic": "in-row", "topic_id": cluster.topics(["in-row"])["in-row"].id, "timestamp_type": 0, "tick": 1}
    kept = [{"key": "a", "value": b"\x00\xff"}, {"key": "a", "value": None}, {"key": "", "value": b""}]
    assert bronze(one) == [
        {
            **common, "partition": 0, "offset": 0, "timestamp": moment(T - 7), "order_time": moment(T - 7),
            "headers": None, "key": b"", "value": b"",
        },
        {
            **common, "partition": 1, "offset": 0, "timestamp": moment(T), "order_time": moment(T),
            "headers": kept, "key": b"k\x00", "value": b"\xff\xfe",
        },
        {
            **common, "partition": 1, "offset": 1, "timestamp": moment(T + 5), "order_time": moment(T + 5),
            "headers": None, "key": None, "value": None,
        },
    ]  # fmt: skip


def test_several_topics_are_one_commit_a_tick_and_a_run_without_news_makes_none(
    lake, cluster, send, latest, bronze, spark: SparkSession
) -> None:
    for topic, partitions in (("in-many-a", 2), ("in-many-b", 1)):
        cluster.create(topic, partitions=partitions)
        send(topic, [(f"k{n}", f"{topic} {n}", T + n, n % partitions) for n in range(4)])
    one, app = lake(), latest("in-many-a", "in-many-b")
    assert ingest(one, app) == [(1, 8)]
    layout = Layout(one.settings.lake.path)
    assert bronze_table.last_covers(spark, layout.records)["tick"] == 1
    assert ingest(one, app) == []
    send("in-many-b", [("k9", "x", T, 0)])
    assert ingest(one, app) == [(2, 1)]
    assert identity(bronze(one)) == [
        *[("in-many-a", p, n) for p in (0, 1) for n in (0, 1)],
        *[("in-many-b", 0, n) for n in range(4)],
        ("in-many-b", 0, 4),
    ]


def test_a_lost_checkpoint_changes_nothing_and_the_rows_say_what_the_commit_says(
    lake, cluster, send, latest, bronze, spark: SparkSession
) -> None:
    cluster.create("in-lost", partitions=2)
    send("in-lost", [("k", str(n), T - n, n % 2) for n in range(10)])
    one, app = lake(), latest("in-lost")
    ingest(one, app)
    layout = Layout(one.settings.lake.path)
    shutil.rmtree(f"{layout.root}/control")
    assert ingest(one, app) == []
    send("in-lost", [("k", "last", T - 100, 1)])
    shutil.rmtree(f"{layout.root}/control")
    assert ingest(one, app) == [(2, 1)]
    assert identity(bronze(one)) == [("in-lost", p, n) for p in (0, 1) for n in range(5)] + [("in-lost", 1, 5)]
    said, derived = bronze_table.read_state(spark, layout), bronze_table.state_from_rows(spark, layout)
    assert said.tick == derived.tick == 2
    assert said.topics == derived.topics
    (topic,) = said.topics.values()
    assert (topic.next, topic.last, topic.order) == ({0: 5, 1: 6}, {0: 1, 1: 2}, {0: T, 1: T - 1})


def test_order_time_is_the_largest_timestamp_so_far_over_ticks_and_restarts(
    lake, cluster, send, latest, bronze
) -> None:
    cluster.create("in-order", partitions=2)
    one, app = lake(), latest("in-order")
    batches = [[5, 3, 9, 1], [2, 8], [10, 4], [0]]
    for stamps in batches:
        send("in-order", [("k", "v", T + stamp, 0) for stamp in stamps])
        ingest(one, app)
    send("in-order", [("k", "v", T + 1, 1)])
    ingest(one, app)
    found = [row["order_time"] for row in bronze(one)]
    assert found == [moment(T + n) for n in (5, 5, 9, 9, 9, 9, 10, 10, 10, 1)]


def test_ticks_hold_so_many_records_at_the_most(lake, cluster, send, latest, bronze) -> None:
    cluster.create("in-split", partitions=2)
    send("in-split", [("k", str(n), T - n, n % 2) for n in range(20)])
    one = lake(max_records_per_tick="6")
    ticks = ingest(one, latest("in-split"))
    assert [tick for tick, _ in ticks] == list(range(1, len(ticks) + 1))
    assert sum(rows for _, rows in ticks) == 20
    assert all(0 < rows <= 6 for _, rows in ticks)
    rows = bronze(one)
    assert sorted(identity(rows)) == [("in-split", p, n) for p in (0, 1) for n in range(10)]
    assert {row["order_time"] for row in rows if row["partition"] == 0} == {moment(T)}


def test_new_partitions_are_read_from_their_first_record(lake, broker, cluster, send, latest, bronze) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def grow(partitions: int) -> None:
        admin.create_partitions([NewPartitions("in-grow", partitions)])["in-grow"].result()
        deadline = time.monotonic() + WAIT_SECONDS
        while cluster.topics(["in-grow"])["in-grow"].partitions < partitions:
            assert time.monotonic() < deadline
        cluster.offsets(("in-grow", p) for p in range(partitions))

    def send_to(partition: int, *values: str) -> None:
        # A new producer: one that is kept learns of new partitions minutes later.
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
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


def test_aborted_records_never_come_and_markers_make_no_tick_of_their_own(
    lake, broker, cluster, send, latest, bronze, spark: SparkSession
) -> None:
    """
    offset   0 1 | 2      | 3 4 | 5     | 6 7  | 8     | 9
             txn | commit | txn | abort | txn  | abort | plain
    """
    cluster.create("in-txn")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "in-txn"})
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
    ingest(one, app)  # nothing but what was aborted: a tick may say so, and then no other does
    layout = Layout(one.settings.lake.path)
    assert bronze_table.read_state(spark, layout).topics["in-txn"].order == {0: T}
    assert ingest(one, app) == []
    transaction(["6", "7"], commit=False)
    send("in-txn", [("k", "9", T - 50)])
    ingest(one, app)
    assert ingest(one, app) == []
    rows = bronze(one)
    assert [(row["offset"], row["value"]) for row in rows] == [(0, b"0"), (1, b"1"), (9, b"9")]
    assert [row["order_time"] for row in rows] == [moment(T)] * 3


def test_a_pattern_takes_new_topics_too_and_a_list_stands_beside_it(
    lake, broker, cluster, send, bronze, latest, tmp_path
) -> None:
    from lakehouse.config import load

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


def test_a_topic_with_a_table_of_its_own_shares_the_ticks(
    lake, cluster, send, latest, bronze, spark: SparkSession
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
    said = bronze_table.read_state(spark, layout, ["in-own"])
    assert said.topics == bronze_table.state_from_rows(spark, layout, ["in-own"]).topics
    one.run(app, until="caught_up", parts=("silver",))
    found = {(row.k, row.word) for row in one.read(app.table("in_own")).collect()}
    assert found == {("a", "3"), ("b", "2")}
    with pytest.raises(StorageError, match=r"'in-own': its rows lie in a table of its own .*own_table=True"):
        ingest(one, lh.app(*shared.tables, *latest("in-own").tables))
    with pytest.raises(StorageError, match=r"'in-shared': its rows lie in the shared table .*own_table=False"):
        ingest(one, lh.app(*own.tables, *latest("in-shared", own_table=True).tables))


def test_silver_follows_when_only_tables_of_their_own_grow(lake, cluster, send, latest) -> None:
    cluster.create("in-alone")
    send("in-alone", [("a", "1", T)])
    one, app = lake(), latest("in-alone", own_table=True)
    for value in ("1", "2"):
        one.run(app, until="caught_up")
        assert [tuple(row) for row in one.read(app.table("in_alone")).collect()] == [("a", value)]
        send("in-alone", [("a", "2", T)])


def test_a_compacted_topic_with_holes(lake, cluster: Cluster, send, latest, bronze) -> None:
    config = {
        "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100", "delete.retention.ms": "100",
    }  # fmt: skip
    cluster.create("in-compact", config=config)
    send("in-compact", [("k", str(n), T + n) for n in range(50)])
    one, app = lake(), latest("in-compact")
    ingest(one, app)
    send("in-compact", [("j", str(n), T + n) for n in range(50)])
    ingest(one, app)
    assert identity(bronze(one)) == [("in-compact", 0, n) for n in range(100)]


def test_a_topic_that_does_not_exist_is_named(lake, cluster, latest) -> None:
    cluster.create("in-exists")
    with pytest.raises(NotFound, match="no topic in-missing"):
        ingest(lake(), latest("in-exists", "in-missing"))
