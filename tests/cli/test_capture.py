"""`lakehouse test capture`: records of a bronze become a scenario that passes. The bronze is written without Spark."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from lakehouse.run.scenario.scenario import check_scenario, on_model, read_scenario
from lakehouse.semantics.commit_number import Progress
from lakehouse.semantics.record import Record

MOMENT = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", MOMENT), ("timestamp_type", pa.int32()), ("headers", HEADERS), ("key", pa.binary()),
        ("value", pa.binary()), ("tick", pa.int64()), ("order_time", MOMENT),
    ]
)  # fmt: skip

APP = """
import lakehouse as lh

orders = lh.stream("orders", key="id string", schema="customer string, amount decimal(10, 2)")
current = orders.latest("current")
totals = orders.filter("amount > 0").group_by("customer").agg(n=lh.count(), total=lh.sum("amount")).table("totals")
window = lh.tumbling("10 milliseconds", grace="0 milliseconds")
windows = orders.group_by("upper(customer) AS who", "amount > 3 AS much").window(window).agg(n=lh.count())
moved = lh.stream("moved", key="at struct<x: int, y: int>", schema="n int", name="moved").latest("places")
both = orders.merge(lh.stream("others", key="id string", schema="customer string, amount decimal(10, 2)"))
merged = both.group_by("customer").agg(n=lh.count()).table("merged")
merged_windows = both.group_by("customer").window(window).agg(n=lh.count()).table("merged_windows")
app = lh.app(
    current, totals.changes().to_topic("totals-changelog"), windows.table("windows"), moved, merged,
    merged_windows,
)
"""


def record(topic: str, number: int, key: Any, value: bytes | None, time: int, tick: int = 1, **of: Any) -> Record:
    key = None if key is None else key.encode()
    return Record(topic, f"{topic}-id", of.pop("partition", 0), number, time, key, value, tick, time, **of)


def order(customer: str, amount: str = "2.50") -> bytes:
    return f'{{"customer": "{customer}", "amount": {amount}}}'.encode()


@pytest.fixture
def shop(folder: Path) -> Path:
    """A lake and its application. Orders 1 to 4 lie in two ticks, a bad one for key 1 and a tombstone among them."""
    orders = [
        record("orders", 0, "1", order("ann"), 1, headers=(("from", b"web"), ("none", None), ("id", b"\xff\0"))),
        record("orders", 1, "2", order("bob"), 2),
        record("orders", 2, "1", b"\xff no order", 3),
        record("orders", 3, "3", order("ann", "3.25"), 4, tick=2),
        record("orders", 0, "4", order("ann", "-1"), 30, partition=1),
        record("orders", 4, "1", None, 31, tick=2),
        record("orders", 5, None, order("ann", "4.00"), 8, tick=2),
        record("others", 0, "9", order("ann"), 40, tick=2),
        replace(record("others", 1, "9", order("ann"), 2, tick=2), order_time=40),
        record("moved", 0, '{"at": {"x": 1, "y": 2}}', b'{"n": 1}', 5),
        record("moved", 1, '{"at":{"y":2,"x":1}}', b'{"n": 2}', 6, tick=2),
        record("moved", 2, '{"at":{"x":7,"y":2}}', b'{"n": 2}', 7, tick=2),
        record("orders", 6, "1", order("not complete"), 50, tick=3),
    ]
    rows = [asdict(item) for item in orders]
    for row in rows:
        row["headers"] = [{"key": name, "value": value} for name, value in row["headers"]] or None
        row["timestamp"], row["order_time"] = row["timestamp"] * 1000, row["order_time"] * 1000
    outcome = CommitProperties(app_transactions=[Transaction("lakehouse.ingest", Progress(1, 2).version)])
    path = folder / "lake" / "bronze" / "records"
    write_deltalake(path, pa.Table.from_pylist(rows, SCHEMA), partition_by=["topic"], commit_properties=outcome)
    (folder / "shop.py").write_text(APP)
    return folder


@pytest.fixture
def captured(lakehouse, shop):
    """Capture, check that the scenario passes under every batching, and return its content."""
    names = count()

    def run(*arguments: str) -> dict[str, Any]:
        file = f"captured-{next(names)}.json"
        result = lakehouse("capture", "shop.py", *arguments, "--out", file)
        assert (result.code, result.err) == (0, "")
        for batch in ("all", "one", 2):
            assert check_scenario(read_scenario(Path(file)), on_model, batch) == []
        return json.loads(Path(file).read_text())

    return run


def test_a_table_keyed_by_the_topics_key(captured):
    actual = captured("current", "--key", "1")
    assert actual["app"] == "shop.py:app"
    assert actual["inputs"] == [
        {
            "topic": "orders", "key": "1", "value": {"customer": "ann", "amount": 2.5}, "timestamp": 1,
            "headers": [["from", "web"], ["none", None], {"KEY": "id", "VALUE": "/wA="}],
        },
        {"topic": "orders", "key": "1", "value_hex": "ff206e6f206f72646572", "timestamp": 3},
        {"topic": "orders", "key": "1", "value": None, "timestamp": 31},
    ]  # fmt: skip
    assert actual["tables"] == {"current": []}
    assert [change["value"] for change in actual["outputs"]] == [{"customer": "ann", "amount": 2.5}, None]
    assert actual["quarantine"]["orders"][0]["offset"] == 1


def test_a_table_grouped_by_a_column(captured):
    """Records that the filter drops do not reach the key; those of an incomplete tick are left out."""
    actual = captured("totals", "--key", "ann")
    assert [item.get("key") for item in actual["inputs"]] == ["1", "3", None]
    assert actual["tables"] == {"totals": [{"key": "ann", "value": {"n": 3, "total": 9.75}}]}
    assert [change["topic"] for change in actual["outputs"]] == ["totals-changelog"] * 3


def test_numbers_keep_their_scale(lakehouse, shop):
    lakehouse("capture", "shop.py", "totals", "--key", "ann")
    assert '"amount": 2.50' in (shop / "totals-ann.json").read_text()


def test_the_first_records_only(captured):
    assert captured("totals", "--key", "ann", "--limit", "1")["tables"]["totals"][0]["value"]["n"] == 1


def test_a_key_of_several_expressions_with_windows_and_late_records(captured):
    actual = captured("windows", "--key", "ANN,true")
    assert [item["timestamp"] for item in actual["inputs"]] == [4, 8]
    windows = {"start": 0, "end": 10, "type": "time"}
    assert actual["tables"]["windows"] == [{"key": {"who": "ANN", "much": True}, "window": windows, "value": {"n": 2}}]


def test_a_struct_key_is_the_same_in_any_spelling(captured):
    actual = captured("places", "--key", '{"x":1,"y":2}')
    assert [item["value"]["n"] for item in actual["inputs"]] == [1, 2]


def test_a_merge_is_captured_from_all_its_topics(captured):
    actual = captured("merged", "--key", "ann")
    assert {item["topic"] for item in actual["inputs"]} == {"orders", "others"}
    assert actual["tables"]["merged"][0]["value"]["n"] == len(actual["inputs"]) == 6
    late = captured("merged_windows", "--key", "ann")["late"]["merged_windows"]
    window = {"start": 0, "end": 10, "type": "time"}
    assert late == [{"topic": "others", "partition": 0, "offset": 1, "window": window}]


def test_it_prints_its_path_and_how_to_run_it(lakehouse, shop):
    (shop / "sub").mkdir()
    (shop / "sub" / "shop.py").write_text(APP)
    actual = lakehouse("capture", "sub/shop.py", "totals", "--key", "ann")
    assert "sub/totals-ann.json: 3 records of orders behind the key ann of totals." in actual.out
    assert actual.out.splitlines()[-1] == "Run it: lakehouse test run sub/totals-ann.json"
    assert lakehouse("test", "sub/totals-ann.json").out.splitlines()[-1] == "1 passed, 0 failed"


def test_records_of_several_partitions_may_change_places(lakehouse, shop):
    """In the lake partition 1 (tick 1, at 30) comes before tick 2 of partition 0 (at 4); by order times after it."""
    actual = lakehouse("capture", "shop.py", "merged", "--key", "ann")
    assert "unlike in the lake" in actual.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shop.py", "nothing", "--key", "1"], "table 'nothing' is not in this application"),
        (["shop.py", "totals", "--key", "eve"], "no record in bronze reaches it"),
        (["shop.py", "totals", "--key", "ann", "--out", "shop.py"], "exists already"),
        (["shop.py", "totals", "--key", "ann", "--out", "lake/t.json"], "beside itself"),
        (["shop.py", "totals", "--key", "ann", "--lake", "elsewhere"], "is no lake: there is no such folder"),
        (["missing.py", "totals", "--key", "ann"], "no such file"),
    ],
)
def test_what_cannot_be_captured(lakehouse, shop, arguments, said):
    before = sorted(shop.rglob("*"))
    actual = lakehouse("capture", *arguments)
    assert actual.code == (1 if "elsewhere" in arguments else 2)
    assert said in actual.err
    assert [path for path in sorted(shop.rglob("*")) if path not in before and path.suffix == ".json"] == []
