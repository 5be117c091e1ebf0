"""Keys and values as their bytes tell them: in a format that somebody names, and in one that is guessed."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.errors import RegistryUnavailable
from lakehouse.formats.codec.registered import with_prefix
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.names.format_traits import traits_of
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.run.schemas.part_text import BYTES, GUESSED, TEXT_FORMATS, part_text, text_format

ORDER = {
    "type": "record", "name": "Order", "fields": [
        {"name": "city", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "rate", "type": ["null", "double"], "default": None},
    ],
}  # fmt: skip
MIXED = {"type": "record", "name": "Mixed", "fields": [{"name": "x", "type": ["string", "long"]}]}
SCHEMAS = {
    7: WriterSchema("AVRO", json.dumps(ORDER)),
    8: WriterSchema("AVRO", '"long"'),
    9: WriterSchema("AVRO", json.dumps(MIXED)),
    10: WriterSchema("PROTOBUF", 'syntax = "proto3";'),
    12: WriterSchema("AVRO", '"string"'),
    13: WriterSchema("JSON", '{"type": "integer"}'),
    11: WriterSchema("PROTOBUF", 'syntax = "proto3"; message A { int64 n = 1; message B { string city = 2; } }'),
}


def written(id: int, row: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, json.loads(SCHEMAS[id].text), row)
    return with_prefix(id, stream.getvalue())


def away(id: int) -> WriterSchema | None:
    raise RegistryUnavailable("it is away")


@pytest.mark.parametrize(
    ("format", "data", "text"),
    [
        ("json", b'{"a":\n\t1.50}', '{"a": 1.50}'),
        ("json", b'"two\\nlines"', '"two\\nlines"'),
        ("json_sr", with_prefix(3, b'{"a": 1}'), '{"a": 1}'),
        ("protobuf", with_prefix(11, b"\0\x08\x07"), '{"n": "7"}'),
        ("protobuf", with_prefix(11, b"\x04\0\0\x12\x02\xc3\xa9"), '{"city": "é"}'),
        ("string", "Zürich\nNord".encode(), "Zürich\nNord"),
        ("int", b"\xff\xff\xff\xfe", "-2"),
        ("bigint", b"\0" * 7 + b"\7", "7"),
        ("double", b"\x7f\xf8\0\0\0\0\0\0", '"NaN"'),
        ("bytes", b"a\\\0\xc3\xa9\n", "a\\\\\\x00\\xc3\\xa9\\n"),
        (
            "avro",
            written(7, {"city": "Rome", "amount": Decimal("12.50")}),
            '{"city":"Rome","amount":12.50,"rate":null}',
        ),
        ("avro", written(8, 5), "5"),
    ],
)
def test_a_named_format(format: str, data: bytes, text: str) -> None:
    shown = part_text(format, data, SCHEMAS.get)
    assert (shown.text, shown.format, shown.reason) == (text, format, "")
    if shown.is_json:
        json.loads(shown.text)


@pytest.mark.parametrize(
    ("format", "data", "reason"),
    [
        ("json", b"{", "not json: expected JSON: "),
        ("json", b'{"a": NaN}', "not json: expected JSON, found NaN"),
        ("json", b"\xff", "not json: expected UTF-8, found byte 0xff"),
        ("json", b"[" * 5000, "not json: "),
        ("json_sr", b'{"a": 1}', "not json_sr: expected the byte 0, .*: it looks like JSON"),
        ("int", b"123", "not int: expected 4 bytes"),
        ("avro", b"\0\0\0\0\x63x", "not avro: the registry has no schema 99"),
        ("avro", b"\0\0\0\0\7\xff", "not avro: schema 7: "),
        ("avro", with_prefix(9, b"\2\2"), "not avro: .*'x': union of string, long is no type of a column"),
        (
            "protobuf",
            with_prefix(10, b"\0"),
            "not protobuf: schema 10: expected the index of one of 0 messages, found 0",
        ),
        ("protobuf", with_prefix(11, b"\0\xff"), "not protobuf: message A: "),
        ("protobuf", with_prefix(8, b"\0"), "not protobuf: schema 8: expected a schema of Protobuf, found one of AVRO"),
        ("avro", with_prefix(10, b"\0"), "not avro: schema 10: expected a schema of Avro, found one of PROTOBUF"),
    ],
)
def test_bytes_that_do_not_fit_are_escaped_with_the_reason(format: str, data: bytes, reason: str) -> None:
    shown = part_text(format, data, SCHEMAS.get)
    assert shown.format == BYTES
    assert re.match(reason, shown.reason), shown.reason


@pytest.mark.parametrize(
    ("data", "format", "text"),
    [
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b"12", "json", "12"),
        (b"Rome, north", "string", "Rome, north"),
        (b"", "string", ""),
        (b"\0\0\0A", "bytes", "\\x00\\x00\\x00A"),
        (b"a\x1b[2J", "bytes", "a\\x1b[2J"),
        (with_prefix(5, b' {"a": 1}'), "json_sr", '{"a": 1}'),
        (written(8, 5), "avro", "5"),
        (written(8, -25), "avro", "-25"),  # one byte, the character 1
        (written(12, "12345"), "avro", '"12345"'),  # its length is a line break
        (with_prefix(13, b"7"), "json_sr", "7"),
        (with_prefix(13, b"\2x"), "bytes", r"\x00\x00\x00\x00\r\x02x"),
        (with_prefix(11, b"\0\x08\x07"), "protobuf", '{"n": "7"}'),
    ],
)
def test_a_guess(data: bytes, format: str, text: str) -> None:
    shown = part_text(GUESSED, data, SCHEMAS.get)
    assert (shown.format, shown.text) == (format, text)


def test_a_registry_that_is_away_matters_only_to_who_names_the_format() -> None:
    data = written(8, 5)
    with pytest.raises(RegistryUnavailable):
        part_text("avro", data, away)
    assert part_text(GUESSED, data, away).reason == "not avro: it is away"


@given(st.binary(max_size=40), st.sampled_from(["", *TEXT_FORMATS]))
def test_any_bytes_have_a_text(data: bytes, format: str) -> None:
    shown = part_text(format, data, SCHEMAS.get)
    shown.text.encode()
    if shown.is_json:
        json.loads(shown.text, parse_constant=pytest.fail)
        assert "\n" not in shown.text


@pytest.mark.parametrize(
    ("kind", "type", "format"),
    [
        ("json_any_case", "int", "json"), ("debezium", "int", "json"), ("debezium_avro", "int", "avro"),
        ("avro_bare", "int", "avro"), ("json_sr_bare", "int", "json_sr"), ("delimited", "int", "string"),
        ("protobuf_any_case", "int", "protobuf"),
        ("kafka", "bigint", "bigint"), ("kafka", "string", "string"), ("kafka", "binary", "bytes"), ("none", "int", ""),
    ],
)  # fmt: skip
def test_a_declared_format_shows_itself(kind: str, type: str, format: str) -> None:
    assert text_format(traits_of(kind), (Column("c", type),)) == format
