"""Avro with a registry's schemas: rows, and the reasons of bytes and schemas that do not fit."""

from __future__ import annotations

import io
import json
import runpy
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.formats.avro.avro_columns import avro_of_columns
from lakehouse.formats.avro.read_types import read_types
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import WriterSchemas, schema_id, with_prefix
from lakehouse.formats.decode import decode_columns, decode_record, find_declared
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import decode_written_value, encode_written_key, encode_written_value
from lakehouse.model.model import BadRecord
from lakehouse.plan.avro.avro_schema import parse_avro
from lakehouse.plan.avro.schema_json import write_avro
from lakehouse.plan.avro.schema_text import schema_text
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.origin import Source
from lakehouse.plan.refused.unfit_schema import UnfitSchema
from lakehouse.plan.registered.pinned import pinned_file
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.semantics.record import Record

ALL = (
    "a int, b string, c decimal(12, 2), d timestamp, e array<struct<x: double, y: string>>, m map<string, bigint>, "
    "f date, g binary, h struct<p: smallint, q: float>, i boolean, j tinyint, k decimal(38, 10)"
)
COLUMNS = parse_schema(ALL, "test")


def reason(schema: Any, columns: str, data: bytes = b"") -> str:
    """Return why bytes of this schema can't be read as these columns."""
    schemas = WriterSchemas({7: WriterSchema("AVRO", json.dumps(schema))})
    with pytest.raises(Unfit) as refused:
        decode_columns("avro", parse_schema(columns, "test"), with_prefix(7, data), schemas)
    return str(refused.value)


def row_of(schema: Any, columns: str, value: Any) -> Any:
    """Return the row of a value that another library writes."""
    parsed = fastavro.parse_schema(schema)
    written = io.BytesIO()
    fastavro.schemaless_writer(written, parsed, value)
    schemas = WriterSchemas({7: WriterSchema("AVRO", json.dumps(schema))})
    return decode_columns("avro", parse_schema(columns, "test"), with_prefix(7, written.getvalue()), schemas)


def record_of(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": type} for name, type in types.items()]}


def wide_decimal(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": scale}


_EXACT = Context(prec=60)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), timezones=st.just(UTC))
ROWS = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-(2**31), 2**31 - 1),
        "b": st.none() | TEXTS,
        "c": st.none() | st.decimals(-(10**10) + 1, 10**10 - 1, places=2),
        "d": st.none() | MOMENTS,
        "e": st.none()
        | st.lists(st.none() | st.fixed_dictionaries({"x": st.none() | st.floats(allow_nan=False), "y": TEXTS})),
        "m": st.none() | st.dictionaries(TEXTS, st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
        "f": st.none() | st.dates(),
        "g": st.none() | st.binary(max_size=5),
        "h": st.none()
        | st.fixed_dictionaries(
            {"p": st.integers(-(2**15), 2**15 - 1), "q": st.none() | st.floats(width=32, allow_nan=False)}
        ),
        "i": st.none() | st.booleans(),
        "j": st.none() | st.integers(-128, 127),
        "k": st.none() | st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-10, _EXACT)),
    }
)  # fmt: skip


@given(ROWS)
def test_what_is_written_is_read_by_another_library_and_by_this_one(row: dict[str, Any]) -> None:
    data = encode_value("avro?id=300", COLUMNS, row)
    assert data is not None
    assert schema_id(data) == 300
    avro_type = avro_of_columns(COLUMNS, "test.Row")
    schema = write_avro(avro_type)
    assert parse_avro(json.dumps(schema)) == avro_type
    others = fastavro.schemaless_reader(io.BytesIO(data[5:]), fastavro.parse_schema(schema), None)
    assert others == row
    schemas = WriterSchemas({300: WriterSchema("AVRO", json.dumps(schema))})
    assert decode_columns("avro", COLUMNS, data, schemas) == row
    for end in range(len(data)):
        with pytest.raises(Unfit):
            decode_columns("avro", COLUMNS, data[:end], schemas)
    with pytest.raises(Unfit, match="schema 300: expected the end, found 1 more bytes"):
        decode_columns("avro", COLUMNS, data + b"\0", schemas)


@given(st.binary(max_size=40))
def test_any_bytes_give_a_row_or_a_reason(data: bytes) -> None:
    schemas = WriterSchemas({1: WriterSchema("AVRO", json.dumps(write_avro(avro_of_columns(COLUMNS, "R"))))})
    for whole in (data, with_prefix(1, data)):
        with suppress(Unfit):
            decode_columns("avro", COLUMNS, whole, schemas)


