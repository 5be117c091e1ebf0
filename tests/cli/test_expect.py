"""`lakehouse test expect`: a rule is tried on all records of a topic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake.layout import Layout
from lakehouse.semantics.record import Record

from .conftest import Command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = 86_400_000
APP = """
import lakehouse as lh
orders = lh.stream("shop-orders", key="id string", schema="amount bigint, city string", name="orders")
app = lh.app(orders.expect("known", "city <> 'x'").latest("newest"))
"""
VALUES = [
    (0, b'{"amount": 5, "city": "Rome"}'), (1, b'{"amount": -5, "city": "[red]Oslo"}'), (1, b'{"amount": -6}'),
    (1, None), (1, b'{"amount": "no"}'), (2, b'{"amount": -7, "city": "x"}'), (3, b'{"amount": null, "city": "Lima"}'),
]  # fmt: skip


def test_what_can_not_be_judged(folder: Path, lakehouse: Command) -> None:
    (folder / "app.py").write_text(APP)
    (folder / "lakehouse.toml").write_text('[lake]\npath = "./lake"\napp = "app.py"\n')
    no_stream = lakehouse("test", "expect", "shop-orders", "--rule", "amount > 0")
    assert no_stream.code == 2
    assert "stream 'shop-orders' is not in this application. Did you mean 'orders'? There are: orders." in " ".join(
        no_stream.err.split()
    )
    no_column = lakehouse("test", "expect", "orders", "--rule", "price > 0")
    assert (no_column.code, "'price > 0' reads 'price', which does not exist" in no_column.err) == (2, True)
    no_condition = lakehouse("test", "expect", "orders", "--rule", "amount + 1")
    assert (no_condition.code, "expected a condition" in no_condition.err) == (2, True)
    assert lakehouse("test", "expect", "orders", "--rule", "amount > 0").code == 2


@pytest.mark.rotated
def test_what_a_rule_would_have_refused(spark: SparkSession, folder: Path, lakehouse: Command) -> None:
    from lakehouse.run.scenario.replay import write_bronze
    from lakehouse.run.start.application import load_app
    from lakehouse.spark.changelog.upstream import open_lake

    (folder / "app.py").write_text(APP)
    (folder / "lakehouse.toml").write_text('[lake]\npath = "./lake"\napp = "app.py"\n')
    records = [
        Record("shop-orders", "id", 0, number, day * DAY + 1, b"k", value, 1 + number // 4, day * DAY + 1)
        for number, (day, value) in enumerate(VALUES)
    ]
    write_bronze(open_lake(spark, Layout(str(folder / "lake"))), load_app("app.py"), records)
    arguments = ("test", "expect", "orders", "--app", "app.py", "--rule", "amount > 0 AND length(city) < 99")
    tried = json.loads(lakehouse(*arguments, "--json").out)
    assert (tried["stream"], tried["tick"], tried["records"], tried["refused"]) == ("orders", 2, 4, 2)
    assert [(day["day"], day["records"], day["refused"]) for day in tried["days"]] == [
        ("1970-01-01", 1, 0), ("1970-01-02", 2, 1), ("1970-01-04", 1, 1),
    ]  # fmt: skip
    first = tried["days"][1]["first"]
    assert (first["place"], first["reason"].partition(", found ")[2]) == (["id", 0, 1], 'amount -5, city "[red]Oslo"')
    shown = lakehouse(*arguments)
    assert "Of 4 records of orders up to tick 2, 2 (50.00%) do not meet amount > 0" in " ".join(shown.out.split())
    assert "[red]Oslo" in shown.out
    assert "█" * 20 in shown.out
    since = json.loads(lakehouse(*arguments, "--since", "1970-01-03", "--json").out)
    assert (since["records"], since["refused"]) == (1, 1)
    (folder / "app.py").write_text(APP.replace('"known", "city <> \'x\'"', '"known", "true"'))
    assert json.loads(lakehouse(*arguments, "--json").out)["refused"] == 4
