"""The last ticks, read from the files that their commits name, are the rows that Delta finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.lake.layout import Layout
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.record import Record
from lakehouse.spark.bronze import bronze, recent_ticks
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.delta_log import delta_log_of
from lakehouse.spark.jvm.java import scala_none
from lakehouse.spark.jvm.session.session import new_session
from lakehouse.spark.open_lake import OpenLake
from tests.seeds import DRAWN, draw

TOPICS = {"a": False, "b.c": False, "own": True}  # by name: whether it has a table of its own
STREAMS = {
    topic: lh.stream(topic, key="id string", schema="n bigint", own_table=own_table, name=f"s{number}")
    for number, (topic, own_table) in enumerate(TOPICS.items())
}
APP = lh.app(*(stream.latest(f"t{number}") for number, stream in enumerate(STREAMS.values())))


def append_ticks(lake: OpenLake, random: Random, first: int, last: int) -> None:
    """Append ticks; each has records of some topics."""
    records = []
    for tick in range(first, last + 1):
        for topic in random.sample(sorted(TOPICS), random.randint(1, len(TOPICS))):
            records.append(Record(topic, f"id of {topic}", 0, tick, tick, b'{"id": "x"}', b'{"n": 1}', tick, tick))
    write_bronze(lake, APP, records)


def ids(frame: DataFrame) -> Counter[tuple[str, int, int]]:
    return Counter((row["topic"], row["offset"], row["tick"]) for row in frame.collect())


def check_reads(lake: OpenLake, random: Random, last: int) -> None:
    """Compare reads of some ranges of ticks, the newest among them, with Delta's own."""
    topics = random.sample(sorted(TOPICS), random.randint(1, len(TOPICS)))
    all_rows = bronze.read_topic_records(lake, topics, APP.own_topics)
    for after_tick in sorted({last - 1, random.randrange(last), random.randrange(last)}):
        to_tick = random.randint(after_tick, last)
        rows = bronze.read_ticks(lake, topics, after_tick, to_tick, APP.own_topics)
        assert rows.schema == all_rows.schema
        assert ids(rows) == ids(bronze.between_ticks(all_rows, after_tick, to_tick)), (topics, after_tick, to_tick)


@pytest.mark.rotated
@pytest.mark.parametrize("seed", [pytest.param(draw(), id=DRAWN)])
def test_recent_ticks_are_what_delta_finds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(recent_ticks, "TICKS_MAX", 4)
    random, lake = Random(seed), open_lake(spark, Layout(str(tmp_path)))
    last = 0
    for change in random.sample(["files", "property", "epoch", "nothing", "log"], 4):
        first, last = last + 1, last + random.randint(1, 3)
        append_ticks(lake, random, first, last)
        if change == "files":
            DeltaTable.forPath(spark, lake.layout.records).optimize().executeCompaction()
        if change == "property":
            spark.sql(f"ALTER TABLE delta.`{lake.layout.records}` SET TBLPROPERTIES ('delta.checkpointInterval' = '3')")
        if change == "epoch":
            bronze.open_bronze_epoch(lake)
        if change == "log":  # as Delta's own clean-up leaves it
            log = delta_log_of(spark, lake.layout.records)
            log.checkpoint(log.update(False, scala_none(), scala_none()), scala_none())
            for number in range(log.unsafeVolatileSnapshot().version() - random.randint(0, 1)):
                (Path(lake.layout.records) / "_delta_log" / f"{number:020}.json").unlink(missing_ok=True)
        check_reads(lake, random, last)


@pytest.mark.rotated
def test_files_that_a_commit_names_once_more_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    """Row tracking gives the rows of files ids: its commits add the files again, and remove none."""
    lake = open_lake(spark, Layout(str(tmp_path)))
    append_ticks(lake, Random(1), 1, 3)
    spark.sql(f"ALTER TABLE delta.`{lake.layout.records}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    log = lake_files(lake.layout.records)
    assert any('"dataChange":false' in text and '"add"' in text for text in log)
    all_rows = bronze.read_topic_records(lake, list(TOPICS), APP.own_topics)
    rows = bronze.read_ticks(lake, list(TOPICS), 1, 3, APP.own_topics)
    assert ids(rows) == ids(bronze.between_ticks(all_rows, 1, 3))


def lake_files(path: str) -> list[str]:
    return [file.read_text() for file in sorted((Path(path) / "_delta_log").glob("*.json"))]


@pytest.mark.rotated
def test_a_read_of_the_last_tick_runs_one_job(spark: SparkSession, tmp_path: Path) -> None:
    lake = open_lake(spark, Layout(str(tmp_path)))
    append_ticks(lake, Random(1), 1, 3)
    context = spark.sparkContext
    context.setJobGroup("recent", "")
    try:
        bronze.read_ticks(lake, list(TOPICS), 2, 3, APP.own_topics).collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type, unused-ignore]
    assert len(context.statusTracker().getJobIdsForGroup("recent")) == 1


@pytest.mark.rotated
def test_an_observation_of_a_session_of_its_own_completes(spark: SparkSession, tmp_path: Path) -> None:
    lake = open_lake(new_session(spark), Layout(str(tmp_path)))
    append_ticks(lake, Random(1), 1, 2)
    observation = Observation()
    rows = bronze.read_ticks(lake, list(TOPICS), 1, 2, APP.own_topics)
    count = rows.observe(observation, F.count("*").alias("rows")).count()
    assert rows.sparkSession is lake.spark
    assert cast(Any, rows)._jdf.sparkSession().equals(cast(Any, lake.spark)._jsparkSession)
    assert observation.get["rows"] == count
