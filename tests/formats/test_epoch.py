"""Formats in which moments are numbers, as ksqlDB writes them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from lakehouse.formats.codec.codec_choice import CODECS
from lakehouse.formats.decode import decode_columns, decode_key, written_schemas
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.semantics.key_value import key_value

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


STRUCT = "STRUCT<date: DATE, `Timestamp`: TIMESTAMP>"
VALUES: dict[str, Any] = {
    "BIGINT": 7, "DECIMAL(5, 1)": Decimal("1.5"), "DATE": DAY, "TIMESTAMP": MOMENT, "ARRAY<DATE>": [DAY],
    "MAP<STRING, TIMESTAMP>": {"a": MOMENT}, STRUCT: {"date": DAY, "Timestamp": MOMENT},
}  # fmt: skip
FORMATS_THAT_WRITE = [
    str(RecordFormat(kind, is_named=is_named, has_number_moments=has_number_moments))
    for kind in CODECS
    for is_named in (False, True)
    for has_number_moments in (False, True)
    if not kind.startswith(("debezium", "protobuf", "none")) and kind != "kafka"
    if not (has_number_moments and kind.startswith("avro"))  # its moments have types
]


@pytest.mark.parametrize("format", FORMATS_THAT_WRITE)
def test_a_format_reads_what_it_wrote_of_types_in_capitals(format: str) -> None:
    """The types of fields, as of a table that SQL declares, are in capitals."""
    items = list(VALUES.items())[: 4 if format.startswith("delimited") else None]
    columns = tuple(Column(f"last_x20_at{place}", type_text) for place, (type_text, _) in enumerate(items))
    for part in [(column,) for column in columns] if "bare" in format else [columns]:
        row = {column.name: VALUES[column.type] for column in part}
        value, key = encode_value(format, part, row), encode_key(format, part, row)
        assert decode_columns(format, part, value, written_schemas(format, part, is_key=False)) == row
        key_row = decode_key(format, part, key, written_schemas(format, part, is_key=True))
        assert key_row == {name: key_value(item) for name, item in row.items()}
