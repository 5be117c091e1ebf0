"""A rule for a topic's records is turned on for a table that is there: by a backfill, and its records are fixed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import ExpectationFailed, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.lake.record.quarantine import read_quarantined
from lakehouse.model import model
from lakehouse.plan.evolution.fingerprint import table_fingerprint
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from tests.conftest import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = lh.stream("orders", key="id string", schema="city string, amount bigint")
JUDGED = ORDERS.expect("positive", "amount > 0").expect("sounds", "soundex(city) <> 'R500'")


def application(stream: Any) -> lh.App:
    return lh.app(stream.group_by("city").agg(n=lh.count(), total=lh.sum("amount")).table("totals"))


def history() -> list[Record]:
    values = [("Oslo", 5), ("Oslo", -5), ("Lima", 1), ("Rome", 7), ("Lima", None), ("Oslo", 2), ("Lima", -1)]
    return [
        Record(
            "orders", "id", 0, number, number, b"k%d" % number,
            json.dumps({"city": city, "amount": amount}).encode(), 1 + number // 3, number,
        )
        for number, (city, amount) in enumerate(values)
    ]  # fmt: skip


@pytest.mark.rotated
def test_a_rule_is_turned_on_and_its_records_are_fixed(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.quarantine import QuarantineChoice
    from lakehouse.run.lake import Lake
    from lakehouse.run.repair.fixes import fixed_records, leave_unchanged
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.spark.silver.query import Silver

    before, after = application(ORDERS), application(JUDGED)
    layout, records = Layout(str(tmp_path / "lake")), history()
    write_bronze(open_lake(spark, layout), before, records)
    with Silver(open_lake(spark, layout), before, lambda tick, count: None) as silver:
        silver.catch_up()
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))
    (totals,) = after.tables

    def rows(table: Any) -> Any:
        return rows_of(table, lake.read(table).toArrow().to_pylist(maps_as_pydicts="strict"))

    with (
        pytest.raises(PlanError, match="what is expected of stream orders: found nothing, declared amount > 0"),
        Silver(open_lake(spark, layout), after, lambda tick, count: None) as silver,
    ):
        silver.catch_up()
    lake.backfill(after, totals, reason="only positive amounts")
    judged = [record for record in records if record.offset in (0, 2, 5)]
    expected = model.run(before, judged, decode_record)
    assert rows(totals) == expected.tables["totals"]
    reasons = {bad.record.offset: bad.reason for bad in read_quarantined(layout, "orders", QuarantineChoice())}
    assert reasons == {
        1: "expectation positive: amount > 0, found -5",
        3: "expectation sounds: soundex(city) <> 'R500', found \"Rome\"",
        4: "expectation positive: amount > 0, found null", 6: "expectation positive: amount > 0, found -1",
    }  # fmt: skip

    rome = fixed_records(layout, after, "orders", QuarantineChoice(reason="sounds"), leave_unchanged)
    with pytest.raises(PlanError, match="the new bytes do not fit either"):
        lake.replay(after, "orders", rome.fixed)
    fixes = fixed_records(
        layout, after, "orders", QuarantineChoice(reason="positive"),
        lambda record: (record.value or b"").replace(b"-", b"").replace(b"null", b"9"),
    )  # fmt: skip
    lake.replay(after, "orders", fixes.fixed, reason="the sign was wrong")
    assert rows(totals) == {("Oslo",): {"n": 3, "total": 12}, ("Lima",): {"n": 3, "total": 11}}
    assert lake.audit(after, totals, deep=True).ok


@pytest.mark.rotated
def test_a_rule_that_warns_keeps_no_record_out_and_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.function_failures import failures_by_table
    from lakehouse.lake.layout import Layout
    from lakehouse.run.lake import Lake
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.semantics.failures import FunctionFailures
    from lakehouse.spark.silver.query import Silver

    layout, records = Layout(str(tmp_path / "lake")), history()
    warning = ORDERS.expect("positive", "amount > 0", otherwise="warn")
    warning = warning.expect("early", "rowoffset < 99", otherwise="warn")
    warning = warning.expect("no_rome", "city <> 'Rome'").expect("few", "rowoffset < 999", otherwise="fail")
    before, after = application(ORDERS), application(warning)
    refusing = application(ORDERS.expect("no_rome", "city <> 'Rome'"))
    assert table_fingerprint(after.tables[0]) != table_fingerprint(refusing.tables[0])  # for "few"
    only_warning = application(ORDERS.expect("positive", "amount > 0", otherwise="warn"))
    assert table_fingerprint(only_warning.tables[0]) == table_fingerprint(before.tables[0])
    write_bronze(open_lake(spark, layout), after, records)
    for tick in (1, 3):
        with Silver(open_lake(spark, layout), after, lambda tick, count: None) as silver:
            silver.catch_up(tick)
            failed = list(silver.take_failures())
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))
    (totals,) = after.tables
    rows = rows_of(totals, lake.read(totals).toArrow().to_pylist(maps_as_pydicts="strict"))
    assert rows == model.run(after, records, decode_record).tables["totals"]
    assert [bad.record.offset for bad in read_quarantined(layout, "orders")] == [3]
    # The first batch had the one of tick 1, the second those of the others.
    assert failed == [
        ("totals", FunctionFailures("expectation orders.positive", 2, "orders/0/4", "amount > 0, found null"))
    ]
    assert failures_by_table(layout) == {
        "totals": (FunctionFailures("expectation orders.positive", 3, "orders/0/1", "amount > 0, found -5"),)
    }


@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_what_warns_names_moments_in_utc(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    import time

    from pyspark.sql import functions as F

    from lakehouse.spark.bronze import bronze
    from lakehouse.spark.fold.failing import FailureCounter
    from lakehouse.spark.stream.decoded import decode_records

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        stream = lh.stream("seen", key="id string", schema="at timestamp")
        stream = stream.expect("old", "at < timestamp'2000-01-01'", otherwise="warn")
        (source,) = lh.app(stream.latest("newest")).sources
        value = b'{"at": "2026-11-01T05:30:00.5Z"}'
        rows = spark.createDataFrame([("seen", "id", 0, 7, None, 0, None, b"k", value, 1, None)], bronze.SCHEMA)
        counter = FailureCounter()
        records = decode_records(source, rows).where(~F.col("_bad"))
        counter.count_unmet("its place", "seen.old", source.expectations[0], records).collect()
        (warned,) = counter.collect_failures()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (warned.records, warned.first) == (1, "seen/0/7")
    assert warned.error.endswith("found 2026-11-01T05:30:00.500000Z")


@pytest.mark.rotated
def test_what_a_backfill_found_under_a_rule_that_stops_does_not_stop_the_runs_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.run.lake import Lake
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.spark.silver.query import Silver

    layout, records = Layout(str(tmp_path / "lake")), history()
    before, after = application(ORDERS), application(ORDERS.expect("positive", "amount > 0", otherwise="fail"))
    # The backfill is decided at tick 3.
    early, late = records[:5], [replace(record, tick=4) for record in records[5:]]
    write_bronze(open_lake(spark, layout), before, early)
    with Silver(open_lake(spark, layout), before, lambda tick, count: None) as silver:
        silver.catch_up()
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))
    (totals,) = after.tables
    lake.backfill(after, totals, reason="only positive amounts")
    with Silver(open_lake(spark, layout), after, lambda tick, count: None) as silver:
        silver.catch_up()
    rows = rows_of(totals, lake.read(totals).toArrow().to_pylist(maps_as_pydicts="strict"))
    assert rows == model.run(before, [early[0], early[2], early[3]], decode_record).tables["totals"]
    write_bronze(open_lake(spark, layout), after, late)
    with (
        pytest.raises(ExpectationFailed, match=r"record orders/0/6 stops .* found -1\."),
        Silver(open_lake(spark, layout), after, lambda tick, count: None) as silver,
    ):
        silver.catch_up()


@pytest.mark.rotated
def test_a_record_stops_the_run_until_it_is_fixed(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.layout import Layout
    from lakehouse.lake.record.quarantine import QuarantineChoice
    from lakehouse.run.lake import Lake
    from lakehouse.run.repair.fixes import fixed_records
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.spark.silver.query import Silver

    layout, records = Layout(str(tmp_path / "lake")), history()
    # A record that also breaks a rule which was declared before, and stops nothing, stops the run.
    milder = ORDERS.expect("known", "amount is not null").expect("near", "amount > -2")
    stopping = milder.expect("positive", "amount > 0 OR amount is null", otherwise="fail")
    app = application(stopping)
    write_bronze(open_lake(spark, layout), app, records)
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))

    def run() -> None:
        with Silver(open_lake(spark, layout), app, lambda tick, count: None) as silver:
            silver.catch_up()

    def fix(offset: int) -> None:
        (place,) = [bad.place for bad in read_quarantined(layout, "orders") if bad.record.offset == offset]
        fixes = fixed_records(
            layout,
            app,
            "orders",
            QuarantineChoice(places=(place,)),
            lambda record: (record.value or b"").replace(b"-", b""),
        )
        lake.replay(app, "orders", fixes.fixed, reason="the sign was wrong")

    for _ in range(2):
        with pytest.raises(
            ExpectationFailed, match=r"record orders/0/1 \(and 1 more\) stops .* found -5\. .* --position orders/0/1"
        ):
            run()
        assert [open_lake(spark, layout).open(table).read_progress().tick for table in app.tables] == [0]
    with pytest.raises(ExpectationFailed, match="record orders/0/6 stops the run"):
        fix(1)  # the tables come to the tick of the fix, and stop before it at the next record
    fix(6)
    run()
    totals = app.tables[0]
    rows = rows_of(totals, lake.read(totals).toArrow().to_pylist(maps_as_pydicts="strict"))
    assert rows == {
        ("Oslo",): {"n": 3, "total": 12}, ("Lima",): {"n": 2, "total": 2}, ("Rome",): {"n": 1, "total": 7},
    }  # fmt: skip
