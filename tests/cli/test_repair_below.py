"""Repairs of tables that read tables, by command, on real Spark: which tables a repair reaches, and what is refused.

The oracle is the model over the same records.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.formats.decode import decode_record
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.model import model
from lakehouse.run.start.application import load_app
from lakehouse.semantics.record import Record
from lakehouse.spark.changelog.upstream import open_lake

from .conftest import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = 1_700_000_000_000
MINUTE = 60_000
APP = """
import lakehouse as lh

customers = lh.stream("customers", key="name string", schema="city string, level bigint")
orders = lh.stream("orders", key="id string", schema="customer string, amount bigint")
customer = customers{steps}.latest("customer")
by_city = orders.join(customer, on="customer", how="left").group_by("city")
by_city = by_city.agg(orders=lh.count(), total=lh.sum("amount"){more}).table("by_city")
city_total = by_city.to_stream().select("orders", "total").latest("city_total")
moves = customer.to_stream().group_by("city").agg(arrivals=lh.count()).table("moves")
hourly = orders.group_by("customer").window(lh.tumbling("10 minutes", grace="0 seconds")).agg(n=lh.count())
hourly = hourly.table("hourly")
seen = hourly.to_stream().group_by("customer").agg(changes=lh.count(), most=lh.max("n")).table("seen")
app = lh.app({tables})
"""
CITIES = "city_total, moves"


class Shop:
    """A lake in the current folder, its records, and the content of its tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.layout = spark, folder, Layout(str(folder / "lake"))
        self.records: list[Record] = []
        (folder / "lakehouse.toml").write_text('[lake]\npath = "./lake"\n')

    def declare(self, file: str, tables: str = CITIES, steps: str = "", more: str = "") -> None:
        (self.folder / file).write_text(APP.format(tables=tables, steps=steps, more=more))

    def send(self, tick: int, *sent: tuple[str, str, Any], minutes: int | None = None) -> None:
        """Write a tick: (topic, key, value); a text is written as it is. minutes: its time, if not after the others."""
        for topic, key, value in sent:
            offset = sum(record.topic == topic for record in self.records)
            time = T + (len(self.records) if minutes is None else minutes) * MINUTE
            order = max([time, *(record.order_time for record in self.records if record.topic == topic)])
            data = None if value is None else (value if isinstance(value, str) else json.dumps(value)).encode()
            self.records.append(Record(topic, f"id-{topic}", 0, offset, time, key.encode(), data, tick, order))
        from lakehouse.run.scenario.replay import write_bronze

        lake = open_lake(self.spark, self.layout)
        write_bronze(lake, load_app("app.py"), [record for record in self.records if record.tick == tick])

    def catch_up(self, file: str = "app.py") -> None:
        from lakehouse.spark.silver.query import Silver

        with Silver(open_lake(self.spark, self.layout), load_app(file), lambda tick, count: None) as silver:
            silver.catch_up()

    def rows(self, table: str) -> dict[Any, Any]:
        from lakehouse.run.scenario.replay import rows_of

        result = reader.open_dataset(self.layout.silver(table)).to_table().to_pylist(maps_as_pydicts="strict")
        return rows_of(load_app("app.py").table(table), result)

    def expected(self, file: str = "app.py") -> dict[str, dict[Any, Any]]:
        """The tables as the model makes them."""
        return dict(model.run(load_app(file), self.records, decode_record).tables)


@pytest.fixture
def shop(spark: SparkSession, folder: Path) -> Shop:
    """Three ticks of customers and orders; customer b moves, and has level 0 at first."""
    shop = Shop(spark, folder)
    shop.declare("app.py")
    a, b = {"city": "Paris", "level": 1}, {"city": "Rome", "level": 0}
    shop.send(1, ("customers", "a", a), ("customers", "b", b), ("orders", "1", {"customer": "a", "amount": 5}))
    shop.send(2, ("orders", "2", {"customer": "b", "amount": 7}), ("customers", "b", {"city": "Oslo", "level": 2}))
    shop.send(3, ("orders", "3", {"customer": "b", "amount": 1}), ("customers", "a", {"city": "Rome", "level": 0}))
    return shop


