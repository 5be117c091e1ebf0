"""The records that steps make from one record: each has a position of its own, and they stay in their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.expression.schema import POSITION_TYPE
from lakehouse.run.scenario.scenario import on_model
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = 2**20 + 1
BOXES = lh.stream("boxes", key="id string", schema="kinds array<int>, many array<int>, few array<int>")
# The first kind has more elements than 20 bits can number, the second kind one.
EXPLODED = BOXES.explode("kinds", "kind").explode("CASE WHEN kind = 0 THEN many ELSE few END", "item")
GRID = lh.stream("grid", key="id string", schema="cube array<array<array<array<bigint>>>>", format="json")


def box() -> Record:
    value = json.dumps({"kinds": [0, 1], "many": [0] * MANY, "few": [0]})
    return Record("boxes", "id", 0, 0, 5, b"a", value.encode(), tick=1, order_time=5)


@pytest.mark.slow
def test_more_elements_than_20_bits_can_number_on_the_model() -> None:
    """The last element of the first kind, and the first one of the second, had one position."""
    positions = [event.position for event in model.events(EXPLODED, [box()], decode_record)]
    assert len(positions) == MANY + 1
    assert positions[-2] < positions[-1]
    assert len(set(positions)) == MANY + 1


@pytest.mark.slow
def test_more_elements_than_20_bits_can_number_on_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from lakehouse.spark.bronze.bronze import SCHEMA
    from lakehouse.spark.stream.decoded import decode_records
    from lakehouse.spark.stream.streams import stream_frame

    one = box()
    row = {
        "topic": one.topic, "topic_id": one.topic_id, "partition": 0, "offset": 0, "timestamp_type": 0, "tick": 1,
        "key": one.key, "value": one.value,
    }  # fmt: skip
    bronze = spark.createDataFrame([row], SCHEMA)
    bronze = bronze.withColumns({name: F.timestamp_millis(F.lit(5)) for name in ("timestamp", "order_time")})
    rows = stream_frame(EXPLODED, lambda source: decode_records(source, bronze)).select("_position", "kind")
    actual = rows.groupBy("kind").agg(
        F.count("*").alias("n"), F.count_distinct("_position").alias("different"),
        F.min("_position").alias("first"), F.max("_position").alias("last"),
    )  # fmt: skip
    first, second = (row.asDict() for row in actual.orderBy("kind").collect())
    assert (first["n"], first["different"], second["n"]) == (MANY, MANY, 1)
    assert Position.from_fields(first["last"].asDict()) == Position(1, 5, "boxes", 0, 0, (0, MANY - 1))
    assert Position.from_fields(first["last"].asDict()) < Position.from_fields(second["first"].asDict())
    assert first["last"] < second["first"], "Spark's order, by max and min, is that of Python"


@pytest.mark.parametrize("ordinals", [(), (0,), (2**40, 0, 3)])
def test_a_position_goes_to_spark_and_back(spark: SparkSession, ordinals: tuple[int, ...]) -> None:
    """As a restore hands it, and as a job reads it."""
    from pyspark.sql import functions as F

    position = Position(1, 5, "boxes", 0, 0, ordinals)
    rows = spark.createDataFrame([(tuple(position),)], f"_position {POSITION_TYPE}")
    (row,) = rows.where(F.size("_position.ordinals") == len(ordinals)).collect()
    assert Position.from_fields(row["_position"].asDict()) == position


def cubes(ticks: int) -> list[Record]:
    result = []
    for n in range(6):
        cube: Any = [[[[n, n + 1], [n + 2]], [[], [n]]], [], [[[n], [n + 1, n]]]]
        value = json.dumps({"cube": cube}).encode() if n != 3 else None
        result.append(
            Record("grid", "id", n % 2, n // 2, n, b"k%d" % (n % 2), value, tick=n * ticks // 6 + 1, order_time=n)
        )
    return result


@pytest.mark.slow
@pytest.mark.parametrize("ticks", [1, 3])
def test_five_levels_give_the_models_positions_in_any_batches(spark: SparkSession, tmp_path: Path, ticks: int) -> None:
    from lakehouse.run.scenario.replay import SparkReplay

    cells = GRID.explode("cube", "a").explode("a", "b").explode("b", "c").explode("c", "cell").select("cell")
    both = cells.merge(cells.filter("cell % 2 = 0"))
    by_cell = both.group_by("cell").agg(n=lh.count(), ids=lh.collect_list("id")).table("by_cell")
    by_n = by_cell.to_stream().group_by("n").agg(cells=lh.collect_list("cell")).table("by_n")
    app = lh.app(both.latest("newest"), by_cell, by_n, both.to_topic("cells"))
    records = cubes(ticks)
    expected = on_model(app, records)
    assert max(len(change.position.ordinals) for change in expected.changelogs["by_n"]) == 6
    actual = SparkReplay(spark, tmp_path)(app, records)
    assert (actual.tables, actual.changelogs, actual.topics) == (expected.tables, expected.changelogs, expected.topics)
