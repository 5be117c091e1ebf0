"""Rules for records after a join or other steps: which records are judged, what is counted, and what stops the run."""

from __future__ import annotations

import json
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
from lakehouse.run.watch.assertions import Assertion, read_assertions
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.table.checked import check_application
from tests import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = lh.stream("orders", key="id string", schema="product string, amount bigint")
RETURNS = lh.stream("returns", key="id string", schema="reason string")
PRODUCTS = lh.stream("products", key="id string", schema="name string").latest("products")
KNOWN = "name IS NOT NULL"
TICKS = (1, 2, 3)


def judged_streams() -> dict[str, tuple[lh.Stream, str]]:
    """Streams of each kind, with a condition that some of their records do not meet, or for which it is null."""
    halves = [ORDERS.filter("amount > 0"), ORDERS.filter("amount < 0")]
    return {
        "joined": (ORDERS.join(PRODUCTS, on="product", how="left"), KNOWN),
        "by_stream": (ORDERS.join(RETURNS, within="1 minute", how="left").select("amount", "reason"), "reason <> 'x'"),
        "filtered": (ORDERS.filter("amount IS NOT NULL").with_columns(twice="2 * amount"), "twice > 0"),
        "merged": (halves[0].merge(halves[1]), "amount % 2 = 0"),
        "of_changes": (PRODUCTS.to_stream().rekey("name"), "name <> 'tea'"),
    }


def count_by_nothing(stream: lh.Stream, name: str) -> lh.Table:
    return stream.rekey("'all' AS everything").group_by("everything").agg(n=lh.count()).table(name)


def record(topic: str, offset: int, tick: int, key: str, value: dict[str, Any] | None) -> Record:
    value_bytes = None if value is None else json.dumps(value).encode()
    return Record(topic, f"id of {topic}", 0, offset, 1_000 * offset, key.encode(), value_bytes, tick, 1_000 * offset)


def draw_records(random: Random) -> list[Record]:
    records = []
    offsets = dict.fromkeys(("orders", "returns", "products"), 0)
    for tick in TICKS:
        for _ in range(14):
            topic = random.choice([*offsets])
            key = random.choice("abcd")
            value: dict[str, Any] | None = {
                "orders": {"product": random.choice("abcd"), "amount": random.choice([-3, -2, 0, 1, 2, None])},
                "returns": {"reason": random.choice(["x", "y", None])},
                "products": {"name": random.choice(["tea", "jam"])},
            }[topic]
            records.append(record(topic, offsets[topic], tick, key, None if random.random() < 0.15 else value))
            offsets[topic] += 1
    return records


def catch_up(spark: SparkSession, path: Path, app: lh.App, ticks: tuple[int, ...]) -> None:
    for tick in ticks:
        with Silver(open_lake(spark, Layout(str(path))), app, lambda tick, count: None) as silver:
            silver.catch_up(tick)


def warnings_of(path: Path) -> dict[str, tuple[int, str, str]]:
    return {
        table: (failure.records, failure.first, failure.error)
        for table, failures in failures_by_table(Layout(str(path))).items()
        for failure in failures
    }


def test_rules_after_steps_are_declared_with_care() -> None:
    joined = ORDERS.join(PRODUCTS, on="product", how="left")
    judged = joined.expect("known", KNOWN, otherwise="warn")
    plain, counted = count_by_nothing(joined, "n"), count_by_nothing(judged, "n")
    assert declaration_digest(plain) == declaration_digest(counted), "it changes no row, so it comes and goes"
    assert "EXPECT known: name IS NOT NULL (or warn)" in str(lh.describe(counted))
    early = ORDERS.expect("positive", "amount > 0").join(PRODUCTS, on="product", how="left")
    for wrong, message in (
        (lambda: joined.expect("known", KNOWN), 'otherwise="quarantine" judges the records of a topic as they came'),
        (lambda: joined.expect("known", "nme IS NULL", otherwise="warn"), "reads 'nme', which does not exist"),
        (lambda: judged.expect("KNOWN", "amount > 0", otherwise="fail"), "there is an expectation of that name"),
        (lambda: early.expect("positive", KNOWN, otherwise="warn"), "there is an expectation of that name"),
        (lambda: joined.expect("known", "name", otherwise="warn"), "expected a condition"),
        (lambda: joined.expect("known", KNOWN, otherwise="stop"), "otherwise='stop'"),
    ):
        with pytest.raises(PlanError, match=message):
            wrong()


def test_a_rule_that_no_table_judges_is_named_in_a_warning() -> None:
    judged = ORDERS.filter("amount > 0").expect("small", "amount < 9", otherwise="fail")
    assert lh.app(judged.to_topic("out"), count_by_nothing(judged, "n")).warnings == ()
    warning = "stream 'orders': expect 'small' judges nothing: no table reads the stream."
    assert lh.app(judged.to_topic("out")).warnings == (warning,)
    assert lh.app(judged.to_function("call", print)).warnings == (warning,)


