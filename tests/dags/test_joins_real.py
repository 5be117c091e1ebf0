"""An application of joins in a real Airflow: its DAGs over a chain of a join, a join by a foreign key, and a sum.

    orders (stream) with customers, by arrival -> placed
    placed with cities, by a foreign key, left -> routed
    sums of the rows of routed                 -> by_country, and its changelog in a topic

The tests share one lake, and each goes on where the one before ended.
Where each part comes from: tests/dags/test_applications_real.py.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.process import find_free_port

from .living import KEPT_SPARK, SETTINGS, Living

pytestmark = pytest.mark.airflow

APP = """
import lakehouse as lh

orders = lh.stream("{run}-orders", name="orders", key="id string", schema="customer string, amount bigint")
customers = lh.stream("{run}-customers", name="customers", key="name string", schema="city string").latest("customer")
cities = lh.stream("{run}-cities", name="cities", key="name string", schema="country string").latest("city")

placed = orders.join(customers, on="customer", how="left").latest("placed")
routed = placed.join(cities, on="city", how="left"){new_logic}.table("routed")
sums = routed.group_by("coalesce(country, '?') AS country").agg(n=lh.count(), total=lh.sum("amount"))
by_country = sums.table("by_country")
app = lh.app(by_country, by_country.changes().to_topic("{run}-by-country"))
"""
LARGE = 20
FIRST = [("?", 1, 50), ("Italy", 2, 80), ("Norway", 1, 30)]  # the sums at the first tick
COLUMNS = {"orders": ("customer", "amount"), "customers": ("city",), "cities": ("country",)}


class Trade(Living):
    """The application, and every record that was sent, in the order of their times."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(folder, "trade")
        self.run, self.servers = f"trade-{uuid.uuid4().hex[:8]}", servers
        self.sent: list[tuple[str, str, tuple[str | int, ...] | None]] = []
        self.declare()
        (folder / "lakehouse.toml").write_text(SETTINGS.format(servers=servers, port=find_free_port()) + KEPT_SPARK)
        for topic in COLUMNS:
            Cluster(servers).create(f"{self.run}-{topic}", partitions=2)

    def declare(self, new_logic: str = "") -> None:
        (self.folder / "app.py").write_text(APP.format(run=self.run, new_logic=new_logic))

    def send(self, *records: tuple[str, str, tuple[str | int, ...] | None]) -> None:
        """Produce (topic, key, values): each is a second later than the one before it, so it arrives after it."""
        for topic, key, values in records:
            self.sent.append((topic, key, values))
            value = None if values is None else json.dumps(dict(zip(COLUMNS[topic], values, strict=True))).encode()
            record = ProducerRecord(key.encode(), value, len(self.sent) * 1000)
            produce(self.servers, {}, f"{self.run}-{topic}", [record])

    def routed(self, at_least: int = 0) -> list[tuple[str, str, int, str | None, str | None]]:
        """The expected rows: an order with the city that its customer had then, and the country that has this now."""
        customers: dict[str, str] = {}
        cities: dict[str, str] = {}
        placed: dict[str, tuple[str, int, str | None]] = {}
        for topic, key, values in self.sent:
            if topic == "orders":
                placed[key] = (*values, customers.get(values[0]))
                continue
            table = customers if topic == "customers" else cities
            table.pop(key, None)
            if values is not None:
                table[key] = values[0]
        rows = [(id, *row, cities.get(row[2])) for id, row in placed.items() if row[1] >= at_least]
        return sorted(rows)

    def sums(self, at_least: int = 0) -> list[tuple[str, int, int]]:
        """The expected sums of them, without the countries that have no order now."""
        sums: dict[str, tuple[int, int]] = {}
        for _, _, amount, _, country in self.routed(at_least):
            n, total = sums.get(country or "?", (0, 0))
            sums[country or "?"] = (n + 1, total + amount)
        return sorted((country, *of) for country, of in sums.items())

    def check(self, at_least: int = 0) -> None:
        assert self.rows("routed") == self.routed(at_least)
        assert [row for row in self.rows("by_country") if row[1]] == self.sums(at_least)

    def catch_up(self) -> None:
        states = set(self.end("catch_up", self.trigger("catch_up")).values())
        assert states <= {"success", "skipped"}  # a table that nothing reached has no event


