"""Records that come too late for a join of streams: kept, told by the audit and by explain, and taken in on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.run.lake import Lake
from lakehouse.run.repair.backfill import backfill
from lakehouse.run.repair.correct import correct, plan_correction
from lakehouse.run.repair.stages import LateChoice
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.record import Record
from lakehouse.spark.table import late

from .test_graph import Bench

LEFT = lh.stream("left", key="k string", schema="at bigint", event_time="at")
RIGHT = lh.stream("right", key="k string", schema="at bigint", event_time="at")
SPAN = {"within": "3 milliseconds", "grace": "0 milliseconds", "prefix": "r_"}
INNER, OUTER = LEFT.join(RIGHT, **SPAN), LEFT.join(RIGHT, how="outer", **SPAN)
PAIRS = INNER.group_by("k").agg(n=lh.count()).table("pairs")
SIDES = OUTER.group_by("k").agg(n=lh.count(), both=lh.count("at + r_at")).table("sides")
CHAIN = INNER.join(RIGHT.select("at AS other"), **SPAN).group_by("k").agg(n=lh.count()).table("chain")
APP = lh.app(PAIRS, SIDES, CHAIN)
#       tick  record       stream time
SENT = [
    (1, "left k 10"),
    (1, "left x 30"),  #       30    closes k: it comes out padded where that side is kept
    (2, "right k 12"),  #      30    too late: without the pair, k is padded a second time
    (2, "right x 31"),  #      31
    (3, "left k 11"),  #       31    too late, too; with both taken in it meets right k 12
]


def records() -> list[Record]:
    offsets: dict[str, int] = {}
    made = []
    for number, (tick, text) in enumerate(SENT):
        topic, key, at = text.split()
        offsets[topic] = offsets.get(topic, -1) + 1
        value = json.dumps({"at": int(at)}).encode()
        place = (topic, f"replay-{topic}", 0, offsets[topic])
        made.append(Record(*place, number, key.encode(), value, tick, number))
    return made


@pytest.mark.slow
def test_late_records_of_a_join_are_kept_and_taken_in(spark: SparkSession, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path)
    assert write_bronze(bench.lake, APP, records()) == 3
    bench.catch_up(APP, 1, 3)
    lake = Lake(bench.layout.root)
    kept = late.select_late(bench.lake.open(SIDES), "k", None, None).orderBy("tick").collect()
    assert [(row.topic, row.offset, row.join_name) for row in kept] == [
        ("right", 0, "left + right"),
        ("left", 2, "left + right"),
    ]
    assert bench.rows(PAIRS) == {("x",): {"n": 1}}
    assert bench.rows(SIDES) == {("x",): {"n": 1, "both": 1}, ("k",): {"n": 3, "both": 0}}
    for table in (PAIRS, SIDES):
        told = lake.audit(APP, table)
        assert told.ok
        assert any("2 records came too late for a join" in note for note in told.notes)
    (row,) = lake.explain(SIDES, "k")
    assert [step.did for step in row.steps].count("late") == 2

    outcome = correct(bench.lake.open(SIDES), APP)
    assert (outcome.tick, outcome.records) == (4, 2)
    assert correct(bench.lake.open(PAIRS), APP, key="k").tick == 5
    bench.catch_up(APP, 5)
    # Each of the two meets what had come by then: k 10 and k 12, k 11 and k 12. Nothing of k stands alone any more.
    assert bench.rows(SIDES) == {("x",): {"n": 1, "both": 1}, ("k",): {"n": 2, "both": 2}}
    assert bench.rows(PAIRS) == {("x",): {"n": 1}, ("k",): {"n": 2}}
    for table in (PAIRS, SIDES):
        assert lake.audit(APP, table).ok
    was = bench.rows(SIDES)
    backfill(bench.lake.open(SIDES), APP)
    bench.catch_up(APP, 6)
    assert bench.rows(SIDES) == was
    spark.sql(f"DELETE FROM delta.`{bench.layout.late('pairs')}` WHERE topic = 'left'")
    assert "late.pairs" in lake.audit(APP, PAIRS).problems[0].found

    with pytest.raises(PlanError, match=r"came too late for the join left \+ right.*another join"):
        correct(bench.lake.open(CHAIN), APP)
    # Beside what can be taken in, they are counted.
    path = bench.layout.late("chain")
    of_the_table = spark.read.format("delta").load(path).limit(1).withColumn("join_name", F.lit(None).cast("string"))
    of_the_table.write.format("delta").mode("append").save(path)
    told = plan_correction(bench.lake.open(CHAIN), LateChoice()).expected
    assert told.records == 1
    assert told.out_of_reach > 0
