"""MongoDB's documents in a change log: Extended JSON in a text."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.formats.test_debezium import decoded, event, source


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ("bigint", '{"$numberLong": "9007199254740993"}', 9007199254740993),
        ("int", '{"$numberInt": "7"}', 7),
        ("decimal(10, 2)", '{"$numberDecimal": "12.5"}', Decimal("12.50")),
        ("decimal(10, 2)", '{"$numberDecimal": "NaN"}', "value: field x: expected decimal(10, 2), found NaN"),
        ("double", '{"$numberDecimal": "NaN"}', "nan"),
        ("double", '{"$numberDouble": "-Infinity"}', float("-inf")),
        ("string", '{"$oid": "65a"}', "65a"),
        ("timestamp", '{"$date": 1000}', datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("timestamp", '{"$date": {"$numberLong": "1000"}}', datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("timestamp", '{"$date": "1970-01-01T00:00:01Z"}', datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("binary", '{"$binary": {"base64": "AAH/", "subType": "00"}}', b"\x00\x01\xff"),
        ("binary", '{"$binary": "AAH/", "$type": "00"}', b"\x00\x01\xff"),
        ("string", '{"$undefined": true}', None),
        ("array<bigint>", '[{"$numberLong": "1"}, 2, null]', [1, 2, None]),
        ("struct<a: struct<b: int>>", '{"a": {"b": {"$numberInt": "7"}}}', {"a": {"b": 7}}),
        ("struct<n: int>", '{"n": {"$numberInt": [7]}}', "value: field x"),
        (
            "timestamp",
            '{"$date": {"$numberLong": "99999999999999999"}}',
            'value: field x: expected timestamp, found {"$date":{"$numberLong":"99999999999999999"}}',
        ),
        ("string", '{"$date": {"$numberLong": "99999999999999999"}}', '{"$date":{"$numberLong":"99999999999999999"}}'),
        ("decimal(10, 2)", '{"$numberDecimal": "1.005"}', "value: field x: expected decimal(10, 2) without a loss"),
        ("string", '{"$numberDecimal": "1.0050"}', "1.0050"),
        ("binary", '{"$type": "00", "$binary": "AAH/"}', b"\x00\x01\xff"),
        ("int", '{"$numberInt": "7"} x', "value: expected JSON"),
    ],
)
def test_documents(column: str, text: str, expected: Any) -> None:
    origin = source(f"x {column}", "id string", documents=True)
    row = decoded(origin, event() | {"after": f'{{"_id": 1, "x": {text}}}'})
    if isinstance(row, str):
        assert isinstance(expected, str)
        assert row.startswith(expected)
    else:
        assert row["x"] == expected or str(row["x"]) == expected


def test_a_field_that_nobody_reads_does_no_harm_to_a_document() -> None:
    origin = source("x int", "id string", documents=True)
    for other in ('{"$date": {"$numberLong": "253402300800000"}}', '{"$numberInt": [7]}', '{"$numberLong": null}'):
        assert decoded(origin, event() | {"after": f'{{"_id": 1, "x": 7, "other": {other}}}'})["x"] == 7


def test_keys_of_documents() -> None:
    origin = source("name string", "id string", documents=True)
    for id_text, expected in (('{"$oid": "65a"}', "65a"), ('"ann"', "ann"), ('{"$numberLong": "7"}', "7")):
        assert decoded(origin, None, {"id": id_text}) == {"id": expected}
    assert decoded(origin, event("u") | {"after": None}).startswith(
        "value: op u: expected the whole row in after, found none"
    )
    assert decoded(origin, event("d") | {"after": None}) is None
