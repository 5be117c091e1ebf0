"""`lakehouse look late`, and the late and state tables in the commands that read; over a lake written without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse.lake.layout import Layout
from lakehouse.lake.record.late_records import SCHEMA

from .written import WrittenLake

HOUR = 3_600_000


@pytest.fixture
def lake(folder: Path) -> WrittenLake:
    """The topic clicks, the table hourly over it, and three of its records that were late for it."""
    lake = WrittenLake(folder / "lake")
    lake.tick(1, ("clicks", "ann", 0, 3 * HOUR, "c0"), ("clicks", "ann", 0, HOUR + 1, "c1"), ("views", "x", 0, 5, "v"))
    lake.tick(2, ("clicks", "bob", 1, 3 * HOUR, "c2"), ("clicks", "bob", 1, 7, b"\xff\x00"))
    lake.tick(3, ("clicks", "bob", 1, 8, "c4"))
    lake.rows("hourly", 3, ("ann", 3 * HOUR, 4 * HOUR, 1), ("bob", 3 * HOUR, 4 * HOUR, 1), topic="clicks")
    lake.rows("hourly", 3, ("ann", HOUR, 2 * HOUR, 9), layer="state", topic="clicks")
    lake.late("hourly", 1, ("clicks", 0, 1, "ann", HOUR, 2 * HOUR))
    lake.late("hourly", 2, ("clicks", 1, 1, "bob", 0, HOUR))
    lake.late("hourly", 3, ("clicks", 1, 2, "bob", 0, HOUR))
    return lake


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_late_records_are_shown_with_their_bytes_the_newest_first(lake, lakehouse):
    actual = lines(lakehouse("late", "hourly", "--json").out)
    assert [(r["tick"], r["partition"], r["offset"], r["key"], r["value"]) for r in actual] == [
        (3, 1, 2, {"user": "bob"}, "c4"),
        (2, 1, 1, {"user": "bob"}, "base64:/wA="),
        (1, 0, 1, {"user": "ann"}, "c1"),
    ]
    assert actual[2]["window_start"] == "1970-01-01T01:00:00Z"
    assert actual[2]["timestamp"] == "1970-01-01T01:00:00.001000Z"
    assert actual[2]["record_key"] == "ann"


def test_a_person_reads_a_table(lake, lakehouse):
    out = lakehouse("late", "hourly", "--limit", "2").out
    assert "user=bob" in out
    assert "1970-01-01 00:00:00.008Z" in out
    assert "c4" in out
    assert "\\xff" in out
    assert "user=ann" not in out
    assert "the first 2 rows" not in lakehouse("late", "hourly", "--limit", "3").out


def test_a_recreated_topic_has_the_offset_twice_and_the_record_once(lake, lakehouse):
    lake.tick(4, *[("clicks", "eve", 1, 9, f"anew {n}") for n in range(3)], topic_id="id-2")
    assert [r["value"] for r in lines(lakehouse("late", "hourly", "--json").out)] == ["c4", "base64:/wA=", "c1"]


def test_records_of_two_topics_in_one_table(lake, lakehouse):
    lake.late("hourly", 1, ("views", 0, 0, "x", 0, HOUR))
    actual = lines(lakehouse("late", "hourly", "--json").out)
    assert [(r["topic"], r["value"]) for r in actual[-2:]] == [("clicks", "c1"), ("views", "v")]


def test_without_windows_there_are_no_window_columns(lake, lakehouse):
    lake.rows("newest", 3, topic="clicks")
    lake.late("newest", 1, ("clicks", 0, 1, "ann", None, None))
    assert "window_start" not in lakehouse("late", "newest").out
    assert lines(lakehouse("late", "newest", "--json").out)[0]["window_start"] is None


def test_a_key_has_all_digits_and_its_nulls(lake, folder, lakehouse):
    types = {"price": pa.decimal128(38, 4), "x": pa.float64(), "city": pa.string(), "n": pa.int64()}
    rows = pa.table({name: pa.array([], type) for name, type in types.items()})
    path = folder / "lake" / "silver" / "prices"
    write_deltalake(path, rows)
    DeltaTable(path).alter.set_table_properties({"lakehouse.key": "price,x,city"}, raise_if_not_exists=False)
    key = '{"price":12345678901234567890.1200,"x":1.5}'
    lake.late("prices", 1, ("clicks", 0, 1, key, None, None))
    [actual] = lines(lakehouse("late", "prices", "--json").out)
    assert actual["key"] == {"price": "12345678901234567890.1200", "x": 1.5, "city": None}
    assert "price=12345678901234567890.1200, x=1.5, city=null" in lakehouse("late", "prices").out


def test_nothing_was_late(lake, lakehouse):
    lake.rows("calm", 3, topic="clicks")
    assert lakehouse("late", "calm").out == "No record came too late for calm.\n"
    assert lakehouse("late", "calm", "--json").out == ""


@pytest.mark.parametrize(
    ("name", "said"), [("nothing", "table 'nothing' does not exist"), ("a.b", "expected a letter")]
)
def test_no_such_table(lake, lakehouse, name, said):
    actual = lakehouse("late", name)
    assert (actual.code, actual.out) == (2, "")
    assert said in actual.err


def test_the_other_commands_read_late_and_state_tables(lake, lakehouse):
    late = "SELECT count(*) AS n FROM late.hourly"
    assert lines(lakehouse("query", late, "--json").out) == [{"n": 3}]
    state = "SELECT user, n, _event_time IS NULL AS hidden FROM state.hourly"
    assert lines(lakehouse("query", state, "--json").out) == [{"user": "ann", "n": 9, "hidden": False}]
    listed = json.loads(lakehouse("tables", "--json").out)
    assert [(t["layer"], t["name"], t["rows"], t["tick"]) for t in listed] == [
        ("bronze", "clicks", 5, 3), ("bronze", "views", 1, 3), ("silver", "hourly", 2, 3), ("late", "hourly", 3, 3),
        ("state", "hourly", 1, 3),
    ]  # fmt: skip
    assert "late.hourly" in lakehouse("tables").out
    described = json.loads(lakehouse("describe", "late.hourly", "--json").out)
    assert {"name": "window_end", "type": "timestamp"} in described["columns"]
    assert json.loads(lakehouse("describe", "state.hourly", "--json").out)["key"] == [
        "user", "window_start", "window_end",
    ]  # fmt: skip
    assert [commit["tick"] for commit in lines(lakehouse("log", "late.hourly", "--json").out)] == [3, 2, 1]
    assert [commit["tick"] for commit in lines(lakehouse("log", "state.hourly", "--json").out)] == [None, 3]
    assert len(lines(lakehouse("log", "bronze.clicks", "--json").out)) == 3


def decide(root: Path, at: int, kind: str, *records: tuple[int, int, int], **details: Any) -> None:
    """Write an intervention in hourly, and the tick, partition and offset of its records."""
    layout, id_ = Layout(str(root)), f"i{at}"
    log = {"at": at, "id": id_, "table": "hourly", "kind": kind, "reason": "", "details": json.dumps(details)}
    write_deltalake(layout.interventions, pa.Table.from_pylist([log]), mode="append")
    columns = {"id": pa.string(), **dict(zip(SCHEMA.names, SCHEMA.types, strict=True))}
    places = [
        {"id": id_, "tick": record[0], "topic": "clicks", "partition": record[1], "offset": record[2], "ordinals": []}
        for record in records
    ]
    table = pa.Table.from_pylist(places, pa.schema(columns))
    write_deltalake(layout.intervention_records, table, mode="append")


@pytest.mark.rotated
def test_what_a_correction_took_in_is_late_no_more_unless_it_is_reverted(lake, folder, lakehouse):
    def late() -> tuple[list[str], int]:
        values = [record["value"] for record in lines(lakehouse("late", "hourly", "--json").out)]
        [table] = json.loads(lakehouse("status", "--json").out)["tables"]
        return values, table["late"]

    assert late() == (["c4", "base64:/wA=", "c1"], 3)
    decide(folder / "lake", 4, "late", (2, 1, 1), (3, 1, 2))
    assert late() == (["c1"], 1)
    assert [r["value"] for r in lines(lakehouse("late", "hourly", "--limit", "1", "--json").out)] == ["c1"]
    decide(folder / "lake", 5, "late", (1, 0, 1))
    assert late() == ([], 0)
    assert lakehouse("late", "hourly").out == "No record came too late for hourly.\n"
    decide(folder / "lake", 6, "revert", tick=4)
    assert late() == (["c1"], 1)
    decide(folder / "lake", 7, "revert", tick=3)
    assert late() == (["c4", "base64:/wA=", "c1"], 3)
