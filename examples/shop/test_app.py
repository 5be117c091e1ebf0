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
