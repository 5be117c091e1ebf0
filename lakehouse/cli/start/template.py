"""The files that `lakehouse init` writes: a runnable application, its test, its settings and sample records."""

from __future__ import annotations

APP = '''\
"""{name}: what each customer ordered, kept as tables.

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
'''

TEST = '''\
"""Tests of app.py on the model: no Kafka, no Spark, milliseconds. `lakehouse test run .` runs scenario.json."""

from decimal import Decimal

from app import app
from lakehouse.testing import Replay


def two_orders():
    replay = Replay(app)
    replay.send("orders", key="1", value={"customer": "ann", "item": "tea", "amount": 2.50}, timestamp=1000)
    replay.send("orders", key="2", value={"customer": "ann", "item": "jam", "amount": 3.25}, timestamp=2000)
    return replay


def test_totals_are_kept_by_customer():
    result = two_orders().run()
    assert result.row("totals", "ann") == {"customer": "ann", "orders": 2, "total": Decimal("5.75")}


def test_a_tombstone_deletes_the_order_and_totals_keep_what_was_ordered():
    result = two_orders().send("orders", key="1", value=None, timestamp=3000).run()
    assert [row["order_id"] for row in result.rows("current_orders")] == ["2"]
    assert result.row("totals", "ann")["orders"] == 2
'''

SCENARIO = """\
{
  "name": "two customers, three orders, one of them deleted, one bad record",
  "app": "app:app",
  "inputs": [
    {"topic": "orders", "key": "1", "value": {"customer": "ann", "item": "tea", "amount": 2.50}, "timestamp": 1000},
    {"topic": "orders", "key": "2", "value": {"customer": "bob", "item": "pie", "amount": 4.00}, "timestamp": 2000},
    {"topic": "orders", "key": "3", "value": {"customer": "ann", "item": "jam", "amount": 3.25}, "timestamp": 3000},
    {"topic": "orders", "key": "4", "value": "no order", "timestamp": 4000},
    {"topic": "orders", "key": "2", "value": null, "timestamp": 5000}
  ],
  "tables": {
    "current_orders": [
      {"key": "1", "value": {"customer": "ann", "item": "tea", "amount": 2.50}},
      {"key": "3", "value": {"customer": "ann", "item": "jam", "amount": 3.25}}
    ],
    "totals": [
      {"key": "ann", "value": {"orders": 2, "total": 5.75}},
      {"key": "bob", "value": {"orders": 1, "total": 4.00}}
    ]
  },
  "outputs": [
    {"topic": "totals-changelog", "key": "ann", "value": {"orders": 1, "total": 2.50}},
    {"topic": "totals-changelog", "key": "bob", "value": {"orders": 1, "total": 4.00}},
    {"topic": "totals-changelog", "key": "ann", "value": {"orders": 2, "total": 5.75}}
  ],
  "quarantine": {"orders": [{"offset": 3, "reason contains": "value"}]}
}
"""

SETTINGS = """\
# Everything may be left out; see `lakehouse --help` and the comments.
[lake]
path = "./lake"
app = "app.py"    # the application of all commands that name none

# [kafka]
# bootstrap_servers = "one:9092"    # left out: an embedded Kafka, its data in .kafka
"""

RECORDS = """\
{"key": "1", "value": {"customer": "ann", "item": "tea", "amount": 2.50}, "timestamp": "2026-01-31T12:00:00Z"}
{"key": "2", "value": {"customer": "bob", "item": "pie", "amount": 4.00}, "timestamp": "2026-01-31T12:01:00Z"}
{"key": "3", "value": {"customer": "ann", "item": "jam", "amount": 3.25}, "timestamp": "2026-01-31T12:02:00Z"}
{"key": "4", "value": {"customer": "eve", "item": "cake", "amount": 9.00}, "timestamp": "2026-01-31T12:03:00Z"}
{"key": "5", "value": "no order: this one goes to the quarantine", "timestamp": "2026-01-31T12:04:00Z"}
{"key": "2", "value": null, "timestamp": "2026-01-31T12:05:00Z"}
"""


def files_of_app(app_name: str) -> dict[str, str]:
    """Return the texts of an application's files, by their names."""
    return {
        "app.py": APP.replace("{name}", app_name),
        "test_app.py": TEST,
        "scenario.json": SCENARIO,
        "lakehouse.toml": SETTINGS,
        "orders.jsonl": RECORDS,
    }
