"""Order times in bronze are the running maximum of a partition's timestamps, however many partitions a tick has."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

T = 1_700_000_000_000
TIMES = (T, T + 50, T + 10, T + 40, T + 90, T + 20)
PARTITIONS = 21  # enough for several tasks; an odd number, so that half of the rows ends inside a partition


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
