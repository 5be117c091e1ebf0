"""Keys and values as a person writes them: to bytes and back, and bytes that have no such text."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from decimal import Decimal

import pytest

import lakehouse as lh
from lakehouse.formats.values.json_text import write_json
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import (
    decode_written_key,
    decode_written_value,
    encode_written_key,
    encode_written_value,
)

JSON = lh.stream("t", key="a string, b int", schema="s string, m decimal(6, 2), d double").source
CSV = lh.stream("t", key="a string, b int", schema="s string, n int", format="csv", key_format="csv").source
LONG = lh.stream("t", key="k bigint", schema="v binary", format="kafka").source
ONE = replace(JSON, key=JSON.key[:1])


@pytest.mark.parametrize(
    ("source", "key", "data"),
    [
        (JSON, {"a": "x", "b": 1}, b'{"a":"x","b":1}'),
        (JSON, ("x", None), b'{"a":"x","b":null}'),
        (ONE, "x", b'{"a":"x"}'),
        (CSV, "x,1", b"x,1"),
        (CSV, ["x", 1], b"x,1"),
        (LONG, 7, b"\0\0\0\0\0\0\0\7"),
        (LONG, None, None),
    ],
)
def test_a_key(source, key, data):
    assert encode_written_key(source, key) == data
    assert encode_written_key(source, decode_written_key(source, data)) == data


@pytest.mark.parametrize(
    ("source", "value", "data"),
    [
        (JSON, {"s": "x", "more": [1]}, b'{"s":"x","more":[1]}'),
        (JSON, "no object", b'"no object"'),
        (JSON, {"s": "\ud800", "m": Decimal("1e999999999")}, b'{"s":"\\uD800","m":1E+999999999}'),
        (CSV, "x,1", b"x,1"),
        (CSV, {"s": "a,b"}, b'"a,b",'),
        (LONG, b"\xff", b"\xff"),
        (LONG, "/w==", b"\xff"),
        (LONG, {"v": b"\xff"}, b"\xff"),
        (JSON, None, None),
    ],
)
def test_a_value(source, value, data):
    assert encode_written_value(source, value) == data
    assert encode_written_value(source, decode_written_value(source, data)) == data


@pytest.mark.parametrize(
    ("source", "key", "said"),
    [
        (LONG, "7", "expected bigint, found '7'"),
        (LONG, True, "expected bigint"),
        (LONG, 1 << 70, "can't be written"),
        (JSON, "x", "expected an object of a, b"),
        (CSV, "a\ud800", "half of a surrogate pair"),
        (JSON, {"a": "x", "c": 1}, "found 'c', expected a, b"),
    ],
)
def test_a_key_that_cannot_be_written(source, key, said):
    with pytest.raises(Unfit, match=said):
        encode_written_key(source, key)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",  # no text
        b"no JSON",
        b'{"s": 1e5}',  # read as the text 100000.0; the number would be written as 100000
        b'{"s": "x"} {"s": "y"}',
        b'{"s": NaN}',  # read as the text "NaN", with quotes
    ],
)
def test_bytes_that_would_not_come_back_from_their_text(data):
    with pytest.raises(Unfit):
        decode_written_value(JSON, data)


def test_a_value_in_another_spelling_is_the_same_value():
    assert decode_written_value(JSON, b' {"s" : "x",\n "m": 1.50} ')["s"] == "x"


def test_a_number_that_is_none_has_a_text() -> None:
    """NaN equals nothing, itself included."""
    not_a_number = struct.pack(">d", math.nan)
    for format, data, written in (
        ("json", b'{"d":NaN}', b'{"d":"NaN"}'),
        ("json", b'{"d":"NaN"}', b'{"d":"NaN"}'),
        ("kafka", not_a_number, not_a_number),
    ):
        source = lh.stream("t", key="k string", schema="d double", format=format).source
        value = decode_written_value(source, data)
        assert encode_written_value(source, value) == written
        assert encode_written_value(source, json.loads(write_json(value))) == written
    nested = lh.stream("t", key="k double", schema="a array<struct<d: float>>", key_format="kafka").source
    value = decode_written_value(nested, b'{"a":[{"d":NaN},{"d":1}]}')
    assert encode_written_value(nested, value) == b'{"a":[{"d":"NaN"},{"d":1}]}'
    assert encode_written_key(nested, decode_written_key(nested, not_a_number)) == not_a_number


def test_a_number_that_no_double_holds_is_refused() -> None:
    source = lh.stream("t", key="k string", schema="d double", format="kafka").source
    for number in (10**400, -(10**400)):
        with pytest.raises(Unfit, match="can't be written"):
            encode_written_value(source, number)
