"""Applications with joins of streams, and as of event times, and records for them, on the model and on Spark."""

from __future__ import annotations

import json
import random

import lakehouse as lh
from lakehouse.plan.app import App
from lakehouse.semantics.record import Record

T = 1_700_000_000_000
SECOND = 1_000

# Records have times of their own, so that they come late; those of payments are the records' timestamps.
ORDERS = lh.stream(
    "orders", key="id string", schema="customer string, amount bigint, at bigint", event_time="at", format="json"
)
PAYMENTS = lh.stream("payments", key="id string", schema="paid bigint, customer string", format="json")
CUSTOMERS = lh.stream(
    "customers", key="name string", schema="city string, at bigint", event_time="at", format="json"
).latest("customer")

SPAN = "20 seconds"
INNER = ORDERS.join(PAYMENTS, before="5 seconds", after=SPAN, grace="10 seconds", prefix="p_")
AT_ONCE = ORDERS.join(PAYMENTS, within="10 seconds", how="outer", prefix="p_")
CLOSING = ORDERS.join(PAYMENTS, within=SPAN, how="outer", grace="5 seconds", prefix="p_")
RIGHT = ORDERS.join(PAYMENTS, within="5 seconds", how="right", grace="0 seconds", prefix="p_")
SELF = PAYMENTS.join(PAYMENTS, within="10 seconds", grace="0 seconds", how="left", prefix="other_")
BY_CUSTOMER = ORDERS.join(PAYMENTS.rekey("customer"), on="customer", within=SPAN, how="left", prefix="p_", grace=SPAN)
# A join over a join, with a table in between; what it reads came through steps.
TWICE = (
    ORDERS.filter("amount > 0")
    .join(CUSTOMERS, on="customer", how="left", prefix="of_")
    .join(PAYMENTS, within=SPAN, grace="5 seconds", prefix="p_")
    .join(
        PAYMENTS.with_columns(more="paid * 2").drop("customer"), within=SPAN, how="left", grace="5 seconds", prefix="q_"
    )
)
AS_OF = ORDERS.join(CUSTOMERS, on="customer", how="left", as_of="event time", prefix="of_")
EVERYWHERE = ORDERS.join(CUSTOMERS, on="customer", how="left", broadcast=True, prefix="of_")

PAIRS = CLOSING.group_by("id").agg(rows=lh.count(), paid=lh.sum("p_paid"), last=lh.latest("amount")).table("pairs")
WINDOWS = (
    INNER.group_by("customer").window(lh.tumbling("10 seconds", grace="5 seconds")).agg(n=lh.count()).table("windows")
)
LISTS = BY_CUSTOMER.group_by("customer").agg(all=lh.collect_list("p_paid")).table("lists")
LAST = AT_ONCE.latest("last")
CITIES = AS_OF.group_by("of_city").agg(n=lh.count(), total=lh.sum("amount")).table("cities")

APP: App = lh.app(
    PAIRS, WINDOWS, LISTS, LAST, CITIES, TWICE.latest("twice"), EVERYWHERE.latest("everywhere"),
    AT_ONCE.to_topic("at-once"), CLOSING.to_topic("closing"), RIGHT.to_topic("right"), SELF.to_topic("self"),
    AS_OF.to_topic("as-of"), EVERYWHERE.to_topic("everywhere-orders"), TWICE.to_topic("twice-joined"),
)  # fmt: skip


def records(seed: int, count: int, ticks: int) -> list[Record]:
    """Return records of the three topics, over two partitions, in ticks from 1 on: late ones, null ones, bad ones."""
    dice = random.Random(seed)
    offsets: dict[tuple[str, int], int] = {}
    orders: dict[tuple[str, int], int] = {}
    made = []
    for number in range(count):
        topic = dice.choice(["orders", "orders", "payments", "payments", "customers"])
        place = topic, dice.randrange(2)
        now = T + number * 2 * SECOND
        late = dice.choice([0, 0, 0, 1, 5, 15, 40]) * SECOND
        stamp = now - (late if topic == "payments" else 0)
        key: str | None = dice.choice("abc") if topic == "customers" else dice.choice("1234")
        customer = dice.choice(["a", "a", "b", "c", None])
        value: dict[str, object] = {
            "orders": {"customer": customer, "amount": dice.randrange(9), "at": now - late},
            "payments": {"paid": dice.randrange(9), "customer": customer},
            "customers": {"city": dice.choice("xyz"), "at": now - late},
        }[topic]
        data = dice.choice([json.dumps(value).encode()] * 9 + [None, b"bad"])
        key = dice.choice([key] * 12 + [None])
        offsets[place] = offsets.get(place, -1) + 1
        orders[place] = max(stamp, orders.get(place, stamp))
        made.append(
            Record(
                topic, f"replay-{topic}", place[1], offsets[place], stamp, None if key is None else key.encode(), data,
                number * ticks // count + 1, orders[place],
            )
        )  # fmt: skip
    return made
