"""A history through what people do with a table: audits, a damage mended, a fix, a revert, reads of its own past."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.semantics.position import order_times
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from tests.conftest import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = lh.stream("orders", key="id string", schema="status string, amount bigint")
HISTORIES = (
    ORDERS.latest("newest").history(),
    ORDERS.latest("by_time", order_by="rowtime").history(),
    ORDERS.group_by("status").agg(n=lh.count(), total=lh.sum("amount")).table("totals").history(),
    ORDERS.latest("statuses", order_by="rowtime").history(track=["status"]),
    ORDERS.group_by("status").agg(most=lh.max("amount"), n=lh.count()).table("largest").history(track=["most"]),
)
APP = lh.app(*HISTORIES)


def records() -> list[Record]:
    rows: list[tuple[str, int, Any]] = [
        ("a", 10, ("new", 1)), ("b", 10, ("new", 5)), ("a", 50, ("paid", 2)), ("c", 20, ("new", "?")),
        ("a", 30, ("packed", 3)), ("b", 40, None), ("c", 60, ("new", 8)), ("b", 35, ("paid", 9)),
        ("a", 50, ("paid", 4)), ("a", 5, ("draft", 0)), ("b", 70, ("new", 6)), ("c", 65, None),
    ]  # fmt: skip
    times = order_times([ms for _, ms, _ in rows])
    return [
        Record(
            "orders", "id", 0, number, ms, key.encode(),
            None if row is None else json.dumps({"status": row[0], "amount": row[1]}).encode(), 1 + number // 4, time,
        )
        for number, ((key, ms, row), time) in enumerate(zip(rows, times, strict=True))
    ]  # fmt: skip


@pytest.mark.slow
def test_a_history_is_audited_mended_fixed_reverted_and_read(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.lake.record.quarantine import QuarantineChoice
    from lakehouse.run.lake import Lake
    from lakehouse.run.repair.fixes import fixed_records
    from lakehouse.run.scenario.replay import rows_of, write_bronze
    from lakehouse.semantics.moment import AtEvent, AtTick
    from lakehouse.spark.silver.query import Silver

    layout, history = Layout(str(tmp_path / "lake")), records()
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))
    write_bronze(open_lake(spark, layout), APP, history)
    with Silver(open_lake(spark, layout), APP, lambda tick, count: None) as silver:
        for tick in (1, 3):
            silver.catch_up(tick)

    def rows(table: Any, **moment: Any) -> Any:
        return rows_of(table, lake.read(table, **moment).toArrow().to_pylist(maps_as_pydicts="strict"))

    def expected(of_records: list[Record], until: int | None = None) -> dict[str, Any]:
        return model.run(APP, of_records, decode_record, until).tables

    for table in HISTORIES:
        assert rows(table) == expected(history)[table.name]
        assert rows(table, at=AtEvent(40)) == expected(history, 40)[table.name]
        assert lake.audit(APP, table, deep=True).ok, table.name
        with pytest.raises(ConfigError, match="it is a history"):
            lake.explain(table, "a")

    spark.sql(f"DELETE FROM delta.`{layout.silver('newest_history')}` WHERE id = 'a'")
    spark.sql(f"UPDATE delta.`{layout.silver('totals_history')}` SET total = 1000 WHERE status = 'paid'")
    for table in (HISTORIES[0], HISTORIES[2]):
        assert not lake.audit(APP, table, deep=True).ok, table.name
        assert not lake.backfill(APP, table, reason="damaged").differing.equal
        assert rows(table) == expected(history)[table.name]
        assert lake.audit(APP, table, deep=True).ok, table.name

    # A bad record of c becomes one of its place: before all that c has.
    fixes = fixed_records(
        layout, APP, "orders", QuarantineChoice(), lambda record: (record.value or b"").replace(b'"?"', b"77")
    )
    lake.replay(APP, "orders", fixes.fixed, reason="a question mark")
    fixed_value = b'{"status": "new", "amount": 77}'
    fixed_history = [replace(record, value=fixed_value) if record.offset == 3 else record for record in history]
    for table in HISTORIES:
        assert rows(table) == expected(fixed_history)[table.name], table.name
        assert lake.audit(APP, table, deep=True).ok, table.name

    lake.revert(APP, HISTORIES[1], AtTick(1))
    assert rows(HISTORIES[1]) == expected([record for record in history if record.tick == 1])["by_time_history"]


@pytest.mark.rotated
def test_sql_over_a_history_reads_any_moment(spark: SparkSession, tmp_path: Path) -> None:
    from lakehouse.run.lake import Lake
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.spark.silver.query import Silver

    layout, history = Layout(str(tmp_path / "lake")), records()
    table, app = ORDERS.latest("by_time", order_by="rowtime"), lh.app(HISTORIES[1])
    write_bronze(open_lake(spark, layout), app, history)
    with Silver(open_lake(spark, layout), app, lambda tick, count: None) as silver:
        silver.catch_up()
    lake = Lake(settings=settings_for(tmp_path / "lake", "127.0.0.1:9"))
    for ms in range(0, 75, 5):
        moment = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).isoformat()
        result = lake.query(
            f"SELECT id, status, amount FROM by_time_history WHERE valid_from <= TIMESTAMPTZ '{moment}' "
            f"AND (valid_to > TIMESTAMPTZ '{moment}' OR valid_to IS NULL) ORDER BY id"
        )
        expected = model.run(lh.app(table), history, decode_record, ms).tables["by_time"]
        assert [tuple(row) for row in result.rows] == [
            (*key, *row.values()) for key, row in sorted(expected.items())
        ], ms


def test_a_history_that_would_not_be_right_is_refused() -> None:
    change_log = lh.debezium("shop.public.orders", key="id int", schema="name string")
    for declare, message in (
        (lambda: ORDERS.latest("t", order_by="amount", tombstones="newest").history(), 'tombstones="newest" counts'),
        (lambda: ORDERS.latest("t", order_by="rowtime", retention="1 day").history(), "retention counts"),
        (lambda: ORDERS.latest("t", suppress=True).history(), "suppress belongs to the table"),
        (lambda: ORDERS.latest("t").history().history(), "it is a history already"),
        (lambda: change_log.latest("t").history(), 'unsent="quarantine"'),
        (lambda: ORDERS.with_columns(valid_to="amount").latest("t").history(), "are the same name"),
        (lambda: ORDERS.latest("t").history().to_stream(), "no changelog per event"),
        (lambda: ORDERS.latest("t").history().alert("a"), "no changelog per event"),
        (lambda: ORDERS.latest("t").history().group_by("id"), "no table is made of them"),
        (lambda: ORDERS.latest("t").history("no-name"), "no-name"),
        (lambda: ORDERS.latest("t").history(track="status"), "track='status'; expected names of columns"),
        (lambda: ORDERS.latest("t").history(track=[]), r"track=\[\]; expected names of columns"),
        (
            lambda: ORDERS.latest("t").history(track=["id"]),
            "found 'id'; expected columns beside the key: status, amount",
        ),
        (lambda: ORDERS.latest("t").history(track=["valid_to"]), "found 'valid_to'; expected columns beside the key"),
    ):
        with pytest.raises(PlanError, match=message):
            declare()
