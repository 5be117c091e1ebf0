"""Protobuf: which types fit, the values that come out, and the reason where none do."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.json_format import ParseDict

import lakehouse as lh
from lakehouse.errors import ConfigError, PlanError
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import WriterSchemas, with_prefix
from lakehouse.formats.protobuf.proto_arrow import ArrowReader, NotQuick
from lakehouse.formats.protobuf.proto_indexes import read_indexes
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.avro.schema_text import schema_text
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.names.schema_options import parse_schema_options
from lakehouse.plan.protobuf import protoc
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.writer_schema import WriterSchema

IMPORTS = (
    "google/protobuf/timestamp.proto", "google/protobuf/duration.proto", "google/protobuf/wrappers.proto",
    "google/type/date.proto", "google/type/decimal.proto", "confluent/type/decimal.proto", "confluent/meta.proto",
)  # fmt: skip
HEAD = 'syntax = "proto3"; package shop;' + "".join(f'import "{file}";' for file in IMPORTS)
ENUM = "enum State { OPEN = 0; PAID = 1; DONE = 1; option allow_alias = true; }"


def writer_schema(text: str, **imported: str) -> WriterSchema:
    return WriterSchema("PROTOBUF", text, tuple(imported.values()), tuple(f"{name}.proto" for name in imported))


def row_schema(fields: str) -> WriterSchema:
    return writer_schema(f"{HEAD} message Row {{ {fields} {ENUM} }}")


def message_bytes(schema: WriterSchema, values: dict[str, Any], name: str = "shop.Row") -> bytes:
    """Return a message as Google's library writes it."""
    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.proto_schema.files).file:
        pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    return ParseDict(values, message).SerializeToString()


def read(schema: WriterSchema, data: bytes, columns: str, format: str = "protobuf", indexes: bytes = b"\0") -> Any:
    codec = codec_of(format).with_schemas(WriterSchemas({7: schema}))
    return codec.decode(with_prefix(7, indexes + data), parse_schema(columns, "test"))


