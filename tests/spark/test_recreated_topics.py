"""Topics that are deleted and recreated, on Spark and on the model: stream time starts over wherever it is kept."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.run.scenario.replay import SparkReplay
from lakehouse.run.scenario.scenario import on_model
from lakehouse.semantics.record import Record

from .test_stream_joins import compared

A = lh.stream("a", key="k string", schema="n bigint")
B = lh.stream("b", key="k string", schema="n bigint")
NOW = A.latest("now")
BOTH = NOW.join(B.latest("other"), prefix="b_").table("both")
INNER = A.join(B, within="5 seconds", grace="1 second", prefix="b_")
OUTER = A.join(B, within="5 seconds", grace="1 second", how="outer", prefix="b_")
TUMBLING = lh.tumbling("10 seconds", grace="1 second")


def counted(stream: lh.Stream, window: object) -> object:
    return stream.group_by("k").window(window).agg(c=lh.count())


APP = lh.app(
    counted(NOW.to_stream(), lh.session("5 seconds", grace="1 second")).table("sessions"),
    counted(NOW.to_stream(), TUMBLING).table("final_changes", emit="final", idle="1 minute"),
    counted(BOTH.to_stream(), TUMBLING).table("rows_joined", retention="1 hour"),
    counted(INNER, TUMBLING).table("joined"),
    OUTER.latest("sides"),
)

# The ids of a and b in each tick. Times begin at 0 again with each new id.
TICKS = [("a1", "b1"), ("a1", "b1"), ("a2", "b1"), ("a2", "b1"), ("a2", "b2"), ("a2", "b2"), ("a3", "b3")]


def records(seed: int) -> list[Record]:
    dice = random.Random(seed)
    made: list[Record] = []
    highest: dict[tuple[str, int], tuple[int, int]] = {}
    begun: dict[str, int] = {}
    for tick, ids in enumerate(TICKS, 1):
        for number in range(8):
            topic, topic_id = dice.choice(list(zip("ab", ids, strict=True)))
            partition = dice.randrange(2)
            begun.setdefault(topic_id, tick)
            now = ((tick - begun[topic_id]) * 8 + number) * 2_000 + 400_000 * (topic_id in ("a1", "b1"))
            time = max(now - dice.choice([0, 0, 0, 2_000, 15_000]), 0)
            offset, order = highest.get((topic_id, partition), (-1, time))
            highest[topic_id, partition] = offset + 1, max(order, time)
            value = json.dumps({"n": number}).encode()
            key = dice.choice("xyz").encode()
            made.append(Record(topic, topic_id, partition, offset + 1, time, key, value, tick, max(order, time)))
    return made


@pytest.mark.slow
def test_stream_time_starts_over_in_windows_behind_tables_and_in_joins(spark: SparkSession, tmp_path: Path) -> None:
    sent = records(7)
    expected = on_model(APP, sent)
    # What makes the test one of recreated topics: the new ones' records are not late, though their times are old.
    assert [row for row in expected.tables["sessions"] if row[1].timestamp() < 200], "of the recreated topic"
    assert [row for row in expected.tables["joined"] if row[1].timestamp() < 200], "of the recreated topics"
    replay = SparkReplay(spark, tmp_path)
    compared(replay(APP, sent, [3, 5]), expected, APP)
    compared(replay.in_batches(APP, sent, [4, 7]), expected, APP)
