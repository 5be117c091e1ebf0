"""Applications of the scenario files in which tables read tables, and streams join them."""

from __future__ import annotations

import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string, amount bigint")
customers = lh.stream("customers", key="name string", schema="city string").latest("customer")

# Stream-table joins (rule 20).
inner = lh.app(orders.join(customers, on="customer").to_topic("enriched"))
left = lh.app(orders.join(customers, on="customer", how="left").to_topic("enriched"))
# Kafka Streams' own table of inputs and results; the same with the table sent to every task (rule 23).
left_records = lh.stream("left", key="id string", schema="l string")
right_table = lh.stream("right", key="id string", schema="r string").latest("right_table")
of_kafka_streams = lh.app(
    left_records.join(right_table).to_topic("inner"),
    left_records.join(right_table, how="left").to_topic("left-outer"),
    left_records.join(right_table, broadcast=True).to_topic("inner-global"),
    left_records.join(right_table, how="left", broadcast=True).to_topic("left-outer-global"),
)
by_city = lh.app(
    orders.join(customers, on="customer", how="left")
    .group_by("city")
    .agg(orders=lh.count(), total=lh.sum("amount"))
    .table("by_city")
    .changes()
    .to_topic("by-city")
)

# A stream joined with a table of its own topic, and a table over a table.
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")
shares = lh.app(
    orders.join(totals, on="customer", prefix="so_far_").select("amount", "so_far_total").to_topic("shares")
)
moves = lh.app(
    customers.to_stream().group_by("city").agg(arrivals=lh.count()).table("arrivals").changes().to_topic("arrivals")
)
rich = orders.group_by("customer").agg(total=lh.sum("amount")).having("total > 10").table("rich")
rich_copy = lh.app(rich.to_stream().latest("copy").changes().to_topic("copy"))
# The zero of a user's aggregate can be a value that has no hash.
all_amounts = lh.aggregate("amount", zero=[], add=lambda so_far, n: [*so_far, n], accumulator="array<bigint>")
listed = orders.group_by("customer").agg(amounts=all_amounts).table("listed")
listed_copy = lh.app(listed.to_stream().latest("copy"))
