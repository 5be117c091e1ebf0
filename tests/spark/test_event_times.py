"""A read at an event time has no record from after it, whatever was repaired or joined since. Oracle: the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.repair.backfill import Range, backfill_range
from lakehouse.run.repair.replay import replay
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.moment import AtEvent, AtOffsets
from lakehouse.semantics.record import Record
from lakehouse.spark.history.fixed_records import FixedBytes
from lakehouse.spark.table import timelines

from ..bench import Bench

BOOKINGS = lh.stream("bookings", key="id string", schema="city string, n int")
NEWEST = BOOKINGS.latest("newest")
CITIES = NEWEST.group_by("city").agg(rows=lh.count(), total=lh.sum("n")).table("cities")
VISITS = lh.stream("visits", key="id string", schema="at string")
WITH_CITY = VISITS.join(NEWEST, on="at", prefix="booked_", how="left")
VISITED = WITH_CITY.group_by("booked_city").agg(rows=lh.count()).table("visited")
PAIRS = VISITS.latest("last").join(NEWEST, how="left", prefix="booked_").table("pairs")


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


def record(topic: str, offset: int, time_ms: int, tick: int, key: str, value: Any) -> Record:
    """A record; a value of bytes is what Kafka has."""
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return Record(topic, f"id-{topic}", 0, offset, time_ms, key.encode(), data, tick, 10_000 + 100 * tick + offset)


def booking(offset: int, time_ms: int, tick: int, key: str, city: str, n: int) -> Record:
    return record("bookings", offset, time_ms, tick, key, {"city": city, "n": n})


def expected(app: App, table: Table, records: list[Record], until: int) -> dict[Any, Any]:
    return dict(model.run(app, records, decode_record, until=until).tables[table.name])


def groups(rows: dict[Any, Any]) -> dict[Any, Any]:
    """The groups that have rows."""
    return {key: row for key, row in rows.items() if row.get("rows")}


@pytest.mark.rotated
@pytest.mark.parametrize("fixed_value", [b'{"city": "Oslo", "n": 7}', b"null"], ids=["row", "delete"])
def test_a_fixed_record_of_a_later_time_is_not_read_before_it(bench: Bench, fixed_value: bytes) -> None:
    app = lh.app(NEWEST)
    sent = [booking(0, 100, 1, "a", "Rome", 1), record("bookings", 1, 5000, 2, "a", b"bad")]
    last = write_bronze(bench.lake, app, sent)
    bench.catch_up(app, 1, last)
    source = BOOKINGS.sources[0]
    tick = replay(bench.lake, app, source, [FixedBytes(*sent[1].identity, b"a", fixed_value)])
    bench.catch_up(app, tick)
    fixed = [sent[0], record("bookings", 1, 5000, 2, "a", fixed_value)]
    open_table = bench.lake.open(NEWEST)
    for time_ms in (100, 4999, 5000, 6000):
        rows = expected(app, NEWEST, fixed, time_ms)
        assert bench.rows(NEWEST, AtEvent(time_ms)) == rows, time_ms
        version = timelines.timeline_of(open_table, open_table.visible).version(AtEvent(time_ms))
        if version is not None:
            read = {
                (row["id"],): row["city"] for row in bench.lake.read_past(open_table.visible.path, version).collect()
            }
            assert read == {key: row["city"] for key, row in rows.items()}, time_ms
    # A writer that starts anew knows it, too.
    bench.catch_up(app, write_bronze(bench.lake, app, [booking(2, 200, tick + 1, "b", "Bonn", 1)]))
    assert bench.rows(NEWEST, AtEvent(4999)).keys() == {("a",), ("b",)}


@pytest.mark.slow
def test_what_a_later_record_made_of_another_table_is_not_read_before_it(bench: Bench) -> None:
    app = lh.app(NEWEST, VISITED, PAIRS)
    sent = [
        booking(0, 9000, 1, "a", "Rome", 1),
        record("visits", 0, 3000, 2, "a", {"at": "a"}),
        record("visits", 1, 9500, 3, "b", {"at": "a"}),
    ]
    write_bronze(bench.lake, app, sent)
    bench.catch_up(app, 1, 2, 3)
    for table in (VISITED, PAIRS):
        open_table = bench.lake.open(table)
        for time_ms in (2999, 3000, 8999, 9000, 9500):
            rows = expected(app, table, sent, time_ms)
            assert bench.rows(table, AtEvent(time_ms)) == rows, (table.name, time_ms)
            version = timelines.timeline_of(open_table).version(AtEvent(time_ms))
            assert version is None or time_ms >= 9000, "a version before may hold what the booking made"
            if version is not None:
                key, *columns = [*table.key, *(column.name for column in table.columns if column.name not in table.key)]
                read = bench.lake.read_past(open_table.visible.path, version).select(key, *columns).collect()
                assert {(row[0],): row.asDict() for row in read} == {k: {key: k[0], **row} for k, row in rows.items()}


@pytest.mark.slow
def test_a_refolded_range_holds_the_records_of_then(bench: Bench) -> None:
    """The rows of a table over a table, by event time and by offsets, after a range of it was refolded."""
    app = lh.app(CITIES)
    sent = [
        booking(0, 100, 1, "a", "Rome", 1),
        booking(1, 900, 2, "b", "Rome", 10),
        booking(2, 300, 2, "c", "Rome", 100),
        booking(3, 950, 3, "a", "Oslo", 1000),
    ]
    last = write_bronze(bench.lake, app, sent)
    bench.catch_up(app, 1, last)
    bench.spark.sql(f"UPDATE delta.`{bench.layout.silver('cities')}` SET total = 5")
    outcome = backfill_range(bench.lake.open(CITIES), app, Range(first_ms=0))
    assert outcome.tick == last + 1
    bench.catch_up(app, last + 1)
    for time_ms in (100, 300, 899, 900, 950):
        rows = expected(app, CITIES, sent, time_ms)
        assert groups(bench.rows(CITIES, AtEvent(time_ms))) == groups(rows), time_ms
    for end in range(1, 5):
        rows = model.run(app, sent[:end], decode_record).tables["cities"]
        assert groups(bench.rows(CITIES, AtOffsets({"bookings": {0: end}}))) == groups(dict(rows)), end