def test_a_typed_text_is_written_by_the_newest_schema_that_fits() -> None:
    columns = parse_schema("city string, amount decimal(9, 2)", "test")
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    written = {3: record_of(city="string"), 5: record_of(city="string", amount=amount), 8: record_of(city="int")}
    schemas = WriterSchemas({id: WriterSchema("AVRO", json.dumps(schema)) for id, schema in written.items()})
    codec = codec_of("avro").with_schemas(schemas)
    for text, id, row in (
        ('{"city": "Rome", "amount": 2.50}', 5, {"city": "Rome", "amount": Decimal("2.50")}),
        ('{"city": "Rome"}', 3, {"city": "Rome", "amount": None}),
    ):
        data = codec.encode_typed(text, columns)
        assert (schema_id(data), codec.decode(data, columns)) == (id, row)
    with pytest.raises(Unfit, match="schema 5: field town: record R has no such field; it has city, amount"):
        codec.encode_typed('{"town": "Rome"}', columns)
    only_unfit = codec_of("avro").with_schemas(WriterSchemas({8: schemas[8]}))
    with pytest.raises(Unfit, match="schema 8: field city: int, declared string"):
        only_unfit.encode_typed('{"city": "Rome"}', columns)
    alone = codec_of("avro").with_schemas(WriterSchemas({1: WriterSchema("AVRO", '"string"')}))
    assert alone.encode_typed('say "x"', parse_schema("id string", "test"))[5:] == b'\x0esay "x"'
    with pytest.raises(Unfit, match="no schema of the topic's writers is known"):
        codec_of("avro").encode_typed("{}", columns)


def test_people_see_a_decimal_with_all_its_digits() -> None:
    columns = parse_schema("d decimal(38, 2)", "test")
    codec = codec_of("avro").with_schemas(codec_of("avro").declared_schemas(columns, is_key=False))
    row = {"d": Decimal("123456789012345678901234567890.10")}
    assert str(codec.write_value(codec.encode(row, columns) or b"", columns)["d"]) == str(row["d"])


@pytest.mark.parametrize(
    ("types", "columns", "value", "expected"),
    [
        ({"n": "int"}, "n bigint", {"n": 5}, 5),
        ({"n": "long"}, "n int", {"n": 5}, 5),
        ({"n": "long"}, "n decimal(20, 1)", {"n": 5}, Decimal("5.0")),
        ({"n": ["null", "int", "long"]}, "n bigint", {"n": 2**40}, 2**40),
        ({"n": "float"}, "n double", {"n": 0.5}, 0.5),
        ({"n": "int"}, "n double", {"n": 7}, 7.0),
        ({"n": {"type": "enum", "name": "E", "symbols": ["A", "B"]}}, "n string", {"n": "B"}, "B"),
        ({"n": {"type": "fixed", "name": "F", "size": 2}}, "n binary", {"n": b"ab"}, b"ab"),
        ({"n": {"type": "string", "logicalType": "uuid"}}, "n string", {"n": "x"}, "x"),
        ({"n": {"type": "long", "logicalType": "timestamp-millis"}}, "n timestamp", {"n": 1500},
         datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        ({"n": {"type": "long", "logicalType": "timestamp-nanos"}}, "n bigint", {"n": 1500}, 1500),
        ({"n": {"type": "int", "logicalType": "date"}}, "n date", {"n": -1}, date(1969, 12, 31)),
        ({"n": {"type": "int", "logicalType": "time-millis"}}, "n int", {"n": 9}, 9),
        ({"n": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}}, "n decimal(12, 2)",
         {"n": Decimal("-1.5")}, Decimal("-1.50")),
        # Kafka Connect's converter writes 64 digits for every decimal: each value is judged by its own.
        ({"n": wide_decimal(2)}, "n decimal(12, 2)", {"n": Decimal("-1.5")}, Decimal("-1.50")),
        ({"n": wide_decimal(4)}, "n decimal(12, 2)", {"n": Decimal("1.5")}, Decimal("1.50")),
        ({"n": wide_decimal(0)}, "n bigint", {"n": Decimal(2**40)}, 2**40),
        ({"n": {"type": "string", "connect.name": "io.debezium.time.IsoDate"}}, "n date", {"n": "2026-01-31"},
         date(2026, 1, 31)),
        ({"n": {"type": "bytes", "logicalType": "made-up"}}, "n binary", {"n": b"x"}, b"x"),
        ({"n": "null"}, "n string", {"n": None}, None),
        ({"other": "string", "n": "int"}, "n int", {"other": "left out", "n": 1}, 1),
        ({"other": "string"}, "n int", {"other": "x"}, None),
    ],
)  # fmt: skip
def test_types_that_fit(types: dict[str, Any], columns: str, value: Any, expected: Any) -> None:
    assert row_of(record_of(**types), columns, value)["n"] == expected


