"""Order times in bronze are the running maximum of a partition's timestamps, in Java's maps and in Python alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.lake import reader
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.layout import Layout
from lakehouse.run.scenario.replay import KAFKA_SCHEMA, write_bronze
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.bronze import bronze, tick
from lakehouse.spark.bronze.bronze import BronzeState
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.capability import Capability, is_available
from tests.seeds import seeds

T = 1_700_000_000_000
TIMES = (T, T + 50, T + 10, T + 40, T + 90, T + 20)
PARTITIONS = 21  # enough for several tasks; an odd number, so that half of the rows ends inside a partition


@pytest.mark.rotated
def test_many_partitions_of_a_tick_each_have_their_own_running_maximum(spark: SparkSession, tmp_path: Path) -> None:
    words = lh.stream("words", key="k string", schema="n bigint", format="json")
    lake = open_lake(spark, Layout(str(tmp_path / "lake")))
    times = {p: tuple(time + p for time in (*TIMES[p % 5 :], *TIMES[: p % 5])) for p in range(PARTITIONS)}
    records = [
        Record("words", "id", p, offset, time, b'{"k": "a"}', b'{"n": 1}', 1 + offset // 4, time)
        for p in times
        for offset, time in enumerate(times[p])
    ]
    assert write_bronze(lake, lh.app(words.latest("newest")), records) == 2
    rows = reader.open_dataset(lake.layout.records).to_table(columns=["partition", "offset", "order_time"]).to_pylist()
    actual: dict[int, list[int]] = {p: [] for p in times}
    for row in sorted(rows, key=lambda row: row["offset"]):
        actual[row["partition"]].append(round(row["order_time"].timestamp() * 1000))
    assert actual == {p: order_times(of) for p, of in times.items()}


BY_PYTHON = "by Python"
TOPICS = ("a", "b ö", "c")


def stamped(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    rows: list[tuple[str, int, int, int]],
    carried: dict[str, dict[int, int]],
    tasks: int,
) -> list[tuple[str, int, int, int, bool]]:
    """Return topic, partition, offset, order time and whether it may be the last, of rows with their times."""
    times = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms) for *_, ms in rows]
    records = [(*row[:3], time, 0, None, None, None) for row, time in zip(rows, times, strict=True)]
    # Each task has whole partitions, as those of Spark's Kafka source have.
    frames = [
        spark.createDataFrame([r for r in records if r[1] % tasks == task], KAFKA_SCHEMA).coalesce(1)
        for task in range(tasks)
    ]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.union(other)
    state = BronzeState(1, 4, {topic: TopicState(f"id {topic}", order=carried.get(topic, {})) for topic in TOPICS})
    ends: dict[str, dict[int, int]] = {}
    for topic, partition, offset, _ in rows:
        ends.setdefault(topic, {})[partition] = offset + 1
    with monkeypatch.context() as patched:
        if way == BY_PYTHON:
            patched.setattr(tick, "choose_way", lambda capability, private_way, plain_way: plain_way())
        stamped_rows = tick.stamp_rows(frame, state, 5, ends)
        columns = ("topic", "partition", "offset", F.unix_millis("order_time"), "_last")
        return sorted(tuple(row) for row in stamped_rows.select(*columns).collect())


@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_both_ways_give_the_running_maximum(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    assert is_available(Capability.TASK_STATE)
    random = Random(seed)
    tasks = random.randrange(1, 4)
    places = [(topic, partition) for topic in TOPICS for partition in random.sample(range(300), 5)]
    carried: dict[str, dict[int, int]] = {}
    rows, wanted, last_offsets = [], [], set()
    for topic, partition in random.sample(places, 9):
        largest = -(2**63)
        if random.random() < 0.5:
            largest = carried.setdefault(topic, {})[partition] = random.choice([0, T, T + 500])
        offset = random.randrange(2**40)
        for _ in range(random.randrange(1, 40)):
            ms = random.choice([-1, 0, T, T + random.randrange(1000), T + random.randrange(1000)])
            largest = max(largest, ms)
            rows.append((topic, partition, offset, ms))
            wanted.append((topic, partition, offset, largest))
            last_offset = (topic, partition, offset)
            offset += random.choice([1, 1, 7])
        last_offsets.add(last_offset)
    results = [stamped(spark, monkeypatch, way, rows, carried, tasks) for way in ("by Java", BY_PYTHON)]
    for result in results:
        assert [row[:4] for row in result] == sorted(wanted)
        assert last_offsets <= {row[:3] for row in result if row[4]}


@pytest.mark.parametrize("way", ["by Java", BY_PYTHON])
def test_offsets_that_do_not_rise_fail(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    for offsets in ((3, 3), (3, 2)):
        with pytest.raises(PySparkException, match="the offsets of a/1 don't rise"):
            stamped(spark, monkeypatch, way, [("a", 1, offset, T) for offset in offsets], {}, 1)


def test_a_partition_that_ends_with_offsets_of_no_record(spark: SparkSession, tmp_path: Path) -> None:
    """A compacted topic, or markers of transactions: the order time is read back."""
    lake = open_lake(spark, Layout(str(tmp_path / "lake")))
    state = BronzeState(0, 0, {"words": TopicState("id")})
    bronze.create_tables(lake)
    rows = [("words", p, 0, datetime(2026, 1, 1 + p, tzinfo=UTC), 0, None, None, b"x") for p in range(2)]
    frame = spark.createDataFrame(rows, KAFKA_SCHEMA).coalesce(1)
    next_state, volume = tick.append_tick(frame, lake.layout, state, {"words": {0: 1, 1: 900}}, "run")
    assert volume.rows == 2
    assert next_state.topics["words"].order == {0: 1_767_225_600_000, 1: 1_767_312_000_000}