@pytest.mark.parametrize(
    ("field", "column", "value", "expected"),
    [
        ("int32 a = 1;", "int", -5, -5),
        ("sint64 a = 1;", "tinyint", -128, -128),
        ("fixed32 a = 1;", "bigint", 2**32 - 1, 2**32 - 1),
        ("uint64 a = 1;", "decimal(20, 0)", str(2**64 - 1), Decimal(2**64 - 1)),
        ("uint64 a = 1;", "bigint", "7", 7),
        ("int32 a = 1;", "decimal(12, 2)", 7, Decimal("7.00")),
        ("int32 a = 1;", "double", 7, 7.0),
        ("float a = 1;", "double", 0.5, 0.5),
        ("double a = 1;", "double", "-Infinity", float("-inf")),
        ("bool a = 1;", "boolean", True, True),
        ("string a = 1;", "string", "é\0", "é\0"),
        ("bytes a = 1;", "binary", base64.b64encode(b"\0\xff").decode(), b"\0\xff"),
        ("State a = 1;", "string", "DONE", "PAID"),
        ("State a = 1;", "string", 77, "77"),
        ("repeated State a = 1;", "array<string>", [1, 0], ["PAID", "OPEN"]),
        ("google.protobuf.Timestamp a = 1;", "timestamp", "1969-12-31T23:59:59.999999999Z",
         datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("google.protobuf.Timestamp a = 1;", "struct<nanos: int>", "2026-01-01T00:00:00.000000001Z", {"nanos": 1}),
        ("google.protobuf.Duration a = 1;", "struct<seconds: bigint, nanos: int>", "3.5s",
         {"seconds": 3, "nanos": 500_000_000}),
        ("google.protobuf.StringValue a = 1;", "string", "", ""),
        ("repeated google.protobuf.Int64Value a = 1;", "array<bigint>", ["1", "0"], [1, 0]),
        ("google.type.Date a = 1;", "date", {"year": 2024, "month": 2, "day": 29}, date(2024, 2, 29)),
        ("google.type.Decimal a = 1;", "decimal(9, 2)", {"value": "-12.5"}, Decimal("-12.50")),
        ("google.type.Decimal a = 1;", "decimal(9, 2)", {"value": ""}, Decimal("0.00")),
        ("google.type.Decimal a = 1;", "decimal(9, 2)", {}, Decimal("0.00")),
        ("confluent.type.Decimal a = 1;", "decimal(9, 2)", {"value": "//8=", "scale": 2}, Decimal("-0.01")),
        ("map<string, google.type.Decimal> a = 1;", "map<string, decimal(4, 1)>", {"x": {"value": "1"}},
         {"x": Decimal("1.0")}),
        ("map<int32, string> a = 1;", "array<struct<key: int, value: string>>", {"5": ""}, [{"key": 5, "value": ""}]),
        ("message In { int32 x = 1; Row deep = 2; } In a = 1;", "struct<x: int, deep: struct<a: struct<x: int>>>",
         {"deep": {"a": {"x": 3}}}, {"x": 0, "deep": {"a": {"x": 3}}}),
    ],
)  # fmt: skip
def test_values(field: str, column: str, value: Any, expected: Any) -> None:
    schema = row_schema(f"{field} string unread = 99;")
    assert read(schema, message_bytes(schema, {"a": value, "unread": "u"}), f"a {column}") == {"a": expected}


def test_what_is_absent() -> None:
    fields = "int32 a = 1; optional int32 b = 2; repeated int32 c = 3; map<string, int32> d = 4; State e = 5; "
    fields += "google.protobuf.Int32Value f = 6; google.type.Date g = 7; oneof one { string h = 8; string i = 9; }"
    columns = "a int, b int, c array<int>, d map<string, int>, e string, f int, g date, h string, other int"
    expected = {"a": 0, "b": None, "c": [], "d": {}, "e": "OPEN", "f": None, "g": None, "h": None, "other": None}
    assert read(row_schema(fields), b"", columns) == expected
    # Of a oneof the last one counts, also where nobody reads it.
    assert read(row_schema(fields), b"\x42\x01x\x4a\x01y", columns) == expected
    assert read(row_schema(fields), b"\x4a\x01y\x42\x01x", columns) == {**expected, "h": "x"}
    old = writer_schema('syntax = "proto2"; message Row { required int32 a = 1; optional int32 b = 2 [default = 5]; }')
    assert read(old, b"", "a int, b int") == {"a": None, "b": None}
    # An entry of a map has defaults, in proto2, too.
    old = writer_schema('syntax = "proto2"; message Row { map<int32, string> a = 1; }')
    assert read(old, b"\x0a\x00", "a array<struct<key: int, value: string>>") == {"a": [{"key": 0, "value": ""}]}


@pytest.mark.parametrize(
    ("field", "column", "reason"),
    [
        ("int32 a = 1;", "string", "int32, declared string"),
        ("int64 a = 1;", "decimal(18, 0)", "int64, declared decimal(18, 0)"),
        ("int64 a = 1;", "double", "int64, declared double"),
        ("double a = 1;", "float", "double, declared float"),
        ("State a = 1;", "int", "enum shop.Row.State, declared int"),
        ("repeated int32 a = 1;", "int", "repeated int32, declared int"),
        ("int32 a = 1;", "array<int>", None),
        ("map<int32, string> a = 1;", "map<string, string>", "map of int32 to string, declared map<string, string>"),
        ("google.protobuf.Timestamp a = 1;", "bigint", "google.protobuf.Timestamp, declared bigint"),
        ("google.protobuf.Duration a = 1;", "bigint", "it is a struct<seconds: bigint, nanos: int>"),
        ("Row a = 1;", "string", "shop.Row, declared string"),
    ],
)
def test_types_that_do_not_fit(field: str, column: str, reason: str | None) -> None:
    schema, columns = row_schema(field), parse_schema(f"a {column}", "test")
    problem = codec_of("protobuf").schema_problem(schema, columns, is_key=False)
    assert problem is not None
    assert problem.startswith("field a: ")
    assert (reason or "declared") in problem
    with pytest.raises(Unfit, match="schema 7: field a: "):
        read(schema, b"", f"a {column}")


@pytest.mark.parametrize(
    ("field", "column", "value", "reason"),
    [
        ("int64 a = 1;", "int", str(2**31), "field a: expected int, found 2147483648"),
        ("google.type.Date a = 1;", "date", {"year": 2026}, "field a: expected date with a year, .* found 2026-0-0"),
        ("google.type.Decimal a = 1;", "decimal(3, 1)", {"value": "1.25"}, "expected decimal.* without a loss"),
        ("google.type.Decimal a = 1;", "decimal(3, 1)", {"value": "1e999999999"}, "expected decimal"),
        ("google.type.Decimal a = 1;", "decimal(3, 1)", {"value": "x"}, "expected decimal"),
        ("confluent.type.Decimal a = 1;", "decimal(3, 1)", {"value": "AQ==", "scale": 2**31 - 1}, "scale of a decimal"),
        ("message T { int64 seconds = 1; int32 nanos = 2; } google.protobuf.Timestamp a = 1;", "timestamp", None, ""),
    ],
)
def test_values_that_do_not_fit(field: str, column: str, value: Any, reason: str) -> None:
    schema = row_schema(field)
    if value is None:  # a year 300000, and nanoseconds below zero: Google's library would not write them
        for data in (b"\x08\x80\xc0\xca\xf3\xff\xff\x00", b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
            with pytest.raises(Unfit, match=r"field a: expected timestamp in the years 1 to 9999, found"):
                read(schema, b"\x0a" + bytes([len(data)]) + data, f"a {column}")
        return
    with pytest.raises(Unfit, match=reason):
        read(schema, message_bytes(schema, {"a": value}), f"a {column}")


def test_bytes_that_are_no_message() -> None:
    schema = row_schema("string a = 1; repeated fixed32 b = 2;")
    for data in (b"\x0a", b"\x0a\x05ab", b"\x0a\x01\xff", b"\x00", b"\x12\x03abc", b"\x07", b"\xff" * 11, b"\x0b"):
        with pytest.raises(Unfit, match=r"schema 7: expected a message shop\.Row, found"):
            read(schema, data, "a string, b array<bigint>")
    # A field of another kind is an unknown one, as for all readers of Protobuf; and nobody looks into one that is not
    # read.
    assert read(schema, b"\x08\x01", "a string") == {"a": ""}
    assert read(schema, b"\x0a\x01\xff", "b array<bigint>") == {"b": []}


NESTED = """syntax = "proto3";
message A { message B { int32 n = 2; } map<string, int32> m = 1; message C { message D { int32 n = 3; } } }
message E { int32 n = 4; }
"""


@pytest.mark.parametrize(
    ("indexes", "number"), [((0,), 0), ((1,), 4), ((0, 0), 2), ((0, 1), None), ((0, 1, 0), 3), ((0, 2, 0), None)]
)
def test_indexes_of_messages(indexes: tuple[int, ...], number: int | None) -> None:
    """In a text, as Java counts, a map is no message; in a compiled file, as Python counts, its entry is one."""
    text = writer_schema(NESTED)
    file = FileDescriptorSet.FromString(text.proto_schema.files).file[-1]
    compiled = writer_schema(base64.b64encode(file.SerializeToString()).decode())
    written = b"".join(bytes([2 * n]) for n in (len(indexes), *indexes))
    assert read_indexes(written, 0) == (indexes, len(written))
    data = b"" if number is None else bytes([number << 3, 9])
    outcomes = []
    for schema, places in ((text, indexes), (compiled, (0, 2, 0) if indexes == (0, 1, 0) else indexes)):
        own_indexes = b"".join(bytes([2 * n]) for n in (len(places), *places))
        try:
            outcomes.append(read(schema, data, "n int", indexes=own_indexes)["n"])
        except Unfit as error:
            outcomes.append(str(error))
    if indexes == (0, 2, 0):
        assert "expected the index of one of 2 messages, found 2" in outcomes[0]
    else:
        assert outcomes[0] == {0: None, None: None}.get(number, 9)


def test_wrong_indexes() -> None:
    schema = row_schema("int32 a = 1;")
    for indexes in (b"", b"\x02", b"\x01", b"\xff\xff\xff\xff\x0f", b"\x02\x02", b"\x02\x01", b"\xfe\xff\xff\x0f\0"):
        with pytest.raises(Unfit, match="schema 7: "):
            read(schema, b"", "a int", indexes=indexes)


def test_names_in_any_case() -> None:
    schema = row_schema("int32 orderId = 1; message In { string Zip = 1; } In home = 2;")
    data = message_bytes(schema, {"orderId": 5, "home": {"Zip": "z"}})
    expected = {"ORDERID": 5, "HOME": {"ZIP": "z"}}
    assert read(schema, data, "ORDERID int, HOME struct<ZIP: string>", "protobuf_any_case") == expected
    assert read(schema, data, "ORDERID int, orderId2 int from 'orderId'") == {"ORDERID": None, "orderId2": None}
    twice = row_schema("int32 ab = 1; int32 AB = 2;")
    with pytest.raises(Unfit, match="expected one field Ab, found ab, AB: spell the column as one of them"):
        read(twice, b"", "Ab int", "protobuf_any_case")
    assert read(twice, message_bytes(twice, {"ab": 1, "AB": 2}), "AB int", "protobuf_any_case") == {"AB": 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected the index of one of 0 messages"),
        ("message {", "no schema of Protobuf: 1:9: Expected message name"),
        ('syntax = "proto3"; import "../../etc/passwd"; message A {}', "not allowed in the virtual path"),
        ('syntax = "proto3"; import "other.proto"; message A {}', r"other\.proto: File not found"),
        ('edition = "2023"; message A { int32 a = 1; }', "is of a file with editions, which is not read"),
        ('syntax = "proto2"; message A { optional group B = 1 { optional int32 c = 1; } }', "a group is no type"),
        ('syntax = "proto3"; message A { repeated A a = 1; }', "field a: 'A' is a part of itself"),
        ("AAAA", "found other base64"),
        (base64.b64encode(b"\x0a\x01x\x1a\x01y").decode(), "'y' is imported, and is not there"),
        (base64.b64encode(b"\x0a\x01x\x1a\x02-o").decode(), "'-o' is no name of a file"),
    ],
)
def test_schemas_that_give_no_columns(text: str, reason: str) -> None:
    with pytest.raises(UnfitSchema, match=reason):
        _ = writer_schema(text).row_type


def test_half_of_a_surrogate_pair_in_a_text_is_compiled_as_a_question_mark() -> None:
    schema = WriterSchema("PROTOBUF", 'syntax = "proto3"; // \ud800\nmessage Row { int32 a = 1; }')
    assert read(schema, b"\x08\x07", "a int") == {"a": 7}


def test_imported_files_cannot_name_others() -> None:
    for name in ("../x", "/etc/x", "-I/etc", "@x", "a\0b", "a//b", "a\\b", ""):
        with pytest.raises(UnfitSchema, match="is no name of a file that can be imported"):
            protoc.compile_proto('syntax = "proto3"; message A {}', {name: "message B {}"})


def test_a_field_that_is_not_read_may_be_anything() -> None:
    schema = writer_schema(
        'syntax = "proto2"; message Row { optional Row again = 1; optional group B = 2 { optional int32 c = 1; } '
        "optional int32 a = 3; extensions 100 to 200; }"
    )
    assert read(schema, b"\x0a\x00\x13\x08\x01\x14\x18\x07\xa2\x06\x01x", "a int") == {"a": 7}
    with pytest.raises(Unfit, match=r"field b: Row\.B, declared int"):
        read(schema, b"", "b int")


def test_columns_of_a_message() -> None:
    fields = "int32 a = 1; uint32 b = 2; uint64 c = 3; State d = 4; repeated string e = 5; map<string, In> f = 6; "
    fields += "message In { google.protobuf.Timestamp at = 1; google.type.Date on = 2; } "
    fields += "google.protobuf.BoolValue g = 7; "
    fields += "map<int64, float> h = 8; google.protobuf.Duration i = 9;"
    assert schema_text(row_schema(fields).row_type, "test") == (
        "a int, b bigint, c decimal(20, 0), d string, e array<string>, "
        "f map<string, struct<`at`: timestamp, `on`: date>>, g boolean, "
        "h array<struct<`key`: bigint, `value`: float>>, i struct<`seconds`: bigint, `nanos`: int>"
    )


def test_imports_in_both_forms() -> None:
    text = 'syntax = "proto3"; import "x.proto"; import "google/type/date.proto"; message A { X x = 1; '
    text += "google.type.Date d = 2; }"
    own = writer_schema(text, x='syntax = "proto3"; message X { int32 n = 1; }')
    files = {file.name: file for file in FileDescriptorSet.FromString(own.proto_schema.files).file}
    compiled = {
        name: base64.b64encode(file.SerializeToString()).decode() for name, file in files.items() if "/" not in name
    }
    forms = (compiled.pop("x.proto"), own.references[0])
    (compiled_text,) = compiled.values()
    for main in (compiled_text, text):
        for imported in forms:
            assert writer_schema(main, x=imported).row_type == own.row_type


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "grpc_tools", None)
    with pytest.raises(ConfigError, match=r"Found no Protobuf in this Python \(grpc_tools is missing\).*lakehouse\[pr"):
        protoc.compile_proto('syntax = "proto3"; message OfNobody {}', {})


