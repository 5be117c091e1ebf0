"""Whole records: key and value through their source, nulls, and the reason of a bad one."""

from __future__ import annotations

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_columns, decode_record
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.formats.values.unfit import Unfit
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.plan.expression.schema import Column
from lakehouse.semantics.record import Record

SOURCE = lh.stream("t", key="id int", schema="a int").source
PAIR = lh.stream("t", key="x string, y int", schema="a int").source
ONE = b"\x00\x00\x00\x01"
NO_INT = "expected 4 bytes (int), found 1: 0x31; as json or delimited (key_format) it is 1"


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record("t", "id", 0, 0, 0, key, value, tick=1, order_time=0)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (ONE, b'{"a":5}', DecodedRecord({"id": 1}, {"a": 5})),
        (None, b'{"a":5}', DecodedRecord(None, {"a": 5})),
        (ONE, None, DecodedRecord({"id": 1}, None)),
        (ONE, b"null", DecodedRecord({"id": 1}, None)),
        (ONE, b"{}", DecodedRecord({"id": 1}, {"a": None})),
        (None, None, DecodedRecord(None, None)),
        (ONE, b'{"a":"x"}', BadRecord("value: field a: expected int, found 'x'")),
        (b"1", b'{"a":"x"}', BadRecord(f"key: {NO_INT}")),
        (ONE, b"", BadRecord("value: expected a JSON object, found nothing")),
        (b"1", None, BadRecord(f"key: {NO_INT}")),
    ],
)
def test_records(key: bytes | None, value: bytes | None, expected: DecodedRecord | BadRecord) -> None:
    assert decode_record(SOURCE, record(key, value)) == expected


@pytest.mark.parametrize("key", [b"null", b"{}", b'{"X":"a"}', b'{"x":null,"y":null}'])
def test_a_key_of_several_columns_is_null_if_all_are(key: bytes) -> None:
    assert decode_record(PAIR, record(key, b"{}")) == DecodedRecord(None, {"a": None})
    assert decode_record(PAIR, record(b'{"y":1}', b"{}")) == DecodedRecord({"x": None, "y": 1}, {"a": None})


def test_records_that_spark_hands_over_one_by_one() -> None:
    columns = (Column("a", "int"), Column("b", "string"))
    assert decode_columns("delimited", columns, b"1,x") == {"a": 1, "b": "x"}
    assert decode_columns("delimited", columns, None) is None
    with pytest.raises(Unfit, match="expected 2 fields"):
        decode_columns("delimited", columns, b"1")


@pytest.mark.parametrize("format", ["json", "delimited", "kafka"])
def test_null_is_null_and_a_row_comes_back(format: str) -> None:
    columns = (Column("a", "int"),)
    assert encode_key(format, columns, None) is None
    assert encode_value(format, columns, None) is None
    assert decode_columns(format, columns, encode_value(format, columns, {"a": 7})) == {"a": 7}


def test_a_null_column_is_a_row_except_for_primitives() -> None:
    columns = (Column("a", "int"),)
    assert encode_value("json", columns, {"a": None}) == b'{"a":null}'
    assert encode_value("delimited", columns, {"a": None}) == b""
    assert encode_value("kafka", columns, {"a": None}) is None
