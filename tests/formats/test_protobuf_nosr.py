"""Messages of Protobuf without a registry: by the .proto file of their producer; what else such bytes may be."""

from __future__ import annotations

import base64
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.decode import decode_columns, decode_record, reason_not_fitting
from lakehouse.formats.encode import encode_value
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import decode_written_key, decode_written_value, encode_written_value
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.plan.app import App
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.names.record_format import RecordFormat, parse_format
from lakehouse.plan.names.schema_options import SchemaOptions
from lakehouse.plan.origin import Source
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.run.repair.fixes import bytes_of_text
from lakehouse.semantics.record import Record
from lakehouse.testing import Replay

PROTO = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "google/type/date.proto";
import "google/type/decimal.proto"; import "confluent/type/decimal.proto"; import "parts/home.proto";
message Order {
  string city = 7; int64 n = 3; google.protobuf.Timestamp at = 4; google.type.Date day = 5; bytes raw = 6;
  google.type.Decimal cost = 8; confluent.type.Decimal total = 9; enum State { OPEN = 0; PAID = 1; } State state = 10;
  Home home = 11; repeated string tags = 12; map<string, Home> homes = 13; google.protobuf.Int32Value few = 14;
  double x = 15; uint64 wide = 16; repeated Other unread = 17;
}
message Other { string a = 1; }
"""
HOME = 'syntax = "proto3"; package shop; message Home { optional int32 zip = 2; }'
SCHEMA = (
    "city string, n bigint, at timestamp, day date, raw binary, cost decimal(8, 2), total decimal(12, 3), state "
    "string, home struct<zip: int>, tags array<string>, homes map<string, struct<zip: int>>, few int, x double, "
    "wide decimal(20, 0)"
)
ROW: dict[str, Any] = {
    "city": "Rome", "n": -(2**63), "at": datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC), "day": date(2026, 1, 31),
    "raw": b"\0\xff", "cost": Decimal("-0.05"), "total": Decimal("-128.000"), "state": "PAID", "home": {"zip": 7},
    "tags": ["a", "é"], "homes": {"h": {"zip": None}}, "few": 0, "x": float("-inf"), "wide": Decimal(2**64 - 1),
}  # fmt: skip


def application(folder: Path, text: str) -> Any:
    """Return what a file of an application in a folder declares as `app`."""
    file = folder / "app.py"
    file.write_text("import lakehouse as lh\n" + text)
    module = ModuleType("app")
    exec(compile(file.read_text(), str(file), "exec"), vars(module))
    return module.app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schemas = tmp_path / "schemas"
    (schemas / "orders-value/parts").mkdir(parents=True)
    (schemas / "orders-value.proto").write_text(PROTO)
    (schemas / "orders-value/parts/home.proto").write_text(HOME)
    (schemas / "orders-key.proto").write_text('syntax = "proto3"; message Key { int32 id = 2; }')
    return tmp_path


def source_of(folder: Path, schema: str = SCHEMA) -> Source:
    stream = f"lh.stream('orders', key='id int', schema={schema!r}, format='protobuf_nosr', key_format='protobuf_nosr')"
    app = application(folder, f"app = lh.app({stream}.latest('t'))")
    assert isinstance(app, App)
    return app.sources[0]


def record(value: bytes | None, key: bytes = b"\x10\x07") -> Record:
    return Record("orders", "id", 0, 0, 1, key, value, 1, 1)


def test_a_row_by_the_file(folder: Path) -> None:
    source = source_of(folder)
    data = encode_value(source.value_format, source.value, ROW)
    assert decode_record(source, record(data)) == DecodedRecord({"id": 7}, ROW)
    absent = decode_record(source, record(b""))
    assert isinstance(absent, DecodedRecord)
    assert absent.value is not None
    assert (absent.value["city"], absent.value["home"], absent.value["tags"], absent.value["few"]) == (
        "",
        None,
        [],
        None,
    )
    assert decode_record(source, record(None)) == DecodedRecord({"id": 7}, None)
    assert str(parse_format(source.value_format)) == source.value_format


MANY = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto"; import "google/type/date.proto";
import "google/type/decimal.proto"; import "confluent/type/decimal.proto"; import "google/protobuf/field_mask.proto";
message Row {
  google.protobuf.Timestamp at = 1; google.protobuf.Duration d = 2; google.protobuf.UInt64Value w = 3; uint64 u = 4;
  State e = 5; enum State { OPEN = 0; PAID = 1; } float f = 6; map<uint64, string> by_number = 7; int32 n = 8;
  map<bool, State> by_flag = 8888; map<string, google.type.Date> days = 9; repeated confluent.type.Decimal c = 10;
  google.type.Decimal g = 11; google.protobuf.FieldMask mask = 12; repeated google.protobuf.BytesValue b = 13; }"""


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at timestamp", datetime(1, 1, 1, tzinfo=UTC)),
        ("at timestamp", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("at struct<seconds: bigint, nanos: int>", {"seconds": -1, "nanos": 7}),
        ("d struct<seconds: bigint, nanos: int>", {"seconds": -5, "nanos": -7}),
        ("w decimal(20, 0)", Decimal(2**64 - 1)),
        ("w struct<value: decimal(20, 0)>", {"value": Decimal(0)}),
        ("u decimal(22, 2)", Decimal("3.00")),
        ("e string", "PAID"),
        ("e string", "7"),
        ("f float", float("-inf")),
        ("by_number array<struct<key: decimal(20, 0), value: string>>", [{"key": Decimal(5), "value": ""}]),
        ("by_flag array<struct<key: boolean, value: string>>", [{"key": True, "value": "PAID"}]),
        ("days map<string, date>", {"a": date(9999, 12, 31)}),
        ("c array<decimal(38, 10)>", [Decimal("-1234567890123456789012345678.0000000001"), Decimal("0E-10")]),
        ("g decimal(38, 10)", Decimal("-1234567890123456789012345678.0000000001")),
        ("mask struct<paths: array<string>>", {"paths": ["a_b", "cD"]}),
        ("b array<binary>", [b"", b"\xff"]),
    ],
)
def test_a_row_of_all_that_is_read_is_written(column: str, value: Any) -> None:
    columns = parse_schema(column, "test")
    row = {columns[0].name: value}
    data = encode_value(own_format(MANY), columns, row)
    assert decode_columns(own_format(MANY), columns, data) == row


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("u decimal(22, 2)", Decimal("3.50"), "field u: expected uint64, found 3.50"),
        ("u decimal(38, 0)", Decimal(10**37), "field u: "),
        ("u decimal(38, 2)", Decimal("-123456789012345678901234567890.25"), "field u: expected uint64, found -1234567"),
        ("n bigint", 2**31, "field n: "),
        ("e string", "GONE", "field e: "),
        ("b array<binary>", [None], "field b: found a null in an array or a map, which Protobuf can't hold"),
    ],
)
def test_a_value_that_the_message_cannot_hold_is_refused(column: str, value: Any, reason: str) -> None:
    columns = parse_schema(column, "test")
    with pytest.raises(Unfit, match=f"^{re.escape(reason)}"):
        encode_value(own_format(MANY), columns, {columns[0].name: value})