def test_a_typed_value_is_written_by_the_newest_schema_that_fits() -> None:
    first, second = row_schema("string a = 1;"), row_schema("int32 a = 1; google.protobuf.Timestamp at = 2;")
    codec = codec_of("protobuf").with_schemas(WriterSchemas({3: first, 9: second}))
    text, columns = '{"a": "x"}', parse_schema("a string", "test")
    assert codec.encode_typed(text, columns) == with_prefix(3, b"\0\x0a\x01x")
    at = codec.encode_typed('{"a": 5, "at": "1970-01-01T00:00:01Z"}', parse_schema("a int", "test"))
    assert at == with_prefix(9, b"\0\x08\x05\x12\x02\x08\x01")
    for bad, reason in (('{"a": 1}', "schema 9: field a: int32, declared string"), ("{", "schema 9: field a: int32")):
        with pytest.raises(Unfit, match=reason):
            codec.encode_typed(bad, columns)
    with pytest.raises(Unfit, match=r"schema 3: message shop\.Row: "):
        codec_of("protobuf").with_schemas(WriterSchemas({3: first})).encode_typed("[" * 5000, columns)


def numbers(latest: WriterSchema, columns: str) -> str:
    options = codec_of("protobuf").options_after(latest, parse_schema(columns, "test"))
    return parse_schema_options(str(options)).numbers