def test_a_constraint_of_a_query_for_a_stream() -> None:
    source = "CREATE STREAM orders (id VARCHAR KEY, amount BIGINT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
    app = application(
        f"{source} CREATE STREAM small (CONSTRAINT few EXPECT (doubled < 9) ON VIOLATION WARN) AS "
        "SELECT id, amount * 2 AS doubled FROM orders; CREATE STREAM same (CONSTRAINT few EXPECT (amount < 9) "
        "ON VIOLATION FAIL) AS SELECT * FROM orders;"
        "CREATE TABLE counts AS SELECT doubled, COUNT(*) AS n FROM small GROUP BY doubled;"
        "CREATE TABLE sames AS SELECT amount, COUNT(*) AS n FROM same GROUP BY amount;"
        "CREATE TABLE plain AS SELECT amount, COUNT(*) AS n FROM orders GROUP BY amount;"
    )
    counts, sames, plain = (
        [line for line in app.table(name).stream.lines() if "EXPECT" in line] for name in ("counts", "sames", "plain")
    )
    assert (counts, sames, plain) == (
        ["EXPECT FEW: (DOUBLED < 9) (or warn)"],
        ["EXPECT FEW: (AMOUNT < 9) (or fail)"],
        [],
    )


def test_a_constraint_of_a_stream_judges_what_is_inserted_too() -> None:
    source = "CREATE STREAM {} (id VARCHAR KEY, {} BIGINT) WITH (KAFKA_TOPIC='{}', VALUE_FORMAT='JSON');"
    app = application(
        f"{source.format('orders', 'amount', 'orders')} {source.format('others', 'amount', 'others')}"
        "CREATE STREAM every (CONSTRAINT few EXPECT (amount < 9) ON VIOLATION WARN) AS SELECT * FROM orders;"
        "INSERT INTO every SELECT * FROM others WHERE amount > 1;"
        "CREATE TABLE counts AS SELECT amount, COUNT(*) AS n FROM every GROUP BY amount;"
    )
    lines = app.table("counts").stream.lines()
    assert lines[0] == "EXPECT FEW: (AMOUNT < 9) (or warn)"
    assert [line for line in lines[1:] if "EXPECT" in line] == []
    assert "topic others" in str(lines)


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds.seeds(1, 2, on_spark=True))
def test_each_record_of_a_stream_is_judged_once(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """As many as the model's stream has of those for which the condition is false or null."""
    judged_tables, bad_tables = [], []
    for name, (stream, condition) in judged_streams().items():
        judged = stream.expect("rule", condition, otherwise="warn")
        judged_tables.append(count_by_nothing(judged, name))
        bad_tables.append(count_by_nothing(stream.filter(f"NOT coalesce({condition}, false)"), name))
    app, records = lh.app(*judged_tables), draw_records(Random(seed))
    check_application(spark, app)
    write_bronze(open_lake(spark, Layout(str(tmp_path))), app, records)
    catch_up(spark, tmp_path, app, (*seeds.restarts(seed, TICKS[-1]), TICKS[-1]))
    bad_rows = model.run(lh.app(*bad_tables), records, decode_record).tables
    expected = {table.name: bad_rows[table.name][("all",)]["n"] for table in bad_tables if bad_rows[table.name]}
    assert expected, "nothing would have been judged"
    assert {name: count for name, (count, _, _) in warnings_of(tmp_path).items()} == expected


@pytest.mark.rotated
def test_a_rule_that_fails_stops_the_table_before_the_tick(spark: SparkSession, tmp_path: Path) -> None:
    stream = ORDERS.join(PRODUCTS, on="product", how="left")
    table = count_by_nothing(stream.expect("known", KNOWN, otherwise="fail"), "n")
    app, layout = lh.app(table, PRODUCTS), Layout(str(tmp_path))
    write_bronze(
        open_lake(spark, layout), app,
        [
            record("products", 0, 1, "p", {"name": "tea"}), record("orders", 0, 2, "a", {"product": "p", "amount": 1}),
            record("orders", 1, 3, "b", {"product": "q", "amount": 1}), record("orders", 2, 3, "c", {"product": "r"}),
        ],
    )  # fmt: skip
    catch_up(spark, tmp_path, app, (2,))
    for _ in range(2):
        with pytest.raises(
            ExpectationFailed,
            match=r"table 'n': record orders/0/1 \(and 1 more\) stops the run: expectation orders.known: "
            r"name IS NOT NULL, found null\. The table has not taken in its tick",
        ):
            catch_up(spark, tmp_path, app, (3,))
    assert warnings_of(tmp_path) == {}
    warning = lh.app(count_by_nothing(stream.expect("known", KNOWN, otherwise="warn"), "n"), PRODUCTS)
    catch_up(spark, tmp_path, warning, (3,))
    assert warnings_of(tmp_path) == {"n": (2, "orders/0/1", "name IS NOT NULL, found null")}
    assert read_assertions(layout, warning) == [Assertion("", "n", "orders.known", False)]
