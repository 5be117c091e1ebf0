"""Applications whose tables read tables, restored from their changelogs, table by table: they go on as if nothing was.

Compared with the model, which sees all records at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError, StorageError
from lakehouse.run.lake import Lake
from lakehouse.semantics.record import Record

from ..seeds import draw
from .sending import check_published, check_tables, send_records

pytestmark = pytest.mark.slow

T = 1_700_000_000_000
PARTITIONS = 4
ORDERS = lh.stream("graph-orders", key="id string", schema="customer string, amount bigint")
CUSTOMERS = lh.stream("graph-customers", key="name string", schema="city string, level bigint")

CURRENT = ORDERS.latest("current_orders")
CUSTOMER = CUSTOMERS.latest("customer")
# Of rows: by a foreign key, and sums that undo, of every kind.
PLACED = CURRENT.join(CUSTOMER, on="customer", how="left").table("placed")
CITIES = (
    PLACED.group_by("city")
    .agg(
        n=lh.count(), total=lh.sum("amount"), mean=lh.avg("amount / 3"), low=lh.min("amount"),
        listed=lh.collect_list("amount"), names=lh.histogram("customer"), last=lh.latest("amount"),
    )
    .table("cities")
)  # fmt: skip
# Of changes, of rows of the same keys, and of records that look rows up.
SPENT = ORDERS.group_by("customer").agg(n=lh.count(), total=lh.sum("amount"), last=lh.latest("amount")).table("spent")
KNOWN = SPENT.join(CUSTOMER, how="outer").table("known")
STEPS = SPENT.to_stream().group_by("customer").agg(n=lh.count(), most=lh.max("total")).table("steps")
HOURS = (
    ORDERS.join(CUSTOMER, on="customer", how="left").group_by("city").window(lh.tumbling("1 minute", grace="1 hour"))
    .agg(n=lh.count(), all=lh.collect_list("amount")).table("hours")
)  # fmt: skip


def topic_of(table: lh.Table) -> str:
    return f"graph-{table.name.replace('_', '-')}"


def published(*tables: lh.Table) -> lh.App:
    """An application that publishes the changelog of each table. tables: each after those that it reads."""
    return lh.app(*[table.changes().to_topic(topic_of(table)) for table in tables])


class Sent:
    """The records of both topics, in all partitions: sent to Kafka, and kept for the model."""

    def __init__(self, cluster: Any, send: Callable[..., int]) -> None:
        self._send, self._dice, self.records = send, Random(draw()), list[Record]()
        for topic in cluster.names():
            if "graph-" in topic:
                cluster.delete(topic)
        for topic in ("graph-orders", "graph-customers"):
            cluster.create(topic, PARTITIONS)

    def more(self, count: int, *, with_equal_amounts: bool = True) -> None:
        """Send records that are all later than those before: then no batch changes their order."""
        dice, first = self._dice, len(self.records)
        for _ in range(count):
            topic = dice.choice(("graph-orders", "graph-orders", "graph-customers"))
            amount = dice.randrange(9) if with_equal_amounts else len(self.records)
            value: Any = {"customer": dice.choice("abcd"), "amount": amount}
            if topic == "graph-customers":
                value = {"city": dice.choice("xyz"), "level": dice.randrange(3)}
            data = dice.choice((json.dumps(value),) * 4 + (None,))
            key = dice.choice("1234567" if topic == "graph-orders" else "abcd")
            time, place = T + len(self.records) * 5000, ord(key) % PARTITIONS
            offset = sum((item.topic, item.partition) == (topic, place) for item in self.records)
            held = None if data is None else data.encode()
            self.records.append(Record(topic, topic, place, offset, time, key.encode(), held, 1, time))
        send_records(self._send, ("graph-orders", "graph-customers"), self.records[first:])

    def check(self, lake: Lake, app: lh.App) -> None:
        check_tables(lake, app, self.records)


@pytest.fixture
def sent(cluster: Any, send: Callable[..., int]) -> Sent:
    return Sent(cluster, send)


def test_joins_and_sums_of_rows_restored_from_lake_to_lake_go_on(lake, sent, records) -> None:
    """Two generations. Tables of two moments are refused."""
    tables = (CURRENT, CUSTOMER, PLACED, CITIES)
    app, one = published(*tables), lake("a")
    sent.more(50)
    one.run(app, until="caught_up")
    mixed = lake("mixed")
    mixed.restore(CURRENT, topic_of(CURRENT))
    for name in ("b", "c"):
        one = lake(name)
        with pytest.raises(PlanError, match=r"'placed' is made from current_orders, customer: .* Restore current"):
            one.restore(PLACED, topic_of(PLACED))
        for table in tables:
            one.restore(table, topic_of(table))
        sent.more(25)
        one.run(app, until="caught_up")
        sent.check(one, app)
    assert one.audit(app, CITIES).problems == []
    assert all(row.agrees for row in one.explain(CITIES, "x"))
    for table in (PLACED, CITIES):
        check_published(app, table, sent.records, records(topic_of(table)))
    mixed.restore(CUSTOMER, topic_of(CUSTOMER))
    with pytest.raises(StorageError, match=r"'placed': its changelog ends after other records than that from which"):
        mixed.restore(PLACED, topic_of(PLACED))


def test_tables_of_changes_and_of_records_that_look_rows_up_go_on(lake, sent, records) -> None:
    tables = (SPENT, CUSTOMER, KNOWN, STEPS, HOURS)
    app = published(*tables)
    sent.more(50)
    lake("a").run(app, until="caught_up")
    one = lake("b")
    for table in tables:
        one.restore(table, topic_of(table))
    sent.more(25)
    one.run(app, until="caught_up")
    sent.check(one, app)
    for table in (KNOWN, STEPS):
        check_published(app, table, sent.records, records(topic_of(table)))


def test_sums_of_restored_rows_that_were_not_restored_are_published(lake, sent, records) -> None:
    """They are made of the rows that are there; a group that was emptied before is not.

    Of two equal amounts that a list once had, the place of the one that stayed depends on the rows that are gone.
    """
    sent.more(40, with_equal_amounts=False)
    lake("a").run(published(CURRENT), until="caught_up")
    one = lake("b")
    one.restore(CURRENT, topic_of(CURRENT))
    sums = CURRENT.group_by("customer").agg(n=lh.count(), all=lh.collect_list("amount")).having("n > 0").table("sums")
    app = lh.app(sums.changes().to_topic("graph-sums"))
    one.run(app, until="caught_up")
    sent.check(one, app)
    sent.more(20, with_equal_amounts=False)
    one.run(app, until="caught_up")
    sent.check(one, app)
    rows: dict[bytes, Any] = {message.key(): message.value() for message in records("graph-sums")}
    left = {key.decode(): json.loads(value)["n"] for key, value in rows.items() if value is not None}
    assert left == {row["customer"]: row["n"] for row in one.read(sums).collect()}