def test_a_field_keeps_its_number_by_its_name() -> None:
    latest = row_schema(
        "int32 a = 1; Home b = 7; message Home { string x = 3; string y = 1; } reserved 9 to 11; int32 c = 8;"
    )
    assert (
        numbers(latest, "a int, b struct<y: string, z: int>, d int")
        == "a:1,b:7,d:12,#:8,#:9-11,#:c,b.y:1,b.z:4,b.#:3,b.#:x"
    )
    assert numbers(row_schema("int32 a = 1; int32 b = 2;"), "a int, b int, c int") == ""
    assert numbers(row_schema('reserved 1; reserved "old";'), "old int") == "old:2,#:1"
    assert numbers(row_schema("int32 a = 18999;"), "a int, b int") == "a:18999,b:20000"
    assert numbers(row_schema("repeated H r = 1; message H { int32 k = 5; } map<string, H> m = 2;"),
                   "r array<struct<k: int>>, m map<string, struct<k: int, l: int>>") == "r.k:5,m.k:5,m.l:6"  # fmt: skip
    with pytest.raises(PlanError, match="no number is left for a new field"):
        numbers(row_schema("int32 a = 536870911;"), "a int, b int")
    assert numbers(writer_schema("nonsense"), "a int") == ""


def test_what_is_written_after_a_schema_is_read_by_both() -> None:
    latest = row_schema("optional int32 gone = 1; optional string kept = 5;")
    columns = parse_schema("kept string, more struct<at: timestamp>", "test")
    options = codec_of("protobuf").options_after(latest, columns)
    codec = codec_of(f"protobuf?{options}")
    (own,) = codec.declared_schemas(columns, is_key=False).values()
    assert 'reserved 1;\n  reserved "gone";\n  optional string kept = 5;\n  .lakehouse.row.More more = 6;' in own.text
    row = {"kept": "k", "more": {"at": datetime(2026, 1, 1, tzinfo=UTC)}}
    data = codec.encode(row, columns)
    assert data is not None
    assert read(own, data[6:], "kept string, more struct<at: timestamp>") == row
    assert read(latest, data[6:], "gone int, kept string") == {"gone": None, "kept": "k"}
    assert numbers(own, "kept string, more struct<at: timestamp>, gone int") == "kept:5,more:6,gone:7,#:1"


