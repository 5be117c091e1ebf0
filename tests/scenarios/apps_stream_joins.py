"""Applications of the scenario files in which streams join streams, or a table as it was at a record's event time."""

from __future__ import annotations

import lakehouse as lh

left = lh.stream("left", key="id string", schema="v string")
right = lh.stream("right", key="id string", schema="v string")


def joined(how: str, **spans: str) -> lh.App:
    made = left.join(right, how=how, prefix="right_", **spans)  # type: ignore[arg-type]
    return lh.app(made.to_topic("joined"))


# The documentation's own table, with a window that its cells agree with.
kafkas_inner = joined("inner", within="12 seconds", grace="5 seconds")
kafkas_left = joined("left", within="12 seconds", grace="5 seconds")
kafkas_outer = joined("outer", within="12 seconds", grace="5 seconds")

# Rule 21, part by part; with times of their own, records can come late.
timed_left = lh.stream("left", key="id string", schema="v string, at bigint", event_time="at", name="timed_left")
timed_right = lh.stream("right", key="id string", schema="v string, at bigint", event_time="at", name="timed_right")


def timed(how: str, **spans: str) -> lh.App:
    made = timed_left.join(timed_right, how=how, prefix="right_", **spans)  # type: ignore[arg-type]
    return lh.app(made.select("v", "right_v").to_topic("joined"))


bounds = timed("inner", before="2 milliseconds", after="5 milliseconds", grace="1 second")
at_once = timed("outer", within="10 milliseconds")
right_at_once = joined("right", within="10 milliseconds")
closing = timed("outer", within="10 milliseconds", grace="5 milliseconds")
nulls = joined("left", within="10 milliseconds", grace="0 milliseconds")
partitions = joined("left", within="10 milliseconds", grace="0 milliseconds")

# A stream joined with itself, and what is made from a joined stream.
itself = lh.app(left.join(left, within="10 milliseconds", prefix="other_").to_topic("joined"))
counted = lh.app(
    left.join(right, within="10 milliseconds", grace="5 milliseconds", how="left", prefix="right_")
    .group_by("id")
    .agg(pairs=lh.count("right_v"), rows=lh.count())
    .table("pairs")
    .changes()
    .to_topic("pairs-changelog")
)

orders = lh.stream("orders", key="id string", schema="customer string, amount bigint")
payments = lh.stream("payments", key="payment string", schema="order_id string, paid bigint")
shipments = lh.stream("shipments", key="order_id string", schema="carrier string")
customers = lh.stream("customers", key="name string", schema="city string").latest("customer")

# Several in one plan: two streams re-keyed to meet, a third stream, and a table.
paid = orders.join(payments.rekey("order_id"), within="1 hour", how="left", grace="0 minutes")
sent = paid.join(shipments, within="2 hours", grace="0 minutes")
several = lh.app(sent.join(customers, on="customer", how="left").to_topic("joined"))
by_customer = orders.join(lh.stream("visits", key="name string", schema="page string"), on="customer", within="1 hour")
rekeyed = lh.app(by_customer.to_topic("joined"))

# The table as it was at the record's event time.
timed_orders = lh.stream(
    "orders", key="id string", schema="customer string, amount bigint, at bigint", event_time="at", name="timed_orders"
)
cities = lh.stream(
    "customers", key="name string", schema="city string, at bigint", event_time="at", name="timed_customers"
).latest("city_of")
as_of = lh.app(
    timed_orders.join(cities, on="customer", how="left", as_of="event time", prefix="of_").to_topic("enriched")
)
as_of_inner = lh.app(timed_orders.join(cities, on="customer", as_of="event time", prefix="of_").to_topic("enriched"))
indicated = lh.app(
    orders.join(customers, on="customer", how="left", indicator="found").to_topic("joined"),
    orders.join(customers, on="upper(customer)", how="left", broadcast=True, indicator="found").to_topic("enriched"),
)
broadcast = lh.app(orders.join(customers, on="upper(customer)", how="left", broadcast=True).to_topic("enriched"))

refused_without_window = lambda: lh.app(left.join(right, prefix="right_").to_topic("joined"))  # noqa: E731
