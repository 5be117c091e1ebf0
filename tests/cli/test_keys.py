"""`--key` takes the rows of one key, whatever values its columns have: over tables written without Spark."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.formats.key_text import write_key
from lakehouse.lake import reader
from lakehouse.lake.key_sql import key_condition_sql, key_text_sql

from .versioned import VersionedTable, position
from .written import TIME, WrittenLake, at

TEXTS = [("a,b", "c"), ("a", "b,c"), ("", None), (None, ""), ('"a', 'b"'), ("a\nb", "'"), ("1", "\\"), ('"a,b"', "c")]
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["1.5", "true", "a,b", ""]),
    "flag": (pa.bool_(), [True, False]),
    "whole": (pa.int64(), [1, -(2**63)]),
    "price": (pa.decimal128(38, 10), [Decimal("1.5000000000"), Decimal("0E-10"), Decimal(10) ** 27]),
    "share": (pa.decimal128(38, 38), [Decimal("1E-38"), Decimal("0.5")]),
    "double": (pa.float64(), [1.5, 1e300, float("nan"), float("-inf")]),
    "seen": (TIME, [datetime(2013, 10, 27, 0, 10, 0, 5, UTC), datetime(1, 1, 1, tzinfo=UTC), at(0)]),
    "day": (pa.date32(), [date(2013, 10, 27), date(9999, 12, 31)]),
    "bytes": (pa.binary(), [b"", b"\xff\x00", b"a,b"]),
    "place": (pa.struct({"x": pa.int32(), "y": pa.string()}), [{"x": 1, "y": 'a,"b'}, {"x": None, "y": None}]),
    "tags": (pa.list_(pa.string()), [["a", None], [], ["a,b"]]),
    "holder": (
        pa.struct({"data": pa.binary(), "at": TIME, "day": pa.date32(), "d": pa.decimal128(38, 38), "f": pa.float32()}),
        [
            {"data": b"abc", "at": at(0), "day": date(2013, 10, 27), "d": Decimal("1E-38"), "f": 1.5},
            {"data": b"\xff", "at": datetime(1, 1, 1, tzinfo=UTC), "day": date(9999, 12, 31), "d": None, "f": 1.5},
            {"data": b"YWJj", "at": None, "day": None, "d": Decimal(0), "f": float("nan")},
            dict.fromkeys(("data", "at", "day", "d", "f")),
        ],
    ),
    "parts": (
        pa.list_(pa.struct({"data": pa.binary(), "of": pa.list_(pa.int8())})),
        [[{"data": b"", "of": [1, None]}, None], [{"data": b"", "of": []}], [{"data": b"a,'b", "of": None}], []],
    ),
}


def row(key: dict[str, Any], n: int) -> dict[str, Any]:
    return {**key, "n": n, "_event_time": at(0), "_position": position(1, n)}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a key of two texts: a row for each of `TEXTS`, numbered by n; bronze has a record."""
    root = tmp_path_factory.mktemp("lake")
    WrittenLake(root).tick(1, ("clicks", "ann", 0, 1, "x"))
    columns = {"one": pa.string(), "two": pa.string(), "n": pa.int64()}
    table = VersionedTable(root, "pairs", columns, ("one", "two"), feed=True)
    table.commit(1, *(row({"one": item, "two": two}, n) for n, (item, two) in enumerate(TEXTS)))
    return root


@pytest.mark.parametrize("command", [["blame"], ["changes"], ["diff"]])
def test_keys_that_would_be_one_text_if_joined_by_commas_are_told_apart(pairs, lakehouse, command):
    for n, key in enumerate(TEXTS):
        arguments = ["pairs", *(["0", "1"] if command == ["diff"] else []), "--key", write_key(key)]
        outcome = lakehouse(*command, *arguments, "--json", "--lake", str(pairs))
        assert outcome.code == 0, outcome.err
        told = [json.loads(line) for line in outcome.out.splitlines()]
        rows = [item for item in told if "key" in item]  # a diff begins with its sides
        actual = [
            (item["key"]["one"], item["key"]["two"], (item.get("value") or item.get("after"))["n"]) for item in rows
        ]
        assert actual == [(*key, n)]


@pytest.mark.parametrize("command", [["blame"], ["changes"], ["diff"]])
def test_a_text_that_is_no_key_is_answered_with_the_form(pairs, lakehouse, command):
    arguments = ["pairs", *(["0", "1"] if command == ["diff"] else []), "--key", "a,b,c"]
    outcome = lakehouse(*command, *arguments, "--lake", str(pairs))
    assert (outcome.code, outcome.out) == (2, "")
    assert "found 3 values. Expected one string,two string: the values joined by commas" in " ".join(
        outcome.err.split()
    )


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("several", [False, True])
def test_a_key_of_any_type_takes_its_own_row(tmp_path: Path, name: str, several: bool) -> None:
    kind, values = KINDS[name]
    names = (name, "other") if several else (name,)
    schema = pa.schema({name: kind, **({"other": pa.string()} if several else {}), "n": pa.int64()})
    keys = [(value, "x,y") if several else (value,) for value in [*values, *([None] if several else [])]]
    made = [{**dict(zip(names, key, strict=True)), "n": n} for n, key in enumerate(keys)]
    write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist(made, schema))
    rows = reader.open_dataset(str(tmp_path / "t"))
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("rows", rows)
    for n, key in enumerate(keys):
        condition = key_condition_sql(rows, names, write_key(key))
        assert connection.sql(f"SELECT n FROM rows WHERE {condition}").fetchall() == [(n,)], (condition, key)
    if name in ("text", "flag", "whole", "day", "bytes"):
        texts = connection.sql(f"SELECT {key_text_sql(rows, names)} FROM rows ORDER BY n").fetchall()
        assert [text for (text,) in texts] == [write_key(key) for key in keys]
