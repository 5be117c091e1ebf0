"""Rules for the rows of a table: which rows are judged, what warns and what stops, for each way to fold."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.errors import ExpectationFailed, PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.ksql.script import application
from lakehouse.lake.function_failures import failures_by_table
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.plan.evolution.change import declaration_digest
from lakehouse.run.scenario.replay import write_bronze
from lakehouse.semantics.failures import FunctionFailures
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.table.checked import check_application
from tests import seeds
from tests.conftest import settings_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = lh.stream("orders", key="id string", schema="city string, amount bigint, at timestamp", event_time="at")
BY_CITY = ORDERS.group_by("city").agg(n=lh.count(), total=lh.sum("amount"))


def records(*values: tuple[str, str | None, int, int]) -> list[Record]:
    """Records: (id, city, amount, tick); a city of None is a delete. Each is a minute later."""
    return [
        Record(
            "orders", "id", 0, offset, offset, key.encode(),
            None if city is None else json.dumps(
                {"city": city, "amount": amount, "at": f"2026-01-31T12:{offset:02}:00Z"}
            ).encode(),
            tick, offset,
        )
        for offset, (key, city, amount, tick) in enumerate(values)
    ]  # fmt: skip


def catch_up(spark: SparkSession, path: Path, app: lh.App, ticks: Iterable[int]) -> list[tuple[str, FunctionFailures]]:
    failed: list[tuple[str, FunctionFailures]] = []
    for tick in ticks:
        with Silver(open_lake(spark, Layout(str(path))), app, lambda tick, count: None) as silver:
            silver.catch_up(tick)
            failed += silver.take_failures()
    return failed


def rows_of(spark: SparkSession, path: Path, table: lh.Table) -> list[dict[str, Any]]:
    from lakehouse.run.lake import Lake

    lake = Lake(settings=settings_for(path, "127.0.0.1:9"))
    return sorted((row.asDict() for row in lake.read(table).collect()), key=str)


def test_rules_are_declared_with_care():
    table = BY_CITY.table("totals")
    judged = table.expect("positive", "total > 0").expect("small", "n < 9", otherwise="warn")
    assert declaration_digest(judged) == declaration_digest(table)
    assert "EXPECT positive: total > 0 (or fail)" in str(lh.describe(judged))
    for wrong, message in (
        (lambda: table.expect("p", "total > 0", otherwise="quarantine"), "has no quarantine"),
        (lambda: table.expect("p", "amount > 0"), "amount"),
        (lambda: table.expect("p", "total"), "is a bigint; expected a condition"),
        (lambda: judged.expect("POSITIVE", "n > 0"), "expectation of that name"),
        (lambda: table.expect("p q", "n > 0"), "letter"),
        (lambda: table.expect("p", "n > 0", otherwise="stop"), "otherwise='stop'"),
        (lambda: lh.app(table, judged), "is given with its expectations, and without some of them"),
    ):
        with pytest.raises(PlanError, match=message):
            wrong()
    windowed = ORDERS.group_by("city").window(lh.tumbling("1 hour")).agg(n=lh.count())
    windowed.table("hours").expect("few", "n < 9")
    with pytest.raises(PlanError, match="a final result appears once"):
        windowed.table("final", emit="final").expect("few", "n < 9")


@pytest.mark.rotated
def test_a_row_is_judged_as_it_stands_after_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Oslo's sum is below 0 within a batch, and not after it; Rome's after the second, with the first's records."""
    table = BY_CITY.table("totals").expect("positive", "total > 0", otherwise="warn")
    table = table.expect("few", "n < 1000", otherwise="warn")  # never unmet, of a column that is never null
    app = lh.app(table)
    write_bronze(
        open_lake(spark, Layout(str(tmp_path))), app,
        records(
            ("a", "Oslo", -5, 1), ("b", "Oslo", 9, 1), ("c", "Rome", 3, 1), ("d", "Rome", -4, 2), ("e", "Bari", -1, 2)
        ),
    )  # fmt: skip
    name = "expectation totals.positive of rows"
    assert catch_up(spark, tmp_path, app, (1, 2)) == [
        ("totals", FunctionFailures(name, 2, "Bari", "total > 0, found -1"))
    ]
    assert failures_by_table(Layout(str(tmp_path)))["totals"] == (
        FunctionFailures(name, 2, "Bari", "total > 0, found -1"),
    )
    assert [row["total"] for row in rows_of(spark, tmp_path, table)] == [-1, 4, -1]


