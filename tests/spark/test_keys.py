"""Keys on Spark, to the last bit: zeros, NaN, null keys and deletes give what the model gives, over several batches."""

from __future__ import annotations

import math
import struct
from typing import Literal

import pytest

import lakehouse as lh
from lakehouse.run.scenario.outcome import Replayed
from lakehouse.testing import Replay

DOUBLES = lh.stream("doubles", key="k double", schema="x double, p struct<x: double>")
NOW = DOUBLES.latest("now")
VERSIONS = lh.stream("versions", key="id string", schema="v bigint")
NEWEST = VERSIONS.latest("newest", order_by="v", tombstones="newest")
IDS = lh.stream("ids", key="id bigint", key_format="json", schema="v int, label string")
APP = lh.app(
    NOW,
    DOUBLES.group_by("x", "p").agg(n=lh.count()).table("by_x"),
    NOW.group_by("x").agg(n=lh.count()).table("x_rows"),
    DOUBLES.select("x").join(NOW, on="x", prefix="f_").to_topic("found"),
    NEWEST.changes().to_topic("newest-changelog"),
    IDS.latest("ids_now"),
    IDS.rekey("coalesce(label, 'none') AS l").latest("by_label"),
    IDS.rekey("id + 1 AS j", "coalesce(v, 0) AS w").to_topic("rekeyed"),
)
OTHER_NAN = bytes.fromhex("fff8000000000001")
KEYS = ('{"id":1}', "2", '{"ID":1}', "{}", "null", '"2"', " 2 ", "1")
CHANGES = (
    ("a", 1), ("a", 5), ("a", None), ("a", 3), ("b", None), ("b", -7), ("a", 5), ("a", None),
    ("c", 2), ("d", 4), ("d", None), ("d", 6), ("e", 1), ("e", None),
)  # fmt: skip


def outcome(engine: Literal["model", "spark"]) -> dict[str, str]:
    """Everything that comes out, as text: it tells -0.0 from 0.0."""
    replay = Replay(APP, engine=engine)
    nan = "NaN"
    rows = [(0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (2.0, -0.0, 0.0), (math.nan, nan, nan), (OTHER_NAN, nan, nan)]
    for number, (key, x, inner) in enumerate(rows):
        data = key if isinstance(key, bytes) else struct.pack(">d", key)
        replay.send("doubles", key_bytes=data, value={"x": x, "p": {"x": inner}}, timestamp=number)
        if number == 2:
            replay.tick()
    replay.send("doubles", key_bytes=struct.pack(">d", -0.0), value=None, timestamp=10)
    for number, text in enumerate(KEYS):
        value = None if number == 7 else {"v": number, "label": "x" if number % 2 else None}
        replay.send("ids", key_bytes=text.encode(), value=value, timestamp=number)
    for number, (id, v) in enumerate(CHANGES):
        replay.send("versions", key=id, value=None if v is None else {"v": v}, timestamp=number)
        if number == 7:
            replay.tick()
    return shown(replay.run())


def shown(result: Replayed) -> dict[str, str]:
    found = {table.name: repr((result.rows(table.name), result.null_keys(table.name))) for table in APP.tables}
    return found | {sink.topic: repr(result.topic(sink.topic)) for sink in APP.sinks}


@pytest.mark.slow
def test_keys_are_the_same_on_both_engines() -> None:
    assert outcome("spark") == outcome("model")
