"""Keys of one column: JSON with an object around the value and without, null keys, and the format that would fit."""

from __future__ import annotations

import struct
import sys

import pytest

from lakehouse.formats.decode import decode_key, reason_not_fitting
from lakehouse.plan.expression.schema import Column
from lakehouse.semantics.epoch_time import to_datetime

POINT = "struct<x: int, y: int>"


@pytest.mark.parametrize(
    ("format", "kind", "text", "value"),
    [
        ("json", "bigint", "7", 7), ("json", "bigint", ' {"id": 7} ', 7), ("json", "bigint", '{"other":1,"id":7}', 7),
        ("json", "string", '"a"', "a"), ("json", "string", "7", "7"), ("json", "string", '{"id":"a"}', "a"),
        ("json", "string", '{"id":{"id":1}}', '{"id":1}'), ("json", "array<int>", "[1,2]", [1, 2]),
        ("json", "array<int>", '{"id":[1]}', [1]), ("json", POINT, '{"id":{"x":1}}', {"x": 1, "y": None}),
        ("json", POINT, '{"x":1}', {"x": 1, "y": None}), ("json", POINT, '{"id":{}}', {"x": None, "y": None}),
        ("json", "struct<id: int>", '{"id":{"id":1}}', {"id": 1}),
        ("json_bare", "bigint", "7", 7), ("json_bare", "bigint", '"7"', 7), ("json_bare", "bigint", '{"ID":7}', 7),
        ("json_bare", "string", '"a"', "a"), ("json_bare", "string", '{"id":"a"}', '{"id":"a"}'),
        ("json_bare", POINT, '{"X":1}', {"x": 1, "y": None}), ("json_bare", POINT, "{}", {"x": None, "y": None}),
        ("json_bare", POINT, '{"ID":{"X":1}}', {"x": 1, "y": None}),
        ("json_bare", "struct<id: int>", '{"id":1}', {"id": 1}),
        ("json", "timestamp", '"1970-01-01T00:00:01Z"', to_datetime(1000)), ("delimited", "bigint", "7", 7),
    ],
)  # fmt: skip
def test_a_json_key_of_one_column_stands_alone_or_in_an_object(format, kind, text, value):
    assert decode_key(format, (Column("id", kind),), text.encode()) == {"id": value}


@pytest.mark.parametrize(
    ("format", "kind", "text"),
    [
        ("json", "bigint", "null"), ("json", "bigint", "{}"), ("json", "bigint", '{"ID":1}'),
        ("json", "bigint", '{"id":null}'), ("json", "string", '{"name":"a"}'), ("json", POINT, "{}"),
        ("json", POINT, '{"id":null}'), ("json_bare", "bigint", "{}"), ("json_bare", "bigint", '{"other":1}'),
        ("json_bare", POINT, '{"Id":null}'), ("json_bare", "string", "null"), ("delimited", "bigint", ""),
        ("delimited", "string", ""),
    ],
)  # fmt: skip
def test_a_key_of_one_column_that_is_absent_or_null_is_a_null_key(format, kind, text):
    assert decode_key(format, (Column("id", kind),), text.encode()) is None


def test_a_null_key_with_a_window_behind_it_is_a_null_key():
    columns = (Column("id", "string"), Column("window_start", "timestamp"), Column("window_end", "timestamp"))
    assert decode_key("json_bare+window10", columns, b"null" + struct.pack(">q", 0)) is None
    assert decode_key("kafka+window10", columns, struct.pack(">q", 0)) == {
        "id": "", "window_start": to_datetime(0), "window_end": to_datetime(10)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("format", "kind", "data", "reason"),
    [
        ("kafka", "bigint", b"7", "key: expected 8 bytes (bigint), found 1: 0x37; as json or delimited (key_format) it "
         "is 7"),
        ("kafka", "bigint", b'{"id": 71}', "key: expected 8 bytes (bigint), found 10: 0x7b226964223a2037317d; as json "
         "(key_format) it is 71"),
        ("json", "bigint", struct.pack(">q", 7), "key: expected JSON: Expecting value at character 0; as kafka "
         "(key_format) it is 7"),
        ("json", "string", b"abc", "key: expected JSON: Expecting value at character 0; as kafka or delimited "
         '(key_format) it is "abc"'),
        ("json", "bigint", b"letters!", "key: expected JSON: Expecting value at character 0"),
        ("json", "bigint", b'{"id":"x"}', "key: field id: expected bigint, found 'x'"),
        ("delimited", "bigint", b'{"id":7}', "key: field id: expected bigint, found '{\"id\":7}'; as json "
         "(key_format) it is 7"),
        ("json", "string", b'{"id":', "key: expected a JSON object that ends with }, found {\"id\":"),
    ],
)  # fmt: skip
def test_the_reason_names_the_format_that_would_fit(format, kind, data, reason):
    assert reason_not_fitting("key", format, (Column("id", kind),), data) == reason


class NoProtobuf:
    """An importer of a Python that lacks the extra."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith("google.protobuf"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_the_reason_names_no_format_that_needs_a_schema(monkeypatch):
    """It would be read by a schema of the columns, which the extra `protobuf` and a process compile."""
    for name in [name for name in sys.modules if name.startswith("google.protobuf")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoProtobuf(), *sys.meta_path])
    reason = reason_not_fitting("key", "json", (Column("number", "bigint"),), b"\x08\x05")
    assert reason == "key: expected JSON: Expecting value at character 0"


def test_a_value_is_not_read_without_its_object():
    assert (
        reason_not_fitting("value", "json", (Column("id", "bigint"),), b"7") == "value: expected a JSON object, found 7"
    )