def own_format(text: str) -> str:
    """Return the format of messages by this schema."""
    schema = base64.b64encode(WriterSchema("PROTOBUF", text).proto_schema.files).decode()
    return str(RecordFormat("protobuf_nosr", options=str(SchemaOptions(schema=schema))))


def test_the_plan_does_not_depend_on_the_file_s_comments(folder: Path) -> None:
    source = source_of(folder)
    file = folder / "schemas/orders-value.proto"
    file.write_text("// of the shop\n" + file.read_text().replace("Order {", "Order {\n"))
    assert source_of(folder) == source


def test_what_else_bytes_may_be(folder: Path) -> None:
    source = source_of(folder)
    with_prefix = b"\0\0\0\0\x09\0\x3a\x01R"
    outcome = decode_record(source, record(with_prefix))
    assert isinstance(outcome, BadRecord)
    assert outcome.reason == (
        "value: expected a message shop.Order, found 9 bytes that are none (the byte 0 and then 9: a value in Protobuf "
        "with a registry's schema 9?)"
    )
    for data in (b"{}", b"\x3a\x05R", b"\x3a\x01\xff"):
        assert "expected a message shop.Order" in str(decode_record(source, record(data)))
    assert "at most 33,554,432 bytes" in str(
        reason_not_fitting("value", source.value_format, source.value, bytes(2**25 + 1))
    )
    # A column of another type is found at the first record.
    assert "field city: string, declared int" in str(decode_record(source_of(folder, "city int"), record(b"")))


