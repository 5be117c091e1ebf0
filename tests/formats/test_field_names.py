"""The names of a value's fields, by format: what `status` compares with the declaration."""

from __future__ import annotations

import pytest

from lakehouse.formats.codec.codec_choice import codec_of


@pytest.mark.parametrize(
    ("format", "value", "names"),
    [
        ("json", b'{"id": 1, "a.b": {"inner": 2}, "": null}', ("id", "a.b", "")),
        ("json", b'{"a": 1, "a": 2}', ("a", "a")),
        ("json", b'{"\\ud800": 1}', ("?",)),
        ("json", b"null", ()),
        ("json", b"[1]", ()),
        ("json", b'{"a": ', ()),
        ("json", b"\xff", ()),
        ("json_any_case", b'{"Id": 1}', ("Id",)),
        ("json_bare", b'{"a": 1}', ()),
        ("json_sr", b'\0\0\0\0\7{"a": 1}', ("a",)),
        ("json_sr", b"\0", ()),
        ("connect_json", b'{"schema": {"type": "struct"}, "payload": {"a": 1}}', ("a",)),
        ("connect_json", b'{"a": 1}', ("a",)),
        ("connect_json", b"7", ()),
        ("debezium", b'{"op": "u", "before": {"z": 0}, "after": {"a": 1, "b": 2}, "source": {"lsn": 3}}', ("a", "b")),
        ("debezium", b'{"schema": {}, "payload": {"op": "c", "after": {"a": 1}}}', ("a",)),
        ("debezium", b'{"op": "d", "before": {"a": 1}, "after": null}', ()),
        ("debezium?flattened=true", b'{"a": 1, "__deleted": "false"}', ("a",)),
        ("debezium?documents=true", b'{"op": "c", "after": "{\\"_id\\": 1, \\"a\\": 2}"}', ("_id", "a")),
        ("delimited", b"1,2", ()),
        ("kafka", b"1", ()),
        ("avro", b"\0\0\0\0\7\2", ()),
        ("protobuf", b"\0\0\0\0\7\0\1", ()),
        ("none", b"x", ()),
    ],
)  # fmt: skip
def test_the_names_of_a_values_fields(format, value, names):
    assert codec_of(format).field_names(value) == names


@pytest.mark.parametrize(
    ("format", "ignores_case"),
    [("json", False), ("json_any_case", True), ("json_sr", False), ("json_sr_any_case", True), ("debezium", False)],
)
def test_sql_finds_fields_in_any_case(format, ignores_case):
    assert codec_of(format).ignores_case is ignores_case
