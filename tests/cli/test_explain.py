"""`lakehouse past explain`, over a lake written without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.lake.layout import Layout
from lakehouse.run.scenario.scenario import on_model
from lakehouse.run.start.application import load_app
from lakehouse.semantics.record import Record

from ..run.model_lake import write_lake

APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string, amount bigint")
totals = orders.group_by("customer").agg(n=lh.count(), total=lh.sum("amount")).table("totals")
window = lh.tumbling("10 milliseconds", grace="0 milliseconds")
windows = orders.group_by("customer").window(window).agg(n=lh.count()).table("windows")
app = lh.app(totals, windows)
"""


@pytest.fixture
def shop(folder: Path) -> Path:
    (folder / "shop.py").write_text(APP)
    made = [("ann", 2, 1), ("bob", 3, 4), ("ann", 5, 25), ("ann", 7, 3)]
    records = [
        Record("orders", "id", 0, n, time, f"o{n}".encode(), json.dumps({"customer": who, "amount": amount}).encode(),
               1 + n // 2, max(t for *_, t in made[: n + 1]))
        for n, (who, amount, time) in enumerate(made)
    ]  # fmt: skip
    app = load_app("shop.py")
    write_lake(Layout(str(folder / "lake")), app, records, on_model(app, records))
    return folder


def test_the_records_behind_a_row(lakehouse, shop):
    actual = lakehouse("explain", "totals", "--key", "ann", "--app", "shop.py")
    assert (actual.code, actual.err) == (0, "")
    assert "totals: customer=ann" in actual.out
    assert '{"customer": "ann", "amount": 5}' in actual.out
    assert "n=3, total=14" in actual.out
    assert actual.out.splitlines()[-1] == "The table has the same: n=3, total=14."
    assert "bob" not in actual.out


def test_json_limit_and_a_window(lakehouse, shop):
    arguments = ("explain", "windows", "--key", "ann", "--app", "shop.py", "--json")
    first, second = map(json.loads, lakehouse(*arguments).out.splitlines())
    assert [(s["partition"], s["offset"], s["event_time_ms"], s["tick"], s["did"]) for s in first["steps"]] == [
        (0, 0, 1, 1, "inserted"), (0, 3, 3, 2, "late"),
    ]  # fmt: skip
    assert first["key"]["window_start"] == "1970-01-01T00:00:00Z"
    (chosen,) = map(json.loads, lakehouse(*arguments, "--window", "1970-01-01T00:00:00.020Z").out.splitlines())
    assert chosen == second
    (limited, _) = map(json.loads, lakehouse(*arguments, "--limit", "1").out.splitlines())
    assert (limited["records"], [s["did"] for s in limited["steps"]]) == (2, ["late"])
    assert "the last 1 of 2 records" in lakehouse(*arguments[:-1], "--limit", "1").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["totals", "--key", "anne", "--app", "shop.py"], "The nearest keys: ann; bob."),
        (["totals", "--key", "ann"], "--app"),
        (["nothing", "--key", "ann", "--app", "shop.py"], "table 'nothing' is not in this application"),
        (["totals; DROP", "--key", "ann", "--app", "shop.py"], "totals; DROP"),
        (
            ["totals", "--key", "ann", "--app", "shop.py", "--tick", "1", "--version", "1"],
            "expected at most one moment",
        ),
        (["totals", "--key", "ann", "--app", "shop.py", "--clock", "wall"], "expected event or commit"),
        (["totals", "--key", "ann", "--app", "shop.py", "--window", "2020-01-01"], "has no windows"),
        (["windows", "--key", "ann", "--app", "shop.py", "--window", "2020-01-01"], "the last ones begin at"),
    ],
)
def test_what_cannot_be_explained(lakehouse, shop, arguments, said):
    actual = lakehouse("explain", *arguments)
    assert actual.code == 2
    assert said in actual.err
