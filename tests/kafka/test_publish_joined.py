"""The changelog of a table that reads a table, in a topic; lakes that read it, or begin from the table above it."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.run.lake import Lake

T = 1_700_000_000_000
CUSTOMERS = lh.stream("joined-customers", key="name string", schema="city string")
ORDERS = lh.stream("joined-orders", key="id string", schema="customer string, amount bigint")
CUSTOMER = CUSTOMERS.latest("customer")
BY_CITY = (
    ORDERS.join(CUSTOMER, on="customer", how="left").group_by("city")
    .agg(orders=lh.count(), total=lh.sum("amount")).table("by_city")
)  # fmt: skip
APP = lh.app(BY_CITY.changes().to_topic("joined-by-city"), CUSTOMER.changes().to_topic("joined-customer"))


def order(n: int, customer: str, amount: int) -> tuple[str, str, int]:
    return f"o{n}", json.dumps({"customer": customer, "amount": amount}), T + n


def customer(n: int, name: str, city: str) -> tuple[str, str, int]:
    return name, json.dumps({"city": city}), T + n


def rows(lake: Lake, table: lh.Table) -> dict[str, Any]:
    return {row[table.key[0]]: tuple(row)[1:3] for row in lake.read(table).collect()}


@pytest.mark.slow
def test_a_joined_table_is_published_and_its_base_restored(lake: Any, cluster: Any, send: Any, records: Any) -> None:
    for topic in ("joined-customers", "joined-orders"):
        cluster.create(topic, partitions=1)
    first = lake("first")
    send("joined-customers", [customer(1, "a", "Paris"), customer(2, "b", "Rome")])
    send("joined-orders", [order(3, "a", 5), order(4, "b", 7)])
    first.run(APP, until="caught_up")
    send("joined-customers", [customer(5, "a", "Oslo")])
    send("joined-orders", [order(6, "a", 1), order(7, "b", 2)])
    first.run(APP, until="caught_up")
    assert {city: of[0] for city, of in rows(first, BY_CITY).items()} == {"Paris": 1, "Rome": 2, "Oslo": 1}
    told = [(m.key().decode(), json.loads(m.value())) for m in records("joined-by-city")]
    assert told == [
        ("Paris", {"orders": 1, "total": 5}), ("Rome", {"orders": 1, "total": 7}), ("Oslo", {"orders": 1, "total": 1}),
        ("Rome", {"orders": 2, "total": 9}),
    ]  # fmt: skip

    # A table over the topic is the table that published it.
    copy = lh.stream("joined-by-city", key="city string", schema="orders bigint, total bigint").latest("copy")
    reader = lake("reader")
    reader.run(lh.app(copy), until="caught_up")
    assert rows(reader, copy) == rows(first, BY_CITY)

    second = lake("second")
    with pytest.raises(PlanError, match=r"is made from customer: .* Restore customer first"):
        second.restore(BY_CITY, "joined-by-city")
    assert second.restore(CUSTOMER, "joined-customer") == 2
    second.run(lh.app(BY_CITY), until="caught_up")
    assert rows(second, CUSTOMER) == rows(first, CUSTOMER)
    # Each order in the topic finds the restored rows: customer a is in Oslo from the first order on.
    assert rows(second, BY_CITY) == {"Oslo": (2, 6), "Rome": (2, 9)}