def problems(lakehouse: Command, table: str, file: str = "app.py") -> list[str]:
    result = json.loads(lakehouse("test", "audit", table, "--app", file, "--json").out)
    return [f"{item['found']}: {item['do']}" for item in result["problems"]]


@pytest.mark.slow
def test_new_logic_above_reaches_the_tables_below(
    shop: Shop, lakehouse: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.catch_up()
    old = shop.expected()
    assert {name: shop.rows(name) for name in old} == old
    shop.declare("new.py", steps='.filter("level > 0")')
    new = shop.expected("new.py")
    assert all(new[name] != old[name] for name in old)

    early = lakehouse("repair", "backfill", "new.py", "by_city", "--plan")
    assert early.code == 2
    assert "table 'customer' exists in the lake under another declaration" in early.err
    assert "Table 'by_city' reads it: its turn comes afterwards." in early.err
    outcome = lakehouse("repair", "backfill", "new.py", "customer", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["read_by"] == ["by_city", "city_total", "moves"]
    shop.catch_up("new.py")
    assert shop.rows("customer") == new["customer"]
    came = {("Paris",): {"arrivals": 2}}  # customer a is in Paris again
    assert shop.rows("moves") == old["moves"] | came, "the rows that differ are changes for who reads the table"
    assert shop.rows("by_city") == old["by_city"], "what was looked up stays"
    (problem,) = problems(lakehouse, "by_city", "new.py")
    assert "reads customer, which was given other logic at tick 4, and was not rebuilt since" in problem
    assert "`lakehouse repair backfill by_city`" in problem
    early = lakehouse("repair", "backfill", "new.py", "city_total")
    assert early.code != 0
    assert "table 'by_city' reads customer" in early.err, "the tables above come first"

    # Built in many batches; each reads the tables above as they are now.
    monkeypatch.setattr("lakehouse.spark.silver.query.RECORDS_PER_BATCH_MAX", 1)
    monkeypatch.setattr("lakehouse.spark.silver.query.TICKS_UNCOUNTED", 0)
    for table in ("by_city", "city_total", "moves"):
        outcome = lakehouse("repair", "backfill", "new.py", table)
        assert outcome.code == 0, outcome.err
        assert shop.rows(table) == new[table], table
        if table == "by_city":
            shop.catch_up("new.py")
            assert shop.rows("city_total") == new["city_total"], "and its backfill is recorded all the same"
    shop.send(8, ("customers", "b", {"city": "Bonn", "level": 3}), ("orders", "4", {"customer": "b", "amount": 2}))
    shop.catch_up("new.py")
    new = shop.expected("new.py")
    for table in new:
        assert shop.rows(table) == new[table], table
        assert problems(lakehouse, table, "new.py") == [], table


@pytest.mark.slow
def test_an_intervention_above_reaches_the_tables_below(shop: Shop, lakehouse: Command) -> None:
    shop.declare("app.py", "moves, by_city, seen")
    late = ("orders", "4", {"customer": "b", "amount": 1})
    shop.send(4, ("customers", "c", "no JSON"), ("orders", "5", {"customer": "b", "amount": 2}), minutes=60)
    shop.send(5, late, minutes=5)  # its window has closed
    shop.catch_up()
    was = shop.expected()
    assert {name: shop.rows(name) for name in was} == was

    def decide(*line: str) -> None:
        outcome = lakehouse(*line)
        assert outcome.code == 0, outcome.err
        behind = lakehouse("test", "check", "app.py")
        assert behind.code == 1
        assert "somebody intervened in it, or in one of the tables that it reads" in behind.out
        shop.catch_up()
        assert lakehouse("test", "check", "app.py").code == 0

    def check(tick: int, *tables: str) -> None:
        """Versions and bronze agree before and after the intervention, and each row is explained."""
        for table in tables:
            assert problems(lakehouse, table) == [], table
            for moment in (tick - 1, tick):
                outcome = lakehouse("past", "rebuild", "app.py", table, "--prove", "--tick", str(moment), "--json")
                assert json.loads(outcome.out)["equal"], f"{table} at {moment}: {outcome.out}"
            for key in shop.rows(table):
                row = json.loads(lakehouse("past", "explain", table, "--key", key[0], "--app", "app.py", "--json").out)
                assert row["agrees"], f"{table} {key}: {row}"

    decide("repair", "correct", "app.py", "hourly", "--key", "b")
    assert shop.rows("seen") == was["seen"] | {("b",): {"changes": 4, "most": 3}}
    check(6, "seen")

    shown = lakehouse("look", "quarantine", "customers", "--json")
    assert json.loads(shown.out)["key"] == "c"
    value = '{"city": "Kiel", "level": 1}'
    decide("repair", "replay", "customers", "--value", value, "--app", "app.py")
    shop.records = [replace(r, value=value.encode()) if r.value == b"no JSON" else r for r in shop.records]
    assert shop.rows("moves") == shop.expected()["moves"]
    check(7, "moves", "by_city")

    decide("repair", "revert", "app.py", "customer", "--tick", "1")
    first = {("a",): {"city": "Paris", "level": 1}, ("b",): {"city": "Rome", "level": 0}}
    assert shop.rows("customer") == first
    # a is in Paris again, b in Rome; c was not there at tick 1.
    again = shop.expected()["moves"]
    for city in ("Paris", "Rome"):
        again[city,] = {"arrivals": again[city,]["arrivals"] + 1}
    assert shop.rows("moves") == again
    check(8, "moves", "by_city")
    actual = lakehouse("past", "diff", "moves", "tick:7", "now", "--json").out.splitlines()[-1]
    assert json.loads(actual) == {"added": 0, "removed": 0, "changed": 2}
    planned = lakehouse("repair", "backfill", "app.py", "moves", "--offsets", "customers/0=0..1", "--plan", "--json")
    assert json.loads(planned.out)["changed"] == 0, "a rebuild has the changes of the decisions above, too"
    wanted = ("orders", "6", {"customer": "b", "amount": 9})
    shop.send(9, wanted, minutes=61)
    shop.catch_up()
    assert shop.rows("by_city")["Rome",]["total"] == was["by_city"]["Rome",]["total"] + 9


@pytest.mark.slow
def test_a_table_below_is_audited_and_drilled(shop: Shop, lakehouse: Command) -> None:
    shop.catch_up()
    for table in ("by_city", "city_total"):
        assert problems(lakehouse, table) == []
        drilled = json.loads(
            lakehouse("test", "drill", table, "--app", "app.py", "--damage", "lost file", "--json").out
        )
        ways = {way["way"]: way["equal"] for case in drilled["cases"] for way in case["restored"]}
        assert ways == {"version": True, "changelog": None, "bronze": True}, drilled
    said = lakehouse("test", "audit", "by_city", "--app", "app.py").out
    assert said.splitlines()[-1] == "ok: rows as a refold gives."
    refused = lakehouse("test", "capture", "app.py", "by_city", "--key", "Paris")
    assert refused.code != 0
    assert "`lakehouse past explain`" in refused.err


@pytest.mark.slow
def test_new_logic_of_a_table_below_is_tried_and_backfilled(shop: Shop, lakehouse: Command) -> None:
    shop.catch_up()
    expected = shop.expected()
    shop.declare("own.py", more=', most=lh.max("amount")')
    shop.declare("above.py", steps='.filter("level > 0")')
    for file in ("own.py", "above.py"):
        tried = json.loads(lakehouse("test", "backtest", "by_city", "--app", "app.py", "--with", file, "--json").out)
        assert not tried["equal"]
        assert {side["app"]: side["rows"] for side in tried["contents"]} == {
            "app.py": len(expected["by_city"]), file: len(shop.expected(file)["by_city"]),
        }  # fmt: skip
    assert shop.rows("by_city") == expected["by_city"], "the live table is not touched"

    outcome = lakehouse("repair", "backfill", "own.py", "by_city", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["read_by"] == ["city_total"]
    shop.catch_up("own.py")
    actual = reader.open_dataset(shop.layout.silver("by_city")).to_table(columns=["city", "most"]).to_pylist()
    assert {(row["city"],): row["most"] for row in actual} == {
        key: row["most"] for key, row in shop.expected("own.py")["by_city"].items()
    }
    assert problems(lakehouse, "by_city", "own.py") == []
