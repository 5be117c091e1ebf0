"""The records that steps make from one record: each has a position of its own, and they stay in their order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError, StorageError
from lakehouse.formats.decode import decode_record
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.plan.schema import POSITION_TYPE
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
    found = rows.groupBy("kind").agg(
        F.count("*").alias("n"), F.count_distinct("_position").alias("different"),
        F.min("_position").alias("first"), F.max("_position").alias("last"),
    )  # fmt: skip
    first, second = (row.asDict() for row in found.orderBy("kind").collect())
    assert (first["n"], first["different"], second["n"]) == (MANY, MANY, 1)
    assert Position.of(first["last"].asDict()) == Position(1, 5, "boxes", 0, 0, (0, MANY - 1))
    assert Position.of(first["last"].asDict()) < Position.of(second["first"].asDict())
    assert first["last"] < second["first"], "Spark's order, by max and min, is that of Python"


@pytest.mark.parametrize("ordinals", [(), (0,), (2**40, 0, 3)])
def test_a_position_goes_to_spark_and_back(spark: SparkSession, ordinals: tuple[int, ...]) -> None:
    """As a restore hands it, and as a job reads it."""
    from pyspark.sql import functions as F

    position = Position(1, 5, "boxes", 0, 0, ordinals)
    rows = spark.createDataFrame([(tuple(position),)], f"_position {POSITION_TYPE}")
    (row,) = rows.where(F.size("_position.ordinals") == len(ordinals)).collect()
    assert Position.of(row["_position"].asDict()) == position


def cubes(ticks: int) -> list[Record]:
    found = []
    for n in range(6):
        cube: Any = [[[[n, n + 1], [n + 2]], [[], [n]]], [], [[[n], [n + 1, n]]]]
        value = json.dumps({"cube": cube}).encode() if n != 3 else None
        found.append(
            Record("grid", "id", n % 2, n // 2, n, b"k%d" % (n % 2), value, tick=n * ticks // 6 + 1, order_time=n)
        )
    return found


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
    found = SparkReplay(spark, tmp_path)(app, records)
    assert (found.tables, found.changelogs, found.topics) == (expected.tables, expected.changelogs, expected.topics)


def test_what_an_earlier_release_wrote_is_refused_with_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    """Its positions end with one number."""
    from pyspark.sql import functions as F

    from lakehouse.cli.look import late
    from lakehouse.run.audit.audit import audit
    from lakehouse.run.audit.missing import KafkaAccess
    from lakehouse.spark.bronze import interventions
    from lakehouse.spark.changelog.net import net_changes
    from lakehouse.spark.changelog.upstream import open_lake
    from lakehouse.spark.table import tables

    layout = Layout(str(tmp_path))
    lake, table = open_lake(spark, layout), BOXES.latest("boxes_now")
    number = F.lit(0).cast("bigint").alias("ordinal")
    made = spark.createDataFrame([], tables.visible_schema(spark, table))
    fields = [F.col(f"_position.{name}") for name in Position._fields[:-1]]
    tables.create_table(lake.open(table))
    old = made.withColumn("_position", F.struct(*fields, number))
    old.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(layout.silver("boxes_now"))
    with pytest.raises(
        PlanError, match=r"(?s)earlier release.*_position: found struct<.*remove the folder silver/boxes_"
    ):
        tables.create_table(lake.open(table))
    reads: list[Callable[[], object]] = [
        lambda: net_changes(lake.open(table), 0, 1),
        lambda: audit(lake.open(table), lh.app(table), KafkaAccess(None)),
    ]
    for read in reads:
        with pytest.raises(StorageError, match=r"rows of table 'boxes_now': .*remove the folder silver/boxes_now"):
            read()
    rows = spark.createDataFrame(
        [(1, "boxes", 0, 0, 0)], "tick bigint, topic string, partition int, offset bigint, ordinal bigint"
    )
    rows.write.format("delta").save(layout.late("boxes_now"))
    with pytest.raises(StorageError, match=r"expected a column ordinals.*remove the folder silver/boxes_now"):
        list(late.read_late_records(layout, "boxes_now", None))
    rows.withColumn("id", F.lit("1")).write.format("delta").save(layout.intervention_records)
    for use in (
        lambda: interventions.keep_records(lake, rows),
        lambda: interventions.read_intervention_records(lake, [interventions.Intervention(2, "1", "late")]),
    ):
        with pytest.raises(StorageError, match=r"the interventions of the lake: .*Begin another lake"):
            use()


def test_copies_of_an_earlier_release_are_refused_and_go_with_their_table(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    from lakehouse.lake.moment.cut import Cut
    from lakehouse.spark.changelog.upstream import open_lake
    from lakehouse.spark.history import anchors
    from lakehouse.spark.history.moments import Past
    from lakehouse.spark.table import tables

    layout = Layout(str(tmp_path))
    opened = open_lake(spark, layout).open(BOXES.latest("boxes_now"))
    folder = Path(layout.anchors("boxes_now"))
    there = spark.createDataFrame([], tables.visible_schema(spark, opened.table)).withColumn("_anchor", F.lit(1))
    there.write.format("delta").save(f"{folder}/kept")
    tables.create_table(opened)
    assert folder.exists(), "copies of this release stay"
    of_earlier = there.withColumn("_position", F.struct(F.lit(1).alias("tick"), F.lit(0).alias("ordinal")))
    of_earlier.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(f"{folder}/kept")
    index = spark.createDataFrame([(1, None, "upkeep", None, None)], anchors.INDEX)
    index.write.format("delta").save(f"{folder}/index")
    with pytest.raises(StorageError, match=r"rows of table 'boxes_now': .*remove the folder silver/boxes_now"):
        Past(opened).visible(Cut(1))
    rebuilt = Layout(str(tmp_path / "rebuilt"))
    moved = Path(rebuilt.anchors("boxes_now"))
    moved.parent.mkdir(parents=True)
    folder.rename(moved)
    tables.create_table(opened.at(rebuilt))
    assert not moved.exists()