def test_what_can_not_be_written() -> None:
    for column, value, reason in (
        ("array<string>", ["a", None], "field a: found a null in an array or a map"),
        ("map<string, int>", {"a": None}, "field a: found a null in an array or a map"),
        ("struct<b: array<int>>", {"b": [None]}, "field a: field b: found a null"),
        ("string", "\ud800", "field a: "),
    ):
        with pytest.raises(Unfit, match=reason):
            codec_of("protobuf").encode({"a": value}, parse_schema(f"a {column}", "test"))
    (column,) = parse_schema("a array<struct<value: string>>", "test")
    kept = {"a": [{"value": None}, {"value": ""}]}
    codec = codec_of("protobuf_nosr")
    assert codec.decode(codec.encode(kept, (column,)) or b"", (column,)) == kept, "a null in a struct stays one"
    lists = lh.stream("t", key="k string", schema="a array<map<string, int>>")
    with pytest.raises(PlanError, match=r"column 'a': Protobuf has no map in an array\. Put it into a struct"):
        lists.select("a").to_topic("copy", format="protobuf")


@pytest.mark.parametrize("columns", ["total_1 int, total1 int", "s struct<a_b: int, aB: int>"])
@pytest.mark.parametrize("format", ["protobuf", "protobuf_nosr"])
def test_names_that_no_message_may_have_beside_each_other_are_refused(format: str, columns: str) -> None:
    stream = lh.stream("t", key="k string", schema=columns)
    with pytest.raises(PlanError, match=r"'(total_1|a_b)' and '(total1|aB)' have the same name in Protobuf's JSON"):
        stream.to_topic("copy", format=format)
    stream.to_topic("copy", format="avro")
    accepted = "ab int, a_b int"
    lh.stream("t", key="k string", schema=accepted).to_topic("copy", format=format)
    row, codec = {"ab": 1, "a_b": 2}, codec_of("protobuf_nosr")
    assert codec.decode(codec.encode(row, parse_schema(accepted, "test")) or b"", parse_schema(accepted, "test")) == row


