"""Tests of app.py on the model: no Kafka, no Spark, no database. The records are those of the .jsonl files."""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from app import app

from lakehouse.testing import Replay


def result(until="2026-02-01T00:00:00Z"):
    replay = Replay(app)
    for table in ("customers", "orders"):
        for line in Path(__file__).with_name(f"{table}.jsonl").read_text().splitlines():
            record = json.loads(line)
            moment = int(datetime.fromisoformat(record["timestamp"]).timestamp() * 1000)
            if record["timestamp"] < until:
                replay.send(f"shop.public.{table}", key=record["key"]["id"], value=record["value"], timestamp=moment)
    return replay.run()


def test_a_table_is_the_databases():
    assert [(row["id"], row["amount"], row["status"]) for row in result().rows("orders")] == [
        (10, Decimal("12.50"), "paid"),
        (12, Decimal("99.90"), "new"),
    ]


def test_a_delete_takes_the_row_out():
    assert [row["id"] for row in result("2026-01-31T12:20:00Z").rows("orders")] == [10, 11]
    assert [row["id"] for row in result("2026-01-31T12:25:00Z").rows("orders")] == [10]


def test_a_change_of_a_customer_reaches_the_orders():
    cities = [
        {row["id"]: row["customer_city"] for row in result(until).rows("order_list")}
        for until in ("2026-01-31T12:15:00Z", "2026-01-31T12:20:00Z")
    ]
    assert cities == [{10: "Rome", 11: "Oslo"}, {10: "Rome", 11: "Bern"}]


def test_an_order_without_its_customer_is_there():
    assert result().row("order_list", 12)["customer_name"] is None


def test_the_history_has_each_state_of_an_order():
    history = [(row["id"], row["status"], row["valid_to"] is None) for row in result().rows("orders_history")]
    assert history == [(10, "new", False), (10, "paid", True), (11, "new", False), (12, "new", True)]
