"""Formats in which moments are numbers, as ksqlDB writes them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from lakehouse.formats.decode import decode_columns
from lakehouse.formats.encode import encode_value
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column

MOMENT, DAY = datetime(1969, 12, 31, 23, 59, 59, 500_000, UTC), date(1970, 1, 4)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("timestamp", MOMENT, b"-500"),
        ("date", DAY, b"3"),
        ("date", None, b"null"),
        ("array<timestamp>", [MOMENT, None], b"[-500,null]"),
        ("map<string, date>", {"a": DAY}, b'{"a":3}'),
        ("struct<date: timestamp, b: struct<c: date>>", {"date": MOMENT, "b": {"c": DAY}},
         b'{"date":-500,"b":{"c":3}}'),
        ("struct<Date:timestamp,timestamp:string>", {"Date": MOMENT, "timestamp": "x"},
         b'{"Date":-500,"timestamp":"x"}'),
        ("string", "date", b'"date"'),
    ],
)  # fmt: skip
def test_json_is_read_as_it_was_written(kind: str, value: Any, text: bytes) -> None:
    columns = (Column("x", kind),)
    written = encode_value("json+epoch", columns, {"x": value})
    assert written == b'{"x":' + text + b"}"
    assert decode_columns("json+epoch", columns, written) == {"x": value}


def test_other_formats_have_numbers_too_and_a_tombstone_stays_one() -> None:
    columns = (Column("a", "timestamp"), Column("b", "date"))
    assert encode_value("delimited|+epoch", columns, {"a": MOMENT, "b": DAY}) == b'"-500"|3'
    assert decode_columns("delimited|+epoch", columns, b"-500|3") == {"a": MOMENT, "b": DAY}
    assert encode_value("json+epoch", columns, None) is None
    assert decode_columns("json+epoch", columns, None) is None


@pytest.mark.parametrize(("kind", "text"), [("timestamp", b"9223372036854775807"), ("date", b"2147483647")])
def test_a_number_beyond_the_calendar_does_not_fit(kind: str, text: bytes) -> None:
    with pytest.raises(Unfit, match="years 1 to 9999"):
        decode_columns("delimited+epoch", (Column("x", kind),), text)


def test_the_bounds_of_a_window_stay_text() -> None:
    columns = (Column("d", "date"), Column("window_start", "timestamp"))
    row = {"d": DAY, "window_start": MOMENT}
    written = encode_value("json+epoch", columns, row)
    assert written == b'{"d":3,"window_start":"1969-12-31T23:59:59.500Z"}'
    assert decode_columns("json+epoch", columns, written) == row