MANY = (
    "int64 n = 1; State s = 2; google.protobuf.Timestamp at = 3; confluent.type.Decimal amount = 4; "
    "repeated In ins = 5; message In { google.type.Date d = 1; optional int32 small = 2; } "
    "google.protobuf.StringValue w = 6; "
    "oneof one { int32 a = 7; string b = 8; } uint64 big = 9;"
)
COLUMNS = "n int, s string, at timestamp, amount decimal(9, 2), ins array<struct<d: date, small: tinyint>>, w string, "
COLUMNS += "a int, missing string, big decimal(20, 0)"
ARROW_TYPE = pa.struct(
    {
        "n": pa.int32(), "s": pa.string(), "at": pa.timestamp("us", "UTC"), "amount": pa.decimal128(9, 2),
        "ins": pa.list_(pa.struct({"d": pa.date32(), "small": pa.int8()})), "w": pa.string(), "a": pa.int32(),
        "missing": pa.string(), "big": pa.decimal128(20, 0),
    }
)  # fmt: skip


def test_many_messages_at_once_are_read_into_arrow() -> None:
    """Those that Arrow can't convert are told, each alone: the rule reads them."""
    schema, columns = row_schema(MANY), parse_schema(COLUMNS, "test")
    whole = {
        "n": "-7", "s": "PAID", "at": "1969-12-31T23:59:59.999999999Z", "amount": {"value": "//8=", "scale": 2},
        "ins": [{"d": {"year": 2024, "month": 2, "day": 29}}, {"small": 127}], "w": "", "b": "x",
        "big": str(2**64 - 1),
    }  # fmt: skip
    others: list[dict[str, Any]] = [
        {}, {"n": str(2**31)}, {"s": 77}, {"amount": {"value": "AQ==", "scale": 3}},
        {"ins": [{"d": {"year": 2023, "month": 2, "day": 29}}]}, {"ins": [{"small": 128}]}, {"w": None, "a": 3},
    ]  # fmt: skip
    messages = [message_bytes(schema, values) for values in (whole, *others)]
    messages += [b"\x38\x01\x42\x01x", b"\x1a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x0a\x05", b""]
    is_left_for_good = [False, False, True, True, True, True, True, False, True, True]
    reader = ArrowReader(schema.proto_schema, schema.proto_schema.message(), columns, ignores_case=False)
    for read_messages, expected in ((messages[:-2], is_left_for_good), (messages, [*is_left_for_good, True, False])):
        struct, is_left = reader.read(read_messages, ARROW_TYPE)
        assert is_left.tolist() == expected
        for message, row, left in zip(read_messages, struct.to_pylist(), expected, strict=True):
            if not left:
                assert row == read(schema, message, COLUMNS)


def test_what_is_read_one_by_one() -> None:
    for field, column in (("map<string, int32> a = 1;", "map<string, int>"), ("fixed64 a = 1;", "decimal(38, 18)")):
        schema, columns = row_schema(field), parse_schema(f"a {column}", "test")
        with suppress(NotQuick):
            reader = ArrowReader(schema.proto_schema, schema.proto_schema.message(), columns, ignores_case=False)
            struct_type = pa.struct({"a": pa.decimal128(38, 18)})
            assert reader.read([b""], struct_type)[0].to_pylist() == [{"a": Decimal(0)}]


def test_another_message_of_the_name_of_one_of_google_s() -> None:
    text = 'syntax = "proto3"; package google.type; message Row { Date a = 1; Decimal b = 2; } '
    text += "message Date { int32 year = 1; } message Decimal { optional string value = 1; }"
    for column in ("a date", "b decimal(9, 2)"):
        with pytest.raises(Unfit, match=r"google\.type\.De|google\.type\.Da"):
            read(writer_schema(text), b"", column)
