"""One record of any timestamp and size stops nothing; a tick is bounded in bytes, and read from Kafka once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.durable import write_durably
from lakehouse.errors import DataLoss
from lakehouse.kafka.embedded.broker import Broker
from lakehouse.kafka.ranges import RawRecord, RecordPiece, split_into_pieces
from lakehouse.lake.layout import Layout
from lakehouse.semantics.time.kafka_time import HEADER
from lakehouse.spark.bronze import careful, tick
from lakehouse.spark.bronze.gaps import read_accepted_gaps
from lakehouse.spark.changelog.upstream import open_lake

T = 1_700_000_000_000
LARGEST = 2**63 - 1
ANY_TIME = {"message.timestamp.after.max.ms": str(LARGEST), "message.timestamp.before.max.ms": str(LARGEST)}
INGEST = ("ingest",)


@pytest.fixture
def send_any(broker: Broker):
    """send_any(topic, (value, timestamp), ...): also what our own producer refuses; with the best compression."""

    def send(topic: str, *records: tuple[bytes, int], partition: int = 0) -> None:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap_servers, "compression.type": "zstd", "linger.ms": 20,
                "message.max.bytes": 1_000_000_000, "log_level": 0,
            }
        )  # fmt: skip
        for value, timestamp in records:
            producer.produce(topic, value=value, key=b"k", timestamp=timestamp, partition=partition)
        assert producer.flush(60) == 0

    return send


def counted(topic: str, own_table: bool = False) -> lh.App:
    stream = lh.stream(topic, key="k string", schema="word string", format="kafka", own_table=own_table)
    return lh.app(stream.group_by("k").agg(n=lh.count()).table(topic.replace("-", "_")))


def raw(offset: int, size: int, partition: int = 0) -> RawRecord:
    return RawRecord("t", partition, offset, T, 0, (), None, b"x" * size)


def test_pieces_are_bounded_by_records_and_bytes_and_a_larger_record_is_alone() -> None:
    records = [raw(0, 4), raw(1, 4), raw(2, 4), raw(3, 100), raw(4, 1), raw(5, 1), raw(6, 1), raw(7, 9)]
    actual = list(split_into_pieces(records, {"t": {0: 9}}, records_max=2, bytes_max=10, record_max=20))
    assert [([r.offset for r in piece.records], piece.ends) for piece in actual] == [
        ([0, 1], {"t": {0: 2}}), ([2], {"t": {0: 3}}), ([], {}), ([4, 5], {"t": {0: 6}}), ([6, 7], {"t": {0: 9}}),
    ]  # fmt: skip
    assert [(p.too_large.offset, p.too_large.value, p.size) for p in actual if p.too_large] == [(3, None, 100)]
    assert list(split_into_pieces([], {"t": {0: 1}}, 1, 1, 1)) == [RecordPiece([], {"t": {0: 1}})]


@pytest.mark.rotated
def test_a_timestamp_that_is_no_time_stops_no_topic_and_moves_no_clock(
    lake, cluster, send, send_any, bronze, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(careful, "PIECE_RECORDS", 4)
    cluster.create("any-time", config=ANY_TIME)
    cluster.create("any-other")
    said = [T * 1_000_000, T * 1000, LARGEST]  # nanoseconds, microseconds, the largest number
    send_any("any-time", (b"a", T + 5), *[(b"b", ms) for ms in said], (b"c", T + 6))
    send("any-other", [("k", "v", T)])
    one, app = lake(), lh.app(*counted("any-time").tables, *counted("any-other").tables)
    one.run(app, until="caught_up")
    actual = bronze(one)
    assert {row["tick"] for row in actual} == {1, 2}  # read record by record, it lies in memory: in two pieces
    rows = [row for row in actual if row["topic"] == "any-time"]
    assert [(row["offset"], row["key"], row["value"]) for row in rows] == [
        (n, b"k", value) for n, value in enumerate((b"a", b"b", b"b", b"b", b"c"))
    ]
    assert [[item["value"] for item in row["headers"] or ()] for row in rows] == [
        [], *[[str(ms).encode()] for ms in said], [],
    ]  # fmt: skip
    assert {item["key"] for row in rows for item in row["headers"] or ()} == {HEADER}
    assert [row["order_time"].timestamp() * 1000 for row in rows] == [T + 5] * 4 + [T + 6]
    assert {row["timestamp"].year for row in rows} == {2023, 9999}
    actual = {
        name: [(row.k, row.n) for row in one.read(app.table(name)).collect()] for name in ("any_time", "any_other")
    }
    assert actual == {"any_time": [("k", 2)], "any_other": [("k", 1)]}
    quarantine = one.spark.read.format("delta").load(Layout(one.settings.lake.path).quarantine("any_time"))
    bad = quarantine.select("offset", "reason").collect()  # Berlin is in the year 10000 by then
    assert sorted(row.offset for row in bad) == [1, 2, 3]
    assert all("outside the years 1 to 9999" in row.reason for row in bad)
    assert any("(nanoseconds? then it is 2023-11-14T22:13:20Z)" in row.reason for row in bad)


@pytest.mark.rotated
def test_a_record_that_is_too_large_is_named_and_left_out_when_accepted(
    lake, cluster, send_any, bronze, spark: SparkSession
) -> None:
    cluster.create("any-size")
    topic_id = cluster.topics(["any-size"])["any-size"].id
    send_any("any-size", (b"a", T), (b"x" * 300_000, T), (b"b", T))
    app = counted("any-size")
    with pytest.raises(DataLoss, match=r"offsets \[1, 2\): a record of 300,001 bytes, larger than max_record_bytes"):
        lake(max_record_bytes="100000").run(app, until="caught_up", parts=INGEST)
    one = lake(max_record_bytes="100000", on_data_loss="record")
    assert [row["offset"] for row in bronze(one)] == [0]
    one.run(app, until="caught_up", parts=INGEST)
    assert [row["offset"] for row in bronze(one)] == [0, 2]
    gap = read_accepted_gaps(open_lake(spark, Layout(one.settings.lake.path)))
    assert [(g.topic_id, g.from_offset, g.to_offset) for g in gap] == [(topic_id, 1, 2)]
    send_any("any-size", (b"c", T))
    one.run(app, until="caught_up", parts=INGEST)
    assert [row["offset"] for row in bronze(one)] == [0, 2, 3]


@pytest.mark.rotated
def test_a_sample_and_earlier_ticks_decide_how_many_records_a_tick_takes(
    lake, cluster, send_any, bronze, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(careful, "FIRST_RECORDS", 5)
    cluster.create("any-bytes", partitions=2)
    send_any("any-bytes", (b"x" * 999, T))
    one, app = lake(max_bytes_per_tick="10000"), counted("any-bytes")
    ticks: list[tuple[int, int]] = []
    one.run(app, until="caught_up", parts=INGEST)
    for partition in (0, 1):
        send_any("any-bytes", *[(b"y" * 999, T)] * 15, partition=partition)
    one.run(app, until="caught_up", parts=INGEST, listen=lambda event: ticks.append((event.tick, event.records)))
    # Ten records of a thousand bytes, equally from both partitions; also in the first tick, because of the sample.
    assert ticks == [(2, 10), (3, 10), (4, 10)]
    rows = bronze(one)
    assert sorted((row["partition"], row["offset"]) for row in rows) == [
        *[(0, n) for n in range(16)], *[(1, n) for n in range(15)],
    ]  # fmt: skip


# Slow: the core has the rule without Spark (`pieces`) and the record that is too large.
@pytest.mark.slow
def test_a_batch_that_ended_sparks_process_is_read_record_by_record_at_the_next_start(
    lake, cluster, send_any, bronze, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("any-memory", partitions=2)
    for partition in (0, 1):
        send_any("any-memory", *[(b"x" * 400, T + n) for n in range(5)], partition=partition)
    one, app = lake(max_bytes_per_tick="1100"), counted("any-memory")
    file = Path(one.settings.lake.path, "control", "careful.json")
    write_durably(file, '{"any-memory": {"0": 5, "1": 5}, "gone": {"0": 7}}')
    ticks: list[int] = []
    one.run(app, until="caught_up", parts=INGEST, listen=lambda event: ticks.append(event.records))
    assert sum(ticks) == 10
    assert max(ticks) == 2  # no tick is larger than its limit in bytes
    assert sorted((row["partition"], row["offset"]) for row in bronze(one)) == [
        (p, n) for p in (0, 1) for n in range(5)
    ]
    send_any("any-memory", (b"later", T + 9))
    one.run(app, until="caught_up", parts=INGEST)
    assert len(bronze(one)) == 11
    assert not file.exists()


@pytest.mark.rotated
def test_a_tick_reads_kafka_once_however_many_tables_it_goes_to(
    lake, cluster, send, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, stamp = tmp_path / "read", tick.stamp_rows

    def counted_rows(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            with file.open("a") as lines:
                lines.write(f"{batch.num_rows}\n")
            yield batch

    # Spark makes the rows each time it reads them from Kafka.
    monkeypatch.setattr(
        tick, "stamp_rows", lambda frame, *rest: stamp(frame.mapInArrow(counted_rows, frame.schema), *rest)
    )  # fmt: skip
    names = ["any-own-a", "any-own-b", "any-own-c"]
    for name in names:
        cluster.create(name)
        send(name, [("k", str(n), T) for n in range(4)])
    app = lh.app(*[table for name in names for table in counted(name, own_table=True).tables])
    lake().run(app, until="caught_up", parts=INGEST)
    assert sum(map(int, file.read_text().split())) == 12
