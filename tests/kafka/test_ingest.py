"""Kafka to bronze: every committed record once, with its position, under any ticks and after any loss."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import NotFound
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.lake.layout import Layout
from lakehouse.spark.bronze import bronze as bronze_table
from lakehouse.spark.changelog.upstream import open_lake

T = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def identity(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def test_a_row_is_the_record_as_kafka_has_it(lake, broker, cluster, latest, bronze, ingest) -> None:
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


@pytest.mark.rotated
def test_several_topics_are_one_commit_a_tick_and_a_run_without_new_records_makes_none(
    lake, cluster, send, latest, bronze, spark: SparkSession, ingest
) -> None:
    for topic, partitions in (("in-many-a", 2), ("in-many-b", 1)):
        cluster.create(topic, partitions=partitions)
        send(topic, [(f"k{n}", f"{topic} {n}", T + n, n % partitions) for n in range(4)])
    one, app = lake(), latest("in-many-a", "in-many-b")
    assert ingest(one, app) == [(1, 8)]
    layout = Layout(one.settings.lake.path)
    assert bronze_table.last_coverage(spark, layout.records).tick == 1
    assert ingest(one, app) == []
    send("in-many-b", [("k9", "x", T, 0)])
    assert ingest(one, app) == [(2, 1)]
    assert identity(bronze(one)) == [
        *[("in-many-a", p, n) for p in (0, 1) for n in (0, 1)],
        *[("in-many-b", 0, n) for n in range(4)],
        ("in-many-b", 0, 4),
    ]


@pytest.mark.rotated
def test_a_lost_checkpoint_changes_nothing_and_the_rows_say_what_the_commit_says(
    lake, cluster, send, latest, bronze, spark: SparkSession, ingest
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
    said, derived = (
        bronze_table.read_state(open_lake(spark, layout)),
        bronze_table.state_from_rows(open_lake(spark, layout)),
    )
    assert said.tick == derived.tick == 2
    assert said.topics == derived.topics
    (topic,) = said.topics.values()
    assert (topic.next, topic.last, topic.order) == ({0: 5, 1: 6}, {0: 1, 1: 2}, {0: T, 1: T - 1})


@pytest.mark.slow
def test_order_time_is_the_largest_timestamp_so_far_over_ticks_and_restarts(
    lake, cluster, send, latest, bronze, ingest
) -> None:
    cluster.create("in-order", partitions=2)
    one, app = lake(), latest("in-order")
    batches = [[5, 3, 9, 1], [2, 8, 10, 4], [0]]
    for stamps in batches:
        send("in-order", [("k", "v", T + stamp, 0) for stamp in stamps])
        ingest(one, app)
    send("in-order", [("k", "v", T + 1, 1)])
    ingest(one, app)
    actual = [row["order_time"] for row in bronze(one)]
    assert actual == [moment(T + n) for n in (5, 5, 9, 9, 9, 9, 10, 10, 10, 1)]


@pytest.mark.slow
def test_ticks_hold_a_limited_number_of_records(lake, cluster, send, latest, bronze, ingest) -> None:
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


def test_a_topic_that_does_not_exist_is_named(lake, cluster, latest, ingest) -> None:
    cluster.create("in-exists")
    with pytest.raises(NotFound, match="no topic in-missing"):
        ingest(lake(), latest("in-exists", "in-missing"))
