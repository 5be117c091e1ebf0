"""`lakehouse look quarantine` and `repair replay --plan`, over a quarantine that was written without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakehouse.run.start.application import load_app
from lakehouse.semantics.record import Record

from ..written_bronze import write_quarantine

T = 1_700_000_000_000
APP = """
import dataclasses
import lakehouse as lh

orders = lh.stream("web-orders", key="id string", schema="amount int", name="orders")
numbers = lh.stream("numbers", key="id int", schema="n bigint", format="kafka")
app = lh.app(orders.latest("newest"), numbers.latest("last"))

def repair(record):
    if record.value.startswith(b"{"):
        return dataclasses.replace(record, value=record.value.replace(b'"', b"").replace(b"amount", b'"amount"'))
"""


@pytest.fixture
def lake(folder: Path) -> None:
    """Two quarantines, of orders (three records) and of numbers (one), and the application."""
    (folder / "app.py").write_text(APP)
    orders, numbers = load_app("app.py").sources
    values = (b'{"amount": "1"}', b"\xff[red]", b'{"amount": "2"}')
    bad = [Record("web-orders", "id-1", n % 2, n // 2, T + n, b"k", value, n, T + n) for n, value in enumerate(values)]
    write_quarantine(folder / "lake", orders, bad)
    write_quarantine(folder / "lake", numbers, [Record("numbers", "id-2", 0, 7, T, b"\0\0\0\1", b"x", 3, T)])


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_newest_records_are_listed_first(lake, lakehouse):
    assert lines(lakehouse("quarantine", "orders", "--json").out)[0] == {
        "topic": "web-orders", "topic_id": "id-1", "partition": 0, "offset": 1, "tick": 2, "key": "k",
        "value": '{"amount": "2"}', "timestamp": "2023-11-14T22:13:20.002000Z",
        "reason": "value: field amount: expected int, found '2'", "fixed_at": None,
    }  # fmt: skip
    assert [r["value"] for r in lines(lakehouse("quarantine", "orders", "--json").out)[1:]] == [
        "base64:/1tyZWRd", '{"amount": "1"}',
    ]  # fmt: skip
    out = lakehouse("quarantine", "orders", "--limit", "2").out
    assert "web-orders/0/1" in out
    assert "\\xff[red]" in out
    assert "web-orders/0/0" not in out
    assert "the first 2 rows" not in lakehouse("quarantine", "orders", "--limit", "3").out


@pytest.mark.parametrize(
    ("chosen", "offsets"),
    [
        (["--reason", "field amount"], [(0, 1), (0, 0)]),
        (["--position", "web-orders/0/1", "--position", "web-orders/1/0"], [(0, 1), (1, 0)]),
        (["--from", "2023-11-14T22:13:20.001Z", "--to", "2023-11-14T22:13:20.002Z"], [(1, 0)]),
        (["--to", "2023-11-14", "--limit", "5"], []),
    ],
    ids=str,
)
def test_which_records_are_chosen(lake, lakehouse, chosen, offsets):
    actual = lines(lakehouse("quarantine", "orders", *chosen, "--json").out)
    assert [(r["partition"], r["offset"]) for r in actual] == offsets
    if not offsets:
        assert lakehouse("quarantine", "orders", *chosen).out == "The quarantine of orders has no such record.\n"


def test_by_reason(lake, lakehouse):
    first, second = lines(lakehouse("quarantine", "orders", "--by", "reason", "--json").out)
    example = first.pop("example")
    assert first == {
        "kind": "value: field amount: expected int", "records": 2, "open": 2, "first_tick": 0, "last_tick": 2,
        "first_time": "2023-11-14T22:13:20Z", "last_time": "2023-11-14T22:13:20.002000Z",
    }  # fmt: skip
    assert (example["partition"], example["offset"], example["value"]) == (0, 1, '{"amount": "2"}')
    assert (second["kind"], second["records"]) == ("value: expected UTF-8", 1)
    out = lakehouse("quarantine", "orders", "--by", "reason", "--reason", "field").out
    assert "0-2" in out
    assert "UTF-8" not in out


def test_a_function_is_tried(lake, lakehouse):
    out = lakehouse("repair", "replay", "orders", "--app", "app.py", "--fix", "repair", "--plan").out
    assert '{"amount": "1"}' in out
    assert '{"amount": 1}' in out
    assert "the fix gave nothing for it" in out
    assert "  2. decide on the intervention fixed, at a tick of its own, and bring newest to it\n" in out
    assert out.endswith("Records that fit now: 2; that still do not: 1. Nothing was changed.\n")
    fix = ("--app", "app.py", "--fix", "app.py:repair", "--plan", "--json")
    actual = lines(lakehouse("repair", "replay", "orders", *fix).out)
    assert [(r["offset"], r["fits"], r["value_before"], r["value"]) for r in actual] == [
        (0, True, '{"amount": "1"}', '{"amount": 1}'), (0, False, "base64:/1tyZWRd", "base64:/1tyZWRd"),
        (1, True, '{"amount": "2"}', '{"amount": 2}'),
    ]  # fmt: skip
    assert (actual[0]["reason"], actual[1]["reason"]) == (None, "the fix gave nothing for it")
    assert len(lines(lakehouse("quarantine", "orders", "--json").out)) == 3


def test_other_bytes_than_the_approved_ones_are_refused_and_later_records_left_out(lake, lakehouse, folder):
    fix = ("repair", "replay", "orders", "--app", "app.py", "--fix", "repair", "--plan", "--json")
    [digest] = {line["digest"] for line in lines(lakehouse(*fix).out)}
    assert len(lines(lakehouse(*fix, "--expect", digest).out)) == 3
    orders = load_app("app.py").sources[0]
    later = Record("web-orders", "id-1", 0, 9, T, b"k", b'{"amount": "9"}', 9, T)
    write_quarantine(folder / "lake", orders, [later])
    assert len(lines(lakehouse(*fix).out)) == 4
    assert [line["offset"] for line in lines(lakehouse(*fix, "--expect", digest).out)] == [0, 0, 1], "as approved"
    (folder / "app.py").write_text(
        APP.replace('b"amount", b\'"amount"\'', 'b"amount", b\'"amount"\').replace(b"1", b"7"')
    )
    refused = lakehouse(*fix, "--expect", digest)
    assert (refused.code, refused.out) == (2, "")
    assert f"expected '{digest}', as they were planned" in refused.err
    assert "a digest that `lakehouse repair replay --plan --json` said" in lakehouse(*fix, "--expect", "x").err


def test_an_edit_and_a_new_schema_are_tried(lake, lakehouse, folder):
    one = ("repair", "replay", "orders", "--app", "app.py", "--plan", "--position", "web-orders/1/0")
    (folder / "value.json").write_bytes(b'{"amount": 5}')
    (folder / "key").write_bytes(b"k2")
    actual = lines(lakehouse(*one, "--value-file", "value.json", "--key-file", "key", "--json").out)
    assert [(r["fits"], r["key_before"], r["key"], r["value"]) for r in actual] == [(True, "k", "k2", '{"amount": 5}')]
    assert "Records that fit now: 1" in lakehouse(*one, "--null-value").out
    bad = lakehouse(*one, "--value", "five").out
    assert "value: expected a JSON object, found five" in bad
    assert "Records that fit now: 0; that still do not: 1" in bad
    number = ("repair", "replay", "numbers", "--app", "app.py", "--plan", "--value", "8", "--key", "3", "--json")
    assert lines(lakehouse(*number).out)[0]["value"] == "\0\0\0\0\0\0\0\b"

    assert (
        "Records that fit now: 0; that still do not: 3"
        in lakehouse("repair", "replay", "orders", "--app", "app.py", "--plan").out
    )
    (folder / "other.py").write_text(APP.replace("amount int", "amount string"))
    out = lakehouse("repair", "replay", "orders", "--app", "other.py", "--plan").out
    assert "Records that fit now: 2; that still do not: 1" in out
    assert "new value" not in out


def test_a_plan_is_refused_as_the_replay_would_be(lake, lakehouse, folder):
    """After what would become of the records, so that a script, or a person who approves, is stopped at once."""
    joined = (
        'paid = lh.stream("paid", key="id string", schema="n int")\n'
        'pairs = orders.join(paid, within="1 hour", grace="1 hour", prefix="paid_").latest("pairs")\n'
        "app = lh.app(orders.latest('newest'), pairs)\n"
    )
    (folder / "joined.py").write_text(APP + joined)
    fix = ("repair", "replay", "orders", "--app", "joined.py", "--fix", "repair")
    planned, done = lakehouse(*fix, "--plan"), lakehouse(*fix)
    assert (planned.code, done.code, done.out) == (2, 2, "")
    assert planned.out.endswith("Records that fit now: 2; that still do not: 1. Nothing was changed.\n")
    assert planned.err == done.err
    assert "stream 'orders' is joined with another stream, for table 'pairs'" in planned.err
    told = lakehouse(*fix, "--plan", "--json")
    refused = [line.get("replay_refused") for line in lines(told.out)]
    assert (told.code, [text is not None for text in refused]) == (2, [True, False, True])
    assert refused[0] in told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["clicks"], "stream 'clicks' has no quarantine"),
        (["ordrs"], "Did you mean 'orders'?"),
        (["a/b"], "expected a letter"),
        (["orders", "--position", "web-orders/0"], "expected TOPIC/PARTITION/OFFSET, such as orders/0/17"),
        (["orders", "--from", "soon"], "--from 'soon': expected a time"),
    ],
    ids=str,
)
def test_bad_input(lake, lakehouse, arguments, said):
    actual = lakehouse("quarantine", *arguments)
    assert (actual.code, actual.out) == (2, "")
    assert said in actual.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a/b", "--app", "app.py"], "expected a letter"),
        (["orders", "--app", "app.py", "--position", "web-orders/0"], "expected TOPIC/PARTITION/OFFSET"),
        (["orders", "--fix", "repair"], "no application is named. Name it with --app app.py"),
        (["orders", "--plan"], "no application is named. Name it with --app app.py"),
        (["orders", "--app", "app.py", "--plan", "--fix", "repair", "--value", "{}"], "found --fix and a new value"),
        (["orders", "--app", "app.py", "--plan", "--value", "{}", "--null-value"], "found 2 new values"),
        (["orders", "--app", "app.py", "--plan", "--value", "{}"], "an edit changes one record, found 3"),
        (["orders", "--app", "app.py", "--plan", "--value-file", "none"], "none: no such file"),
        (["orders", "--app", "app.py", "--plan", "--fix", "nothing"], "app.py has no 'nothing', expected a function"),
        (["orders", "--app", "app.py", "--plan", "--reason", "none"], "no quarantined record was chosen"),
        (["numbers", "--app", "app.py", "--plan", "--value", "eight"], "value 'eight': expected bigint"),
    ],
    ids=str,
)
def test_bad_input_of_a_replay(lake, lakehouse, arguments, said):
    actual = lakehouse("repair", "replay", *arguments)
    assert (actual.code, actual.out) == (2, "")
    assert said in actual.err


def test_a_stream_is_found_in_any_case(lake, lakehouse):
    assert lakehouse("quarantine", "NUMBERS", "--json").out == lakehouse("quarantine", "numbers", "--json").out != ""


def test_an_empty_quarantine(folder, lakehouse):
    (folder / "app.py").write_text(APP)
    write_quarantine(folder / "lake", load_app("app.py").sources[0], [])
    assert lakehouse("quarantine", "orders").out == "The quarantine of orders is empty.\n"
    assert lakehouse("quarantine", "orders", "--by", "reason").out == "The quarantine of orders is empty.\n"
    assert lakehouse("quarantine", "orders", "--json").out == ""