@pytest.fixture(scope="module")
def trade(broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trade]:
    with Trade(tmp_path_factory.mktemp("trade"), broker.bootstrap_servers).running("app.py") as running:
        yield running


def test_a_chain_of_joins_is_caught_up(trade: Trade) -> None:
    """A customer moves, an order changes, a city gets another country, and one has none any more."""
    trade.send(
        ("cities", "Rome", ("Italy",)), ("customers", "ann", ("Rome",)), ("customers", "bob", ("Oslo",)),
        ("orders", "o1", ("ann", 10)), ("orders", "o2", ("bob", 30)), ("orders", "o3", ("cleo", 50)),
        ("cities", "Oslo", ("Norway",)), ("orders", "o4", ("ann", 70)),
    )  # fmt: skip
    trade.lakehouse("run", "--app", "app.py", "--until", "caught-up")
    assert trade.sums() == FIRST
    trade.check()
    trade.send(
        ("customers", "ann", ("Oslo",)), ("orders", "o1", ("ann", 15)), ("cities", "Rome", None),
        ("cities", "Oslo", ("Noreg",)), ("orders", "o5", ("bob", 5)),
    )  # fmt: skip
    trade.catch_up()
    assert trade.sums() == [("?", 2, 120), ("Noreg", 3, 50)]
    trade.check()


def test_a_moment_of_the_sums_is_rebuilt_in_three_ways(trade: Trade) -> None:
    asked = {"table": "by_country", "clock": "tick", "moment": "1", "target": "by_country_then"}
    run = trade.trigger("reconstruct_point_in_time", **asked)
    trade.end("reconstruct_point_in_time", run)
    proof = trade.xcom("reconstruct_point_in_time", run, "compare")
    assert (proof["rows"], proof["ways"]) == (3, 3)
    assert trade.rows("by_country_then") == FIRST


def test_new_logic_in_the_middle_of_the_chain_reaches_the_sums(trade: Trade) -> None:
    trade.declare(f'.filter("amount >= {LARGE}")')
    trade.lakehouse("airflow", "add", "app.py", "--name", "trade")
    reason = "small orders are not routed"
    run = trade.trigger("backfill_range", table="routed", dry_run=False, reason=reason)
    gone = set(trade.routed()) - set(trade.routed(LARGE))
    assert f"removed: **{len(gone)}**" in trade.approve("backfill_range", run)
    states = trade.end("backfill_range", run)
    assert [states[task] for task in ("backfill/0", "reconcile", "discard")] == ["success"] * 3
    assert trade.rows("routed") == trade.routed(LARGE)
    assert trade.events("routed")[-1]["reason"] == reason
    trade.send(("cities", "Oslo", ("Norway",)), ("orders", "o6", ("bob", 19)), ("orders", "o1", ("ann", 90)))
    trade.catch_up()
    assert trade.sums(LARGE) == [("?", 2, 120), ("Norway", 2, 120)]
    trade.check(LARGE)


def test_a_drill_restores_the_join_by_a_foreign_key(trade: Trade) -> None:
    run = trade.trigger("recovery_drill", table="routed", damage="wrong merge")
    trade.end("recovery_drill", run)
    (drilled,) = [json.loads(item) for item in trade.lakehouse("test", "drill", "--history", "--json").splitlines()]
    assert (drilled["table"], drilled["rows"], drilled["ok"]) == ("routed", len(trade.routed(LARGE)), True)
    (case,) = drilled["cases"]
    assert {item["way"] for item in case["restored"] if item["equal"]} == {"version", "bronze"}
