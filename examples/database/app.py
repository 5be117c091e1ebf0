"""A shop's database, followed by its change log as Debezium writes it: its tables again, joined, at any moment.

lakehouse kafka up
lakehouse kafka produce shop.public.customers customers.jsonl --partitions 1
lakehouse kafka produce shop.public.orders orders.jsonl --partitions 1
lakehouse run --until caught-up
lakehouse query "SELECT * FROM order_list ORDER BY id"
"""

import lakehouse as lh

customers = lh.debezium("shop.public.customers", key="id int", schema="name string, city string").latest("customers")

# Without a schema around the records, somebody has to say what the bytes of a decimal are.
orders = lh.debezium(
    "shop.public.orders",
    key="id int",
    schema="customer_id int, amount decimal(10, 2), status string",
    decimals="precise",
    unsent="quarantine",  # a history needs whole rows: docs/databases.md
).latest("orders")

# Two tables joined: a change of either side changes the result, as a view in the database would.
order_list = orders.join(customers, on="customer_id", how="left", prefix="customer_").table("order_list")

# Each state that an order had, and when.
app = lh.app(customers, orders, order_list, orders.history())
