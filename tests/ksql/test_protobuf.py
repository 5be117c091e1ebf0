"""Streams and tables in Protobuf: what is written and read; and what is refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from lakehouse.errors import SqlError
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import WriterSchemas, with_prefix
from lakehouse.formats.decode import decode_key
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.ksql.script import Script
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.registered.writer_schema import WriterSchema

ORDERS = """
CREATE STREAM orders (id BIGINT KEY, city VARCHAR, amount DECIMAL(9, 2), at TIMESTAMP, d DATE, t TIME,
    home STRUCT<zip INT, street VARCHAR>, xs ARRAY<STRUCT<a INT>>, _raw BYTES)
  WITH (KAFKA_TOPIC='orders', FORMAT='PROTOBUF');
"""
OTHER = "CREATE STREAM j (id INT KEY, a INT, grid ARRAY<ARRAY<INT>>) WITH (KAFKA_TOPIC='j', VALUE_FORMAT='JSON');"


def script_of(text: str, folder: Path) -> Script:
    script = Script(folder=folder)
    script.run(text)
    return script


def test_names_are_found_in_any_case(tmp_path: Path) -> None:
    (source,) = script_of(ORDERS + "CREATE TABLE n AS SELECT city, COUNT(*) AS n FROM orders GROUP BY city;",
                          tmp_path).app().sources  # fmt: skip
    assert (source.key_format, source.value_format) == ("protobuf_any_case", "protobuf_any_case")
    schema = WriterSchema(
        "PROTOBUF", 'syntax = "proto3"; message Order { string City = 3; message H { int64 ZIP = 1; } H home = 1; }'
    )
    codec = codec_of("protobuf_any_case").with_schemas(WriterSchemas({4: schema}))
    row = codec.decode(with_prefix(4, b"\0\x1a\x01R\x0a\x02\x08\x07"), tuple(c.in_topic for c in source.value))
    assert row is not None
    assert {row["CITY"], row["HOME"]["ZIP"], row["HOME"]["STREET"], row["AMOUNT"]} == {"R", 7, None}


def test_what_a_query_writes(tmp_path: Path) -> None:
    query = (
        "CREATE STREAM o WITH (VALUE_SCHEMA_FULL_NAME='io.shop.Row') AS SELECT id, city, amount, at, d, xs FROM orders;"
    )
    (sink,) = script_of(ORDERS + query, tmp_path).app().sinks
    columns = parse_schema("CITY string, AMOUNT decimal(9, 2), AT timestamp, D date, XS array<struct<A: int>>", "test")
    codec = codec_of(sink.format)
    (schema,) = codec.declared_schemas(columns, is_key=False).values()
    assert "package io.shop;" in schema.text
    assert "message Row {" in schema.text
    row = {
        "CITY": "", "AMOUNT": Decimal("-0.05"), "AT": datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC),
        "D": date(2026, 1, 31), "XS": [{"A": None}],
    }  # fmt: skip
    data = encode_value(sink.format, columns, row)
    assert data is not None
    read = codec.with_schemas(codec.declared_schemas(columns, is_key=False)).decode(data, columns)
    assert read == {**row, "AT": datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC)}, "milliseconds, as SQL has them"
    key_columns = parse_schema("ID bigint", "test")
    key = encode_key(sink.key_format, key_columns, {"ID": 7})
    schemas = codec_of(sink.key_format).declared_schemas(key_columns, is_key=True)
    assert decode_key(sink.key_format, key_columns, key, schemas) == {"ID": 7}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OTHER + "CREATE STREAM t WITH (VALUE_FORMAT='PROTOBUF') AS SELECT id, grid FROM j;",
         "column 'GRID': Protobuf has no array in an array"),
        (OTHER + "CREATE STREAM t WITH (VALUE_FORMAT='PROTOBUF', WRAP_SINGLE_VALUE=false) AS SELECT id, a FROM j;",
         "format PROTOBUF does not support WRAP_SINGLE_VALUE=false"),
        (OTHER + "CREATE STREAM t WITH (VALUE_FORMAT='PROTOBUF_NOSR') AS SELECT id, grid FROM j;",
         "column 'GRID': Protobuf has no array in an array"),
        ("CREATE STREAM t (id INT KEY, a INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='PROTOBUF_NOSR', VALUE_SCHEMA_ID=7);",
         "VALUE_SCHEMA_ID is for VALUE_FORMAT='AVRO'"),
        ("CREATE STREAM t (id INT KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='PROTOBUF_NOSR');",
         "there is no file"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SqlError) as error:
        script_of(text, tmp_path)
    assert expected in str(error.value)


def test_a_single_value_may_say_that_it_is_wrapped(tmp_path: Path) -> None:
    text = OTHER + "CREATE STREAM t WITH (VALUE_FORMAT='PROTOBUF', WRAP_SINGLE_VALUE=true) AS SELECT id, a FROM j;"
    assert script_of(text, tmp_path).app().sinks[0].format.startswith("protobuf")


def test_without_a_registry_the_numbers_are_the_columns_places(tmp_path: Path) -> None:
    """As in ksqlDB: what is written is read by columns in the same order; a .proto file of the producer goes before."""
    text = ORDERS.replace("'PROTOBUF'", "'PROTOBUF_NOSR'") + "CREATE STREAM o AS SELECT id, city, at FROM orders;"
    app = script_of(text, tmp_path).app()
    (source,), (sink,) = app.sources, app.sinks
    assert (source.key_format, source.value_format) == ("protobuf_nosr_any_case", "protobuf_nosr_any_case")
    row = {"CITY": "R", "AT": datetime(2026, 1, 31, 12, tzinfo=UTC)}
    columns = parse_schema("CITY string, AT timestamp", "test")
    data = encode_value(sink.format, columns, row)
    assert data is not None
    assert data[:3] == b"\x0a\x01R"
    assert codec_of(sink.format).decode(data, columns) == row
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/orders-value.proto").write_text('syntax = "proto3"; message O { string City = 3; }')
    (source,) = script_of(text, tmp_path).app().sources
    read = codec_of(source.value_format).decode(b"\x1a\x01R", tuple(c.in_topic for c in source.value))
    assert read is not None
    assert read["CITY"] == "R"


def test_without_a_registry_columns_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/o-value.proto").write_text('syntax = "proto3"; message O { string city = 3; int64 n = 1; }')
    text = "CREATE STREAM o (id INT KEY) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='PROTOBUF_NOSR');"
    (source,) = script_of(text + "CREATE STREAM p AS SELECT * FROM o;", tmp_path).app().sources
    assert [str(column.plain) for column in source.value] == ["CITY string", "N bigint"]