@pytest.mark.parametrize(
    ("type", "columns", "expected"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 14, "scale": 4}, "n decimal(12, 2)",
         "schema 7: field n: decimal(14, 4), declared decimal(12, 2)"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "n timestamp",
         "schema 7: field n: long (timestamp-nanos), declared timestamp"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "n bigint",
         "schema 7: field n: long (timestamp-millis), declared bigint"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "n timestamp",
         "schema 7: field n: long (local-timestamp-millis), declared timestamp"),
        (wide_decimal(2), "n bigint", "schema 7: field n: decimal(64, 2), declared bigint"),
        ("long", "n double", "schema 7: field n: long, declared double"),
        ("double", "n float", "schema 7: field n: double, declared float"),
        ("long", "n decimal(12, 2)", "schema 7: field n: long, declared decimal(12, 2)"),
        (["null", "int", "string"], "n int", "schema 7: field n: string, declared int"),
        ({"type": "array", "items": "long"}, "n array<string>", "schema 7: field n: long, declared string"),
        (record_of(x="string") | {"name": "X"}, "n struct<x: int>", "schema 7: field n: field x: string, declared int"),
        ({"type": "array", "items": "null"}, "n array<int>",
         "schema 7: an array of null: its items have no bytes, so that 2 bytes can be billions"),
    ],
)  # fmt: skip
def test_types_that_do_not_fit_are_judged_before_any_value(type: Any, columns: str, expected: str) -> None:
    assert reason(record_of(n=type), columns) == expected