@pytest.mark.rotated
def test_a_rule_that_fails_stops_before_the_commit_until_a_record_corrects_the_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    plain = BY_CITY.table("totals")
    table = plain.expect("few", "n < 1000").expect("positive", "total > 0")
    app, layout = lh.app(table), Layout(str(tmp_path))
    write_bronze(
        open_lake(spark, layout), app,
        records(
            ("a", "Oslo", 5, 1), ("b", "Oslo", -9, 2), ("c", "Rome", -1, 2), ("d", "Oslo", 9, 3), ("e", "Rome", 2, 3)
        ),
    )  # fmt: skip
    assert catch_up(spark, tmp_path, app, (1,)) == []
    for _ in range(2):
        with pytest.raises(
            ExpectationFailed,
            match=r"table 'totals': row Oslo \(and 1 more\) stops the run: expectation positive: total > 0, found -4\.",
        ):
            catch_up(spark, tmp_path, app, (2,))
        assert rows_of(spark, tmp_path, table) == [{"city": "Oslo", "n": 1, "total": 5}]
    assert catch_up(spark, tmp_path, app, (3,)) == []
    assert rows_of(spark, tmp_path, table) == [
        {"city": "Oslo", "n": 3, "total": 5},
        {"city": "Rome", "n": 2, "total": 1},
    ]


def judged_tables() -> list[lh.Table]:
    """Tables of each way to fold, with one rule each."""
    latest = ORDERS.latest("latest")
    by_city = ORDERS.group_by("city")
    hours = by_city.window(lh.tumbling("10 minutes"))
    tables = [
        latest.expect("positive", "amount > 0", otherwise="warn"),
        ORDERS.latest("ordered", order_by="amount").expect("positive", "amount > 0", otherwise="warn"),
    ]
    tables += [
        table.expect("positive", "total > 0", otherwise="warn")
        for table in (
            BY_CITY.table("totals"),
            BY_CITY.having("n > 1").table("having"),
            hours.agg(total=lh.sum("amount")).table("hours"),
            by_city.window(lh.session("2 minutes")).agg(total=lh.sum("amount")).table("sessions"),
            by_city.agg(total=lh.sum("amount"), ids=lh.collect_list("id")).table("lists"),
            tables[0].group_by("city").agg(total=lh.sum("amount")).table("above"),
        )
    ]
    return tables


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds.seeds(1, 2, on_spark=True))
def test_each_way_to_fold_is_judged_by_its_visible_rows(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """As many as the model's rows that a tick has changed, and that do not meet the rule after it."""
    random, ticks = Random(seed), (1, 2, 3)
    drawn = [
        (random.choice("abcdef"), random.choice(("Oslo", "Rome", "Bari", None)), random.randrange(-9, 10), tick)
        for tick in ticks
        for _ in range(7)
    ]
    app, history = lh.app(*judged_tables()), records(*drawn)
    check_application(spark, app)
    write_bronze(open_lake(spark, Layout(str(tmp_path))), app, history)
    before: dict[str, Any] = {}
    for tick in ticks:
        failed = dict(catch_up(spark, tmp_path, app, [tick]))
        after = model.run(app, [record for record in history if record.tick <= tick], decode_record).tables
        for table in app.tables:
            value = "amount" if table.name in ("latest", "ordered") else "total"
            old_rows = before.get(table.name, {})
            changed = {key: row for key, row in after[table.name].items() if old_rows.get(key) != row}
            bad = [key for key, row in changed.items() if row[value] is None or row[value] <= 0]
            counted = failed[table.name].records if table.name in failed else 0
            # A row may be written again as it was: it is judged, too.
            touched = [key for key, row in after[table.name].items() if row[value] is None or row[value] <= 0]
            assert len(bad) <= counted <= len(touched), (table.name, tick, drawn)
            assert bool(bad) <= bool(counted)
        before = after


@pytest.mark.rotated
def test_a_constraint_in_sql_judges_rows(spark: SparkSession, tmp_path: Path) -> None:
    app = application(
        "CREATE STREAM orders (id VARCHAR KEY, city VARCHAR, amount BIGINT) "
        "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
        "CREATE TABLE totals (CONSTRAINT positive EXPECT (total > 0) ON VIOLATION WARN, CONSTRAINT short EXPECT "
        "(LEN(city) < 5)) AS SELECT city, SUM(amount) AS total FROM orders GROUP BY city;"
    )
    write_bronze(
        open_lake(spark, Layout(str(tmp_path))), app,
        records(("a", "Oslo", -5, 1), ("b", "Rome", 5, 1), ("c", "Vienna", 9, 2)),
    )  # fmt: skip
    unmet = FunctionFailures("expectation TOTALS.POSITIVE of rows", 1, "Oslo", "(TOTAL > 0), found -5")
    assert catch_up(spark, tmp_path, app, (1,)) == [("TOTALS", unmet)]
    with pytest.raises(ExpectationFailed, match=r"row Vienna stops the run: expectation SHORT"):
        catch_up(spark, tmp_path, app, (2,))
