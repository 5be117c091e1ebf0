"""What is kept between reads: frames in memory, and the last version of a table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.lake.layout import Layout
from lakehouse.run.lake import Lake
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.in_memory import InMemory


def plan(frame: DataFrame) -> str:
    jdf: Any = frame._jdf
    return str(jdf.queryExecution().executedPlan().toString())


def test_a_frame_that_was_read_forgets_how_it_was_made(spark: SparkSession) -> None:
    """Else the text of a plan grows with all that was held for what it holds."""
    held: list[InMemory] = []
    frame = spark.range(100).select((F.col("id") % 7).alias("k"), F.col("id").alias("v"))
    sizes = []
    for _ in range(4):
        frame = frame.groupBy("k").agg(F.sum("v").alias("v"))
        frame = frame.alias("a").join(frame.alias("b"), "k").select("k", F.col("a.v").alias("v"))
        held.append(InMemory(frame))
        frame = held[-1].frame(spark)
        assert "Range" in plan(frame) or len(held) > 1
        assert frame.count() == 7
        held[-1].finish_read()
        frame = held[-1].frame(spark.newSession())
        sizes.append(len(plan(frame)))
    assert max(sizes) < min(sizes) + 100  # numbers of columns
    assert "Aggregate" not in plan(frame)
    assert {row["k"]: row["v"] for row in frame.collect()} == {k: sum(range(k, 100, 7)) for k in range(7)}
    both = frame.join(spark.range(3).withColumnRenamed("id", "k"), "k")
    assert sorted(row["k"] for row in both.collect()) == [0, 1, 2]
    for item in held:
        item.release()


def write(spark: SparkSession, path: str, *ids: int) -> None:
    spark.createDataFrame([(id,) for id in ids], "id bigint").write.format("delta").mode("append").save(path)


@pytest.mark.rotated
@pytest.mark.parametrize("by", ["one open lake", "reads of a lake"])
def test_a_version_is_put_together_once(spark: SparkSession, tmp_path: Path, by: str) -> None:
    users, path = Lake(tmp_path), str(tmp_path / "table")
    lake = open_lake(spark, Layout(str(tmp_path)))
    for id in range(3):
        write(spark, path, id)

    def jobs(number: int) -> int:
        group = f"{tmp_path.name}-{number}"
        spark.sparkContext.setJobGroup(group, "a read")
        frame = (lake if by == "one open lake" else users._lake).own_session().read(path, 1)
        assert sorted(row["id"] for row in frame.collect()) == [0, 1]
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    first, second, third = (jobs(number) for number in range(3))
    assert first > second == third
    write(spark, path, 3)
    assert jobs(3) == second
    assert lake.read(path, 2).count() == 3
    twice = lake.read(path, 2).unionByName(lake.read(path, 2))
    assert twice.count() == 6


@pytest.mark.rotated
def test_a_table_that_is_made_again_at_the_same_path_is_another_one(spark: SparkSession, tmp_path: Path) -> None:
    lake, path = open_lake(spark, Layout(str(tmp_path))), str(tmp_path / "table")
    for ids in ((1, 2), (7, 8, 9)):
        shutil.rmtree(path, ignore_errors=True)
        write(spark, path, *ids)
        write(spark, path, 100)
        assert sorted(row["id"] for row in lake.read(path, 0).collect()) == list(ids)
    with pytest.raises(Exception, match="version"):
        lake.read(path, 7)
