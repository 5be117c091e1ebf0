"""What is expected of records: Spark quarantines those that the model quarantines, with the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.expectation import OTHERWISE
from lakehouse.semantics.record import Record
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONDITIONS = (
    "n > 0", "n % 3 <> 1 AND tiny < 100", "price between -1 and 10", "x < 1e10 OR ok", "city <> 'Rome'",
    "at > timestamp'1900-01-01 00:00:00'", "day >= date'0500-01-01'", "size(tags) > 0", "home.zip > 5 OR n is null",
    "length(city) < 90 OR rowoffset < 50", "id <> 'k3'", "m['a'] is not null OR n > -5", "n % 0 is null",
)  # fmt: skip
SCHEMA = (
    "n bigint, tiny tinyint, price decimal(8, 3), x double, ok boolean, city string, at timestamp, day date, "
    "tags array<string>, home struct<zip: int>, m map<string, int>"
)
VALUES: dict[str, Callable[[Random], Any]] = {
    "n": lambda dice: dice.choice([None, 0, -7, 2**63 - 1, dice.randrange(-9, 99)]),
    "tiny": lambda dice: dice.choice([None, 127, -128, 3]),
    "price": lambda dice: dice.choice([None, -1, 0.5, 12345.125, -0.001]),
    "x": lambda dice: dice.choice([None, 0.1, -0.0, 1e300, 5e-324, 1e16, 123456789.123]),
    "ok": lambda dice: dice.choice([None, True, False]),
    "city": lambda dice: dice.choice([None, "", "Rome", 'a"b\\\n\t', "é😀", "x" * 200]),
    "at": lambda dice: dice.choice(
        [None, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-01-31T12:00:01Z"]
    ),
    "day": lambda dice: dice.choice([None, "0001-01-01", "9999-12-31", "2026-01-31"]),
    "tags": lambda dice: dice.choice([None, [], ["a"]]),
    "home": lambda dice: dice.choice([None, {}, {"zip": 7}]),
    "m": lambda dice: dice.choice([None, {}, {"a": 1}]),
}


def random_records(dice: Random, count: int) -> list[Record]:
    records = []
    for offset in range(count):
        names = dice.sample(sorted(VALUES), dice.randrange(3, len(VALUES) + 1))
        value: bytes | None = json.dumps({name: VALUES[name](dice) for name in names}).encode()
        value = dice.choice([None, b"{", b'{"n": "no"}']) if dice.random() < 0.1 else value
        key = dice.choice([b"k1", b"k2", b"k3", None])
        tick = 1 + offset * 3 // count
        records.append(Record("events", "id", 0, offset, offset, key, value, tick=tick, order_time=offset))
    return records


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds())
def test_spark_quarantines_what_the_model_does(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    from lakehouse.run.scenario.replay import SparkReplay, write_bronze
    from lakehouse.spark.audit.tried_rule import try_rule
    from lakehouse.spark.changelog.upstream import open_lake

    dice = Random(seed)
    events = lh.stream("events", key="id string", schema=SCHEMA)
    for number, condition in enumerate(dice.sample(CONDITIONS, 6)):
        events = events.expect(f"rule_{number}", condition, otherwise=dice.choice(OTHERWISE))
    app = lh.app(events.latest("newest"), events.group_by("ok").agg(n=lh.count()).table("counts"))
    records = random_records(dice, 150)
    expected = model.run(app, records, decode_record)
    actual = SparkReplay(spark, tmp_path)(app, records)
    reasons = {record.offset: reason for record, reason in expected.quarantine["events"]}
    assert any(reason.startswith("expectation") for reason in reasons.values())
    assert {record.offset: reason for record, reason in actual.quarantine["events"]} == reasons
    assert actual.tables == expected.tables

    # Each rule, tried on the records that nothing is expected of.
    (source,) = app.sources
    unjudged = replace(source, expectations=())
    bare = lh.app(lh.stream("events", key="id string", schema=SCHEMA).latest("newest"))
    bad_before = {record.offset for record, _ in model.run(bare, records, decode_record).quarantine["events"]}
    lake = open_lake(spark, Layout(str(tmp_path / "tried")))
    write_bronze(lake, bare, records)
    for expectation in (replace(item, otherwise="quarantine") for item in source.expectations):
        judged = App((), (), (replace(unjudged, expectations=(expectation,)),))
        result = model.run(judged, records, decode_record).quarantine["events"]
        refused = {record.offset: reason for record, reason in result if record.offset not in bad_before}
        tried = try_rule(lake, unjudged, expectation)
        assert (tried.records, tried.refused) == (len(records) - len(bad_before), len(refused))
        for day in tried.days:
            if day.first is not None:
                name = f"expectation {expectation.name}: "
                assert day.first.reason.partition(": ")[2] == refused[day.first.place.offset].removeprefix(name)
        assert [day.first.place.offset for day in tried.days if day.first] == sorted(refused)[:1]
