"""shop: what each customer ordered, kept as tables.

    lakehouse kafka up                                          # a Kafka of your own; `lakehouse kafka down` ends it
    lakehouse kafka produce orders orders.jsonl --partitions 2  # sample records into the topic
    lakehouse run --until caught-up                             # Kafka -> bronze -> the tables below
    lakehouse query "SELECT * FROM totals"
"""

import lakehouse as lh

# A topic seen through a schema: the key, and the value as JSON. Records that do not fit go to the quarantine.
orders = lh.stream("orders", key="order_id string", schema="customer string, item string, amount decimal(10, 2)")

# Each order as it is now. A record with a null value, a tombstone, deletes its order.
current = orders.latest("current_orders")

# An aggregate per customer, over all that was ever ordered, and its changelog as a Kafka topic.
totals = orders.group_by("customer").agg(orders=lh.count(), total=lh.sum("amount")).table("totals")

app = lh.app(current, totals, totals.changes().to_topic("totals-changelog"))