def test_what_is_typed_is_in_protobuf_s_own_json(folder: Path) -> None:
    source = source_of(folder)
    assert bytes_of_text(source, "value", '{"city": "R", "n": "3"}') == b"\x18\x03\x3a\x01R"
    with pytest.raises(Unfit, match='no field named "town"'):
        codec_of(source.value_format).encode_typed('{"town": "R"}', source.value)


def test_what_was_read_is_written_as_people_write_it(folder: Path) -> None:
    source = source_of(folder)
    data = encode_value(source.value_format, source.value, ROW)
    written = decode_written_value(source, data)
    assert (written["city"], written["n"], written["home"], written["raw"]) == ("Rome", -(2**63), {"zip": 7}, "AP8=")
    again = encode_written_value(source, written)
    assert decode_record(source, record(again)) == DecodedRecord({"id": 7}, ROW)
    assert decode_written_key(source, b"\x10\x07") == 7


def test_tests_write_rows(folder: Path) -> None:
    value = folder / "schemas/orders-value.proto"
    value.write_text(
        PROTO.replace("google.type.Decimal cost", "string cost").replace("confluent.type.Decimal total = 9;", "")
    )
    text = "lh.stream('orders', format='protobuf_nosr', key_format='protobuf_nosr').drop('unread').latest('t')"
    replay = Replay(application(folder, f"app = lh.app({text})"))
    replay.send("orders", key=1, value={"city": "Rome", "cost": "1.5", "home": {"zip": 3}})
    replay.send("orders", key=2, value={"city": "Oslo"})
    replay.send("orders", key=2, value=None)
    (row,) = replay.run().rows("t")
    assert (row["id"], row["city"], row["home"]) == (1, "Rome", {"zip": 3})


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("", "its values are in protobuf_nosr, and there is no file .*schemas/orders-value.proto. Put the .proto file"),
        ("message {", "no schema of Protobuf: 1:9: Expected message name"),
        ('syntax = "proto3";', "expected the index of one of 0 messages"),
    ],
)
def test_files_that_say_nothing(tmp_path: Path, file: str, reason: str) -> None:
    (tmp_path / "schemas").mkdir()
    if file:
        (tmp_path / "schemas/orders-value.proto").write_text(file)
    with pytest.raises(PlanError, match=reason):
        application(tmp_path, "app = lh.stream('orders', key='id int', schema='city string', format='protobuf_nosr')")


def test_a_map_and_a_struct_beside_it_have_messages_of_their_own() -> None:
    """Protobuf names the entries of a map `tags` TagsEntry, as it would be for a struct `tags_entry`."""
    schema = "tags map<string, int>, tags_entry struct<n: int, in_map: map<string, int>, in_map_entry: struct<x: int>>"
    columns = parse_schema(schema, "test")
    row = {"tags": {"a": 1}, "tags_entry": {"n": 2, "in_map": {"b": 3}, "in_map_entry": {"x": 4}}}
    assert decode_columns("protobuf_nosr", columns, encode_value("protobuf_nosr", columns, row)) == row


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ("tags map<string, int>, TagsEntry int", "'tags' 'TagsEntry', which 'TagsEntry'"),
        ("s struct<tags: map<string, int>, _tags: map<string, int>>", "'_tags' 'TagsEntry', which 'tags'"),
        ("s struct<a: map<string, int>, AEntry: int>", "'a' 'AEntry', which 'AEntry'"),
    ],
)
def test_a_name_that_a_map_s_entries_have_is_refused(schema: str, names: str) -> None:
    stream = lh.stream("t", key="k string", schema=schema)
    with pytest.raises(PlanError, match=f"Protobuf names the entries of the map {names} has taken"):
        stream.to_topic("copy", format="protobuf_nosr")
    stream.to_topic("copy", format="avro")


@given(st.text(max_size=5), st.integers(-(2**31), 2**31 - 1), st.decimals(-999, 999, places=2), st.lists(st.booleans()))
def test_by_the_columns_order_what_is_written_is_read(city: str, n: int, cost: Decimal, flags: list[bool]) -> None:
    columns = lh.stream(
        "o", key="id int", schema="city string, n int, cost decimal(9, 2), flags array<boolean>"
    ).columns
    row = {"city": city, "n": n, "cost": cost, "flags": flags}
    data = encode_value("protobuf_nosr", columns[1:], row)
    assert data is not None
    assert codec_of("protobuf_nosr").decode(data, columns[1:]) == row