@pytest.mark.parametrize(
    ("type", "columns", "data", "expected"),
    [
        ("long", "n int", b"\x80\x80\x80\x80\x20", "expected int, found 4294967296"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "n string", b"\x12", "expected an index below 1, found 9"),
        (["null", "int"], "n int", b"\x0a", "expected an index below 2, found 5"),
        ("string", "n string", b"\x04\xff\xfe", "expected UTF-8, found byte 0xff at 0"),
        ("string", "n string", b"\x01", "expected a length, found -1"),
        ("string", "n string", b"\xea\xff\xff\xff\x0f", "the bytes end too early: expected 2147483637 more, found 0"),
        ({"type": "array", "items": "int"}, "n array<int>", b"\xea\xff\xff\xff\x0f",
         "the bytes end too early: expected 2147483637 items, found 0 bytes"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "n timestamp", b"\xfe\xff\xff\xff\xff\xff\xff\x7f",
         "expected timestamp in the years 1 to 9999, found 36028797018963967000 microseconds since 1970"),
        ({"type": "int", "logicalType": "date"}, "n date", b"\xfe\xff\xff\xff\x0f",
         "expected date in the years 1 to 9999, found 2147483647 days since 1970"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "n decimal(4, 2)", b"\x04\x7f\xff",
         "expected decimal(4, 2), found a number of 15 bits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "n decimal(4, 2)",
         b"\x12\x01\0\0\0\0\0\0\0\x05", "expected decimal(4, 2), found a number of 65 bits"),
        (wide_decimal(2), "n decimal(4, 2)", b"\x04\x7f\xff", "expected decimal(4, 2) without a loss, found 327.67"),
        (wide_decimal(4), "n decimal(12, 2)", b"\x02\x01", "expected decimal(12, 2) without a loss, found 0.0001"),
        (wide_decimal(0), "n int", b"\x0a\x01\0\0\0\0", "expected int, found 4294967296"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "n decimal(4, 2)", b"\0",
         "expected the bytes of a decimal(4, 2), found none"),
        ("long", "n bigint", b"\xff" * 11, "expected a number of at most 10 bytes, found a longer one"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(type: Any, columns: str, data: bytes, expected: str) -> None:
    assert reason(record_of(n=type), columns, data) == f"schema 7: field n: {expected}"


def test_a_type_of_no_namespace_is_known_inside_of_one() -> None:
    """As in Java, which refers to it so."""
    inner = {"type": "record", "name": "Home", "fields": [{"name": "zip", "type": "int"}]}
    fields = [{"name": "old", "type": inner | {"namespace": ""}}, {"name": "new", "type": ["null", "Home"]}]
    columns = parse_schema("old struct<zip: int>, new struct<zip: int>", "test")
    defined_inside = WriterSchema("AVRO", json.dumps(record_of() | {"namespace": "shop", "fields": fields}))
    fields[0] = {"name": "old", "type": "Home"}
    referring_text = json.dumps(record_of() | {"namespace": "shop", "fields": fields})
    for schema in (defined_inside, WriterSchema("AVRO", referring_text, (json.dumps(inner),))):
        data = with_prefix(7, b"\x02\x02\x04")
        expected = {"old": {"zip": 1}, "new": {"zip": 2}}
        assert decode_columns("avro", columns, data, WriterSchemas({7: schema})) == expected
        assert parse_avro(json.dumps(write_avro(schema.avro_type))) == schema.avro_type


def test_all_that_says_how_bytes_are_read_is_written() -> None:
    zoned = {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}
    nanos = {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"}
    avro_type = parse_avro(json.dumps(record_of(a=["null", zoned], b=nanos)))
    assert parse_avro(json.dumps(write_avro(avro_type))) == avro_type
    assert schema_text(avro_type, "test") == "a timestamp, b bigint"
    iso_date = {"type": "string", "connect.name": "io.debezium.time.IsoDate"}
    avro_type = parse_avro(json.dumps(record_of(a=iso_date, b=wide_decimal(2))))
    assert parse_avro(json.dumps(write_avro(avro_type))) == avro_type
    assert schema_text(avro_type, "test") == "a date, b decimal(38, 2)"
    odd = {"type": "bytes", "logicalType": "decimal", "precision": True}
    assert parse_avro(json.dumps(odd)).logical == ""


def test_types_of_one_name_with_a_namespace_and_without_are_two() -> None:
    inner = {"type": "record", "name": "Home", "fields": [{"name": "zip", "type": "int"}]}
    other = inner | {"fields": [{"name": "city", "type": "string"}]}
    avro_type = parse_avro(json.dumps(record_of(a=inner | {"namespace": ""}, b=other) | {"namespace": "shop"}))
    assert [part.name for part in avro_type.parts] == ["Home", "shop.Home"]
    written = write_avro(avro_type)
    assert parse_avro(json.dumps(written)) == avro_type
    fastavro.parse_schema(written)


def test_types_defined_in_another_schema_are_known() -> None:
    address = json.dumps({"type": "record", "name": "shop.Address", "fields": [{"name": "city", "type": "string"}]})
    schema = WriterSchema("AVRO", json.dumps(record_of(home="shop.Address")), (address,))
    columns = parse_schema("home struct<city: string>", "test")
    assert decode_columns("avro", columns, with_prefix(7, b"\x08Rome"), WriterSchemas({7: schema})) == {
        "home": {"city": "Rome"}
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no JSON", "no JSON: Expecting value"),
        ('"strin"', "the type 'strin' is not defined"),
        ('{"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "R"]}]}', "'R' is a part of it"),
        ('{"type": "record", "name": "R"}', "record R: expected a list of fields"),
        ('{"type": "enum", "name": "E", "symbols": 1}', "enum E: expected a list of symbols"),
        ('{"type": "fixed", "name": "F", "size": -1}', "fixed F: expected a size"),
        ("[[]]", "a union has branches"),
        ("7", "expected a type, found 7"),
        (r'{"type": "enum", "name": "E", "symbols": ["\ud800"]}', "is no name: it has half of a surrogate pair"),
        (r'{"type": "record", "name": "R", "fields": [{"name": "\ud800", "type": "int"}]}', "is no name: it has half"),
        (r'{"type": "fixed", "name": "F\udfff", "size": 1}', "is no name: it has half of a surrogate pair"),
        ("[" * 100 + "]" * 100, "nested more than 64 deep"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
    ],
)  # fmt: skip
def test_schemas_that_are_none(text: str, expected: str) -> None:
    with pytest.raises(UnfitSchema, match=expected.replace("[", r"\[").replace("(", r"\(")):
        parse_avro(text)


def test_a_short_schema_of_billions_of_types_is_refused() -> None:
    def doubled(level: int) -> Any:
        inner = doubled(level - 1) if level else "int"
        name = inner["name"] if isinstance(inner, dict) else inner
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": name}]
        return {"type": "record", "name": f"R{level}", "fields": fields}

    with pytest.raises(UnfitSchema, match="more than 10000 types"):
        parse_avro(json.dumps(doubled(20)))


def test_columns_of_a_schema() -> None:
    schema = record_of(
        id="long", name=["null", "string"],
        amount={"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        tags={"type": "array", "items": ["null", "string"]}, home=["null", {**record_of(zip="int"), "name": "Home"}],
        attributes={"type": "map", "values": "double"}, made={"type": "long", "logicalType": "timestamp-millis"},
        _hidden="int",
    )  # fmt: skip
    assert schema_text(parse_avro(json.dumps(schema)), "test") == (
        "id bigint, name string, amount decimal(9, 2), tags array<string>, home struct<`zip`: int>, "
        "attributes map<string, double>, made timestamp, hidden int from '_hidden'"
    )
    with pytest.raises(PlanError, match="field 'n': union of int, string is no type of a column"):
        schema_text(parse_avro(json.dumps(record_of(n=["int", "string"]))), "test")


def source(**options: Any) -> Source:
    options = {"key": "id bigint", "schema": "n int", "format": "avro", "key_format": "avro", **options}
    origin = lh.stream("orders", **options).source
    assert isinstance(origin, Source)
    return origin


def decoded(origin: Source, value: bytes | None, key: bytes | None = None) -> Any:
    record = Record("orders", "id", 0, 0, 1, key, value, 1, 1)
    result = decode_record(origin, record, find_declared([origin]))
    return result.reason if isinstance(result, BadRecord) else (result.key, result.value)


def test_a_key_of_one_column_is_its_value_alone() -> None:
    key = encode_key("avro?id=1", (origin := source()).key, {"id": 5})
    assert key == b"\0\0\0\0\x01\x0a"
    assert decoded(origin, None, key) == ({"id": 5}, None)
    assert encode_key("avro", origin.key, {"id": None}) is None
    several = source(key="id bigint, city string")
    key = encode_written_key(several, {"id": 5, "city": "Rome"})
    assert decoded(several, None, key) == ({"id": 5, "city": "Rome"}, None)


def test_what_people_write_is_read_back() -> None:
    origin = source(schema="n decimal(4, 1), made timestamp, raw binary, tags array<string>")
    written = {"n": Decimal("1.5"), "made": "2026-01-02T03:04:05Z", "raw": "AAE=", "tags": ["a", None]}
    data = encode_written_value(origin, written)
    assert decoded(origin, data)[1] == {
        "n": Decimal("1.5"), "made": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "raw": b"\0\1", "tags": ["a", None]
    }  # fmt: skip
    again = decode_written_value(origin, data, find_declared([origin])("orders", "value"))
    assert encode_written_value(origin, again) == data


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "found no byte"),
        (b'{"n": 1}', "found 0x7b226e223a20317d: it looks like JSON"),
        (b"\0\0\0\0\0\0\0\0\x07\x02", "found the id 0: an id of 8 bytes?"),
        (b"\x01" + b"g" * 16, "found the byte 1: a schema's GUID, which is not read"),
        (b"\x04\x02", "found 0x0402. If the id is in a header (__key_schema_id, __value_schema_id), let the producer "
         "write it into the bytes"),
        (b"\0\0\0\0\x63\x02", "schema 99: the registry has no schema of that id"),
    ],
)  # fmt: skip
def test_a_wrong_prefix_is_named(value: bytes, expected: str) -> None:
    assert decoded(source(), value).endswith(expected)


def test_avro_in_a_json_stream_is_named() -> None:
    origin = source(format="json", key_format="json")
    assert decoded(origin, b"\0\0\0\0\x07\x02").endswith(
        "(the byte 0 and then 7: a value in Avro with a registry's schema 7?)"
    )


def test_sql_finds_fields_in_any_case() -> None:
    schemas = WriterSchemas(
        {7: WriterSchema("AVRO", json.dumps(record_of(Amount="int", home=record_of(zIP="int") | {"name": "H"})))}
    )
    columns = parse_schema("AMOUNT int, HOME struct<ZIP: int>", "test")
    assert decode_columns("avro_any_case", columns, with_prefix(7, b"\x02\x04"), schemas) == {
        "AMOUNT": 1,
        "HOME": {"ZIP": 2},
    }
    ambiguous = WriterSchemas({7: WriterSchema("AVRO", json.dumps(record_of(a="int", A="int")))})
    row = decode_columns("avro_any_case", parse_schema("A int", "test"), with_prefix(7, b"\x02\x04"), ambiguous)
    assert row == {"A": 2}, "the one that is spelled so"
    in_two_cases = WriterSchemas({7: WriterSchema("AVRO", json.dumps(record_of(ab="int", aB="int")))})
    with pytest.raises(Unfit, match="expected one field AB, found ab, aB: spell the column as one of them"):
        decode_columns("avro_any_case", parse_schema("AB int", "test"), with_prefix(7, b"\x02\x04"), in_two_cases)


def test_a_null_alone_is_a_null_for_both_engines() -> None:
    """from_avro would give a row of nulls, which is no tombstone."""
    columns = parse_schema("n int", "test")
    schemas = WriterSchemas({7: WriterSchema("AVRO", '"null"')})
    assert decode_columns("avro", columns, with_prefix(7, b""), schemas) is None
    assert read_types(schemas[7].avro_type, columns, ignores_case=False) is None, "Python reads it on Spark"


def test_columns_come_from_the_pinned_schemas(tmp_path: Path) -> None:
    application = tmp_path / "shop.py"
    application.write_text(
        'import lakehouse as lh\norders = lh.stream("orders", key="id", format="avro", key_format="avro")\n'
    )

    def declared() -> Any:
        return runpy.run_path(str(application))["orders"]

    with pytest.raises(PlanError, match=r"no column is declared, and there is no file .*schemas/orders-value\.avsc"):
        declared()
    (tmp_path / "schemas").mkdir()
    value_file = pinned_file(tmp_path, "orders", "value")
    value_file.write_text(json.dumps(record_of(city="string", _n=["null", "int"])))
    pinned_file(tmp_path, "orders", "key").write_text('"long"')
    assert ", ".join(map(str, declared().columns)) == "id bigint, city string, n int"
    pinned_file(tmp_path, "orders", "key").write_text(json.dumps(record_of(id="long")))
    with pytest.raises(PlanError, match="key='id': the pinned schema is record R"):
        declared()
    application.write_text(application.read_text().replace('key="id", ', ""))
    assert ", ".join(declared().key) == "id"
    value_file.write_text("{")
    with pytest.raises(PlanError, match=r"orders-value\.avsc: no JSON"):
        declared()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": "id int"}, "schema is missing, and records in json"),
        ({"schema": "n int"}, "key is missing, and records in kafka"),
    ],
)  # fmt: skip
def test_other_formats_need_columns(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        lh.stream("orders", **arguments)


def test_what_python_publishes_in_avro() -> None:
    orders = lh.stream("orders", key="id int", schema="city string, home struct<`zip-code`: int>, m map<string, int>")
    plain = orders.select("city", "m")
    sink = plain.to_topic("plain", format="avro", key_format="avro")
    assert (sink.format, sink.key_format) == ("avro", "avro")
    table = plain.latest("plain_rows").changes().to_topic("rows", format="avro")
    assert (table.format, table.key_format) == ("avro", "")
    assert plain.to_topic("plain") == plain.to_topic("plain", format="json")
    with pytest.raises(PlanError, match=r"to_topic: format='avro': column 'home': field 'zip-code': a name in Avro is"):
        orders.to_topic("copy", format="avro")
    with pytest.raises(PlanError, match=r"to_topic: format='thrift': expected one of json, delimited, kafka, avro"):
        orders.to_topic("copy", format="thrift")
    with pytest.raises(PlanError, match=r"to_topic: format='kafka' can't hold city string, .*Use 'json'"):
        orders.to_topic("copy", format="kafka")
    numbers = plain.select("map(1, city) AS by_number")
    with pytest.raises(PlanError, match=r"keys of a map in Avro are texts, found int"):
        numbers.to_topic("copy", format="avro")


def test_aliases_and_defaults_of_a_readers_schema_have_no_effect() -> None:
    """A field that a record does not have is null, whatever a newer schema says of it."""
    renamed = {"name": "city", "type": "string", "aliases": ["town"]}
    newer = {"type": "record", "name": "R", "fields": [renamed, {"name": "n", "type": "int", "default": 7}]}
    schemas = WriterSchemas(
        {1: WriterSchema("AVRO", json.dumps(record_of(town="string"))), 2: WriterSchema("AVRO", json.dumps(newer))}
    )
    columns = parse_schema("city string, town string, n int", "test")
    old, new = with_prefix(1, b"\x08Rome"), with_prefix(2, b"\x08Oslo\x04")
    assert decode_columns("avro", columns, old, schemas) == {"city": None, "town": "Rome", "n": None}
    assert decode_columns("avro", columns, new, schemas) == {"city": "Oslo", "town": None, "n": 2}
