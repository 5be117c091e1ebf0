"""Applications whose tables read tables, and records for them, for tests on the model and on Spark."""

from __future__ import annotations

import random

import lakehouse as lh
from lakehouse.plan.app import App
from lakehouse.semantics.record import Record

T = 1_700_000_000_000

ORDERS = lh.stream(
    "orders", key="id string", schema="customer string, amount bigint, tags array<string>", format="json"
)
CUSTOMERS = lh.stream("customers", key="name string", schema="city string, level bigint", format="json")

CUSTOMER = CUSTOMERS.latest("customer")
TOTALS = ORDERS.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
BIG = ORDERS.group_by("customer").agg(n=lh.count()).having("n > 1").table("big")

# A table over a table: how often a customer's total changed, and its largest value.
STEPS = TOTALS.to_stream().group_by("customer").agg(n=lh.count(), most=lh.max("total")).table("steps")
LATEST = TOTALS.to_stream().latest("latest_total")
BY_COUNT = BIG.to_stream().rekey("n AS seen").latest("by_count")
# A table over a table over a table.
DEEP = STEPS.to_stream().group_by("n").agg(customers=lh.collect_set("customer")).table("deep")
# A stream with a table; the same topic is both sides of the second one.
ENRICHED = ORDERS.join(CUSTOMER, on="customer", how="left")
CITIES = ENRICHED.group_by("city").agg(orders=lh.count(), total=lh.sum("amount")).table("cities")
KNOWN = ORDERS.join(CUSTOMER, on="customer").filter("level > 0").latest("known")
SHARES = ORDERS.join(TOTALS, on="customer", prefix="so_far_").select("amount", "so_far_total", "so_far_orders")
SHARE = SHARES.latest("share")
TAGGED = ORDERS.explode("tags", "tag").join(CUSTOMER, on="tag", how="left").group_by("tag")
TAGS = TAGGED.agg(n=lh.count(), last_city=lh.latest("city")).table("tags")
HOURLY = ENRICHED.group_by("city").window(lh.tumbling("1 hour", grace="1 hour")).agg(n=lh.count()).table("hourly")

APP: App = lh.app(
    STEPS, LATEST, BY_COUNT, DEEP, CITIES, KNOWN, SHARE, TAGS, HOURLY, ENRICHED.to_topic("enriched-orders")
)

# Alerts: of an aggregate, of rows that come and go, of groups that qualify, and a table over alerts.
BIG_SPENDER = TOTALS.alert("big_spender", "total > 20")
MOVED = CUSTOMER.alert("moved", "city = 'x'", on="both")
QUALIFIED = BIG.alert("qualified")
ALERTED = MOVED.merge(CUSTOMER.alert("gone", on="leave")).group_by("alert AS name").agg(n=lh.count()).table("alerted")
ALERTS: App = lh.app(
    ALERTED, BIG_SPENDER.to_topic("big-spenders"), MOVED.to_topic("moved"), QUALIFIED.to_topic("qualified")
)


def records(seed: int, count: int, ticks: int) -> list[Record]:
    """Return records of both topics, over two partitions, in ticks from 1 on."""
    dice = random.Random(seed)
    offsets: dict[tuple[str, int], int] = {}
    made = []
    for number in range(count):
        tick = number * ticks // count + 1
        topic = dice.choice(["orders", "orders", "customers"])
        partition = dice.randrange(2)
        name = dice.choice("abc")
        if topic == "customers":
            key, value = f'"{name}"', f'{{"city": "{dice.choice("xyz")}", "level": {dice.randrange(3)}}}'
        else:
            key = f'"{dice.randrange(6)}"'
            tags = ", ".join(f'"{dice.choice("ab")}"' for _ in range(dice.randrange(3)))
            customer = dice.choice([f'"{name}"', f'"{name}"', f'"{name}"', "null"])
            value = f'{{"customer": {customer}, "amount": {dice.randrange(10)}, "tags": [{tags}]}}'
        data = dice.choice([value.encode()] * 8 + [None, b"bad"])
        offset = offsets.get((topic, partition), -1) + 1
        offsets[topic, partition] = offset
        # The order time is a running maximum: timestamps that rise make it the timestamp.
        time = T + number * 60_000 + dice.randrange(2)
        made.append(
            Record(topic, f"replay-{topic}", partition, offset, time, key.strip('"').encode(), data, tick, time)
        )
    return made
