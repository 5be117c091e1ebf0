"""Delimited text: one line, commas, double quotes; an empty field is null."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.formats.codec.delimited import decode_line, encode_line
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column

COLUMNS = (Column("s", "string"), Column("n", "int"), Column("m", "decimal(6, 2)"))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"Paris,1,2.5", {"s": "Paris", "n": 1, "m": Decimal("2.50")}),
        (b"Paris,1,2.5\r\n", {"s": "Paris", "n": 1, "m": Decimal("2.50")}),
        (b'"Rio, ""RJ""", -7 ,', {"s": 'Rio, "RJ"', "n": -7, "m": None}),
        (b'"two\nlines",,', {"s": "two\nlines", "n": None, "m": None}),
        (b'"",,', {"s": None, "n": None, "m": None}),
        (b" x ,,", {"s": " x ", "n": None, "m": None}),
        (b",,9999.994", {"s": None, "n": None, "m": Decimal("9999.99")}),
        (b"x" * 200_000 + b",,", {"s": "x" * 200_000, "n": None, "m": None}),
    ],
)
def test_lines(line: bytes, expected: dict[str, Any]) -> None:
    assert decode_line(line, COLUMNS) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "expected 3 fields, found 1"),
        (b"a,1", "expected 3 fields, found 2 in 'a,1'"),
        (b"a,1,2,3", "expected 3 fields, found 4"),
        (b"a,1,2\nb,2,3", "expected one line of CSV|expected 3 fields"),
        (b'"a,1,2', "expected one line of CSV"),
        (b'"a"b,1,2', "expected one line of CSV"),
        (b"\xff,1,2", "expected UTF-8, found byte 0xff at 0"),
        (b"a,one,2", "field n: expected int, found 'one'"),
        (b"a, ,2", "field n: expected int"),
        (b"a,1.0,2", "field n: expected int"),
        (b"a,1_0,2", "field n: expected int"),
        (b"a,2147483648,2", "field n: expected int"),
        (b"a,1,9999.995", r"field m: expected decimal\(6, 2\)"),
        (b'a,1,"1,5"', r"field m: expected decimal\(6, 2\)"),
    ],
)
def test_bad_lines(line: bytes, reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        decode_line(line, COLUMNS)


# Python's strip takes all of these off, and its int() only some.
BLANKS = [*map(chr, range(33)), *"\x7f\x85\xa0\u1680\u2003\u2028\u202f\u3000\ufeff\u200b\u0661\uff11\xb2"]


@pytest.mark.parametrize("kind", ["int", "double", "float", "decimal(5, 2)", "boolean", "timestamp", "date", "binary"])
def test_a_value_with_any_character_beside_it_is_read_or_has_a_reason(kind: str) -> None:
    for blank in BLANKS:
        for value in ("1", "-1.5", "true", "2026-01-01", "2026-01-01T00:00:00Z", "YWI=", "NaN", ""):
            for text in (value + blank, blank + value, value[:1] + blank + value[1:]):
                with contextlib.suppress(Unfit):
                    decode_line(text.encode(), (Column("x", kind),))
    if kind == "int":
        assert decode_line(b"1\x1c", (Column("x", kind),)) == {"x": 1}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("boolean", "TRUE", True), ("boolean", "false", False), ("double", "1e3", 1000.0),
        ("double", "-Infinity", float("-inf")),
        ("float", "0.1", 0.10000000149011612), ("bigint", "+9223372036854775807", 2**63 - 1),
        ("binary", "AP8=", b"\x00\xff"),
        ("date", "2020-02-29", date(2020, 2, 29)),
        ("timestamp", "2020-01-01 10:00:00", datetime(2020, 1, 1, 10, tzinfo=UTC)),
        ("timestamp", "2020-01-01T10:00:00+01:00", datetime(2020, 1, 1, 9, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_types(kind: str, text: str, expected: Any) -> None:
    assert decode_line(text.encode(), (Column("a", kind),)) == {"a": expected}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("boolean", "yes"),
        ("double", "1.5x"),
        ("double", "1_0"),
        ("timestamp", "1577836800"),
        ("date", "1/2/2020"),
        ("binary", "?"),
    ],
)
def test_types_that_do_not_fit(kind: str, text: str) -> None:
    with pytest.raises(Unfit, match="field a: expected"):
        decode_line(text.encode(), (Column("a", kind),))


def test_an_empty_line_is_one_empty_field() -> None:
    one = (Column("s", "string"),)
    assert decode_line(b"", one) == {"s": None}
    assert encode_line({"s": None}, one) == b""


ALL = (
    Column("s", "string"), Column("n", "bigint"), Column("d", "double"), Column("m", "decimal(20, 5)"),
    Column("b", "boolean"),
    Column("t", "timestamp"), Column("day", "date"), Column("raw", "binary"),
)  # fmt: skip
ROWS = st.fixed_dictionaries(
    {
        # An empty text is written like a null.
        "s": st.none() | st.text(st.characters(codec="utf-8"), min_size=1),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "d": st.none() | st.floats(allow_nan=False),
        "m": st.none() | st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-5)),
        "b": st.none() | st.booleans(),
        "t": st.none() | st.datetimes(timezones=st.just(UTC)),
        "day": st.none() | st.dates(),
        "raw": st.none() | st.binary(min_size=1),
    }
)


@given(ROWS)
def test_what_is_written_is_read_again(row: dict[str, Any]) -> None:
    assert decode_line(encode_line(row, ALL), ALL) == row


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_text_alone_on_its_line_is_read_again(text: str) -> None:
    one = (Column("s", "string"),)
    assert decode_line(encode_line({"s": text}, one), one) == {"s": text}


def test_nested_values_have_no_delimited_form() -> None:
    with pytest.raises(TypeError, match="no delimited form"):
        encode_line({"s": [1]}, (Column("s", "array<int>"),))
