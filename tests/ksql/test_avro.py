"""Streams and tables in Avro: declared, inferred from pinned schemas, written; and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.errors import SqlError
from lakehouse.formats.avro.avro_writer import value_writer
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import WriterSchemas, with_prefix
from lakehouse.formats.decode import decode_columns, decode_key
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.ksql.describe import answer_describe, answer_show
from lakehouse.ksql.script import Script, application
from lakehouse.ksql.syntax import statement as s
from lakehouse.plan.avro.avro_schema import parse_avro
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.registered.pinned import pinned_file, pinned_id_file
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.run.start.application import load_app
from lakehouse.testing import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = """
CREATE STREAM orders (id BIGINT KEY, city VARCHAR, amount DECIMAL(9, 2), at TIMESTAMP, d DATE, t TIME,
    home STRUCT<zip INT, street VARCHAR>, xs ARRAY<STRUCT<a INT>>, _raw BYTES)
  WITH (KAFKA_TOPIC='orders', FORMAT='AVRO');
"""
TOTALS = "CREATE TABLE totals WITH (FORMAT='JSON') AS SELECT city, SUM(amount) AS total FROM orders GROUP BY city;"
AT = datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)
ROW = {"CITY": "Rome", "AMOUNT": 12.5, "AT": "2026-01-31T12:00:00.500Z", "D": "2026-01-31", "T": 9,
       "HOME": {"ZIP": 7, "STREET": "é"}, "XS": [{"A": 1}, None], "_RAW": "AAE="}  # fmt: skip
SKU = {"name": "sku", "type": "string"}
VALUE = {
    "type": "record", "name": "Order", "namespace": "io.shop",
    "fields": [
        {"name": "city", "type": ["null", "string"]},
        {"name": "orderLine", "type": {"type": "record", "name": "Line", "fields": [SKU]}},
        {"name": "tags", "type": {"type": "map", "values": "float"}},
        {"name": "sizes", "type": {"type": "array", "items": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "opens", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "n", "type": ["null", "int", "long"]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}  # fmt: skip
COLUMNS = [
    "CITY VARCHAR(STRING)", "ORDERLINE STRUCT<SKU VARCHAR(STRING)>", "TAGS MAP<VARCHAR(STRING), DOUBLE>",
    "SIZES ARRAY<VARCHAR(STRING)>", "AT TIMESTAMP", "OPENS TIME", "N BIGINT", "AMOUNT DECIMAL(9, 2)",
]  # fmt: skip
KEY = {"type": "record", "name": "Id", "fields": [{"name": "shop", "type": "string"}, {"name": "id", "type": "long"}]}


def pin(folder: Path, topic: str, part_name: str, schema: Any) -> None:
    path = pinned_file(folder, topic, part_name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(schema), encoding="utf-8")


def columns(folder: Path, statement: str) -> list[str]:
    """Return the columns of the stream or table that a statement declares."""
    script = Script(folder=folder)
    script.run(statement)
    (entry,) = script.catalog.entries.values()
    return [f"{c.name} {c.kind}{' KEY' * c.is_key}" for c in entry.columns]


def refusal(text: str, folder: Path | None = None) -> str:
    with pytest.raises(SqlError) as refused:
        application(text, folder)
    return str(refused.value)


def test_declared_columns_are_read_and_written_as_records() -> None:
    copy = "CREATE STREAM copy WITH (VALUE_SCHEMA_FULL_NAME='io.shop.Order') AS SELECT * FROM orders;"
    app = application(ORDERS + copy + TOTALS)
    (source,), (sink, _) = app.sources, app.sinks
    assert (source.key_format, source.value_format) == ("avro_bare", "avro_any_case")
    assert (sink.key_format, sink.format) == (
        "avro_bare?timestamps=millis+named",
        "avro?name=io.shop.Order&timestamps=millis+named",
    )
    result = Replay(app).send("orders", key=1, value=ROW).send("orders", key=2, value=ROW).run()
    row = {"ID": 1, "CITY": "Rome", "AMOUNT": Decimal("12.50"), "AT": AT, "D": date(2026, 1, 31), "T": 9,
           "HOME": {"ZIP": 7, "STREET": "é"}, "XS": [{"A": 1}, None], "_RAW": b"\0\1"}  # fmt: skip
    copied = {name.replace("x5f_", "_"): value for name, value in result.topic("COPY")[0].items()}
    assert copied == {**row, "timestamp": 0, "deleted": False}
    assert result.rows("TOTALS") == [{"CITY": "Rome", "TOTAL": Decimal("25.00")}]


def test_what_a_query_writes_has_the_names_of_its_columns_and_times_in_milliseconds() -> None:
    written = parse_schema("AT timestamp, HOME struct<ZIP: int>", "test")
    format = "avro?id=5&name=io.shop.Order&timestamps=millis"
    (schema,) = codec_of(format).declared_schemas(written, is_key=False).values()
    assert json.loads(schema.text) == {
        "type": "record", "name": "Order", "namespace": "io.shop",
        "fields": [
            {"name": "AT", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
            {"name": "HOME", "default": None, "type": ["null", {
                "type": "record", "name": "HOME", "namespace": "io.shop.Order",
                "fields": [{"name": "ZIP", "type": ["null", "int"], "default": None}],
            }]},
        ],
    }  # fmt: skip
    data = encode_value(format, written, {"AT": AT.replace(microsecond=500_999), "HOME": {"ZIP": 7}})
    assert data is not None
    schemas = WriterSchemas({5: schema})
    assert decode_columns("avro", written, data, schemas) == {"AT": AT, "HOME": {"ZIP": 7}}


@pytest.mark.parametrize(
    ("column", "value"),
    [("a bigint", 7), ("a array<int>", [1, None]), ("a struct<b: int>", {"b": 1}), ("a struct<a: int>", {"a": 1})],
)
def test_a_single_value_can_stand_without_a_record(column: str, value: Any) -> None:
    written = parse_schema(column, "test")
    schemas = codec_of("avro_bare").declared_schemas(written, is_key=False)
    data = encode_value("avro_bare", written, {"a": value})
    assert data is not None
    assert decode_columns("avro_bare", written, data, schemas) == {"a": value}
    assert encode_key("avro_bare", written, {"a": value}) == data
    assert encode_value("avro_bare", written, {"a": None}) is None
    in_record = encode_value("avro", written, {"a": value})
    assert in_record is not None
    in_record_schemas = codec_of("avro").declared_schemas(written, is_key=False)
    assert decode_key("avro_bare", parse_schema(column.replace("a ", "A ", 1), "test"), in_record, in_record_schemas)


def test_a_stream_of_values_alone() -> None:
    text = """
    CREATE STREAM words (word VARCHAR) WITH (KAFKA_TOPIC='words', VALUE_FORMAT='AVRO', WRAP_SINGLE_VALUE=false);
    CREATE TABLE counts WITH (FORMAT='AVRO', WRAP_SINGLE_VALUE=false) AS
      SELECT word, COUNT(*) AS n FROM words GROUP BY word;
    """
    app = application(text)
    assert app.sources[0].value_format == "avro_bare"
    assert (app.sinks[0].key_format, app.sinks[0].format) == ("avro_bare", "avro_bare")
    result = Replay(app).send("words", value="a").send("words", value="a").run()
    assert result.rows("COUNTS") == [{"WORD": "a", "N": 2}]


def test_columns_are_those_of_the_pinned_schemas(tmp_path: Path) -> None:
    pin(tmp_path, "orders", "value", VALUE)
    stream = "CREATE STREAM s WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');"
    assert columns(tmp_path, stream) == COLUMNS
    with_key = "CREATE STREAM s (id BIGINT KEY) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');"
    assert columns(tmp_path, with_key) == ["ID BIGINT KEY", *COLUMNS]
    with_headers = "CREATE STREAM s (h BYTES HEADER('h')) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO');"
    assert columns(tmp_path, with_headers) == ["H BYTES", *COLUMNS]
    pinned_id_file(tmp_path, 7).write_text(json.dumps({"type": "record", "name": "R", "fields": [SKU]}))
    by_id = "CREATE STREAM s (id BIGINT KEY) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=7);"
    assert columns(tmp_path, by_id) == ["ID BIGINT KEY", "SKU VARCHAR(STRING)"]
    both = "CREATE {} WITH (KAFKA_TOPIC='orders', FORMAT='AVRO');"
    pin(tmp_path, "orders", "key", "long")
    assert columns(tmp_path, both.format("TABLE t")) == ["ROWKEY BIGINT KEY", *COLUMNS]
    pin(tmp_path, "orders", "key", KEY)
    keys = ["SHOP VARCHAR(STRING) KEY", "ID BIGINT KEY"]
    assert columns(tmp_path, both.format("STREAM s")) == [*keys, *COLUMNS]
    declared_value = "CREATE TABLE t (city VARCHAR) WITH (KAFKA_TOPIC='orders', FORMAT='AVRO');"
    assert columns(tmp_path, declared_value) == [*keys, "CITY VARCHAR(STRING)"]
    json_value = "CREATE TABLE t (a INT) WITH (KAFKA_TOPIC='orders', KEY_FORMAT='AVRO', VALUE_FORMAT='JSON');"
    assert columns(tmp_path, json_value) == [*keys, "A INTEGER"]
    pin(tmp_path, "orders", "value", "string")
    alone = "CREATE STREAM s WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO', WRAP_SINGLE_VALUE=false);"
    assert columns(tmp_path, alone) == ["ROWVAL VARCHAR(STRING)"]
    assert "is one string alone, without a record around it. Give WRAP_SINGLE_VALUE=false" in refusal(stream, tmp_path)


def test_an_altered_stream_keeps_its_inferred_columns(tmp_path: Path) -> None:
    pin(tmp_path, "orders", "value", VALUE)
    text = "CREATE STREAM s WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='AVRO'); ALTER STREAM s ADD COLUMN more INT;"
    assert columns(tmp_path, text) == [*COLUMNS, "MORE INTEGER"]


def test_an_application_has_its_schemas_beside_its_file(tmp_path: Path) -> None:
    pin(tmp_path, "orders", "value", VALUE)
    pin(tmp_path, "orders", "key", KEY)
    text = """
    CREATE STREAM orders WITH (KAFKA_TOPIC='orders', FORMAT='AVRO');
    CREATE TABLE per_shop WITH (FORMAT='JSON') AS
      SELECT shop, COUNT(*) AS n, LATEST_BY_OFFSET(orderline->sku) AS sku FROM orders GROUP BY shop;
    """
    (tmp_path / "app.sql").write_text(text, encoding="utf-8")
    app = load_app(str(tmp_path / "app.sql"))
    value = {"CITY": None, "ORDERLINE": {"SKU": "x"}, "TAGS": {"a": 0.5}, "SIZES": ["L"], "N": 1, "AMOUNT": 1}
    result = Replay(app).send("orders", key={"SHOP": "a", "ID": 1}, value=value).run()
    assert result.rows("PER_SHOP") == [{"SHOP": "a", "N": 1, "SKU": "x"}]
    (source,) = app.sources
    key_type = parse_avro(json.dumps(KEY))
    data = with_prefix(7, value_writer(key_type)({"shop": "a", "id": 1}))
    schemas = WriterSchemas({7: WriterSchema("AVRO", json.dumps(KEY))})
    assert decode_key(source.key_format, source.key, data, schemas) == {"SHOP": "a", "ID": 1}


def test_a_topic_that_this_application_writes_is_read_again() -> None:
    text = f"""{ORDERS}
    CREATE STREAM big AS SELECT id, at, home FROM orders WHERE amount > 1;
    CREATE STREAM again (id BIGINT KEY, at TIMESTAMP, home STRUCT<zip INT, street VARCHAR>)
      WITH (KAFKA_TOPIC='BIG', FORMAT='AVRO');
    CREATE TABLE last WITH (FORMAT='JSON') AS SELECT id, LATEST_BY_OFFSET(at) AS at FROM again GROUP BY id;
    """
    result = Replay(application(text)).send("orders", key=1, value=ROW).run()
    assert result.rows("LAST") == [{"ID": 1, "AT": AT}]


def test_keys_that_kafka_cannot_hold_are_json_beside_values_in_avro() -> None:
    text = """
    CREATE STREAM s (a TIMESTAMP KEY, b INT) WITH (KAFKA_TOPIC='s', KEY_FORMAT='JSON', VALUE_FORMAT='AVRO');
    CREATE STREAM t WITH (KEY_FORMAT='KAFKA') AS SELECT * FROM s;
    """
    (sink,) = application(text).sinks
    assert (sink.key_format, sink.format) == ("json+epoch", "avro?timestamps=millis")


def test_what_is_declared_shows_the_format() -> None:
    script = Script()
    script.run(ORDERS)
    assert answer_show(s.Show("STREAMS"), script).rows == [("ORDERS", "orders", "AVRO", "AVRO")]
    assert (
        "key format AVRO, value format AVRO" in answer_describe(s.Describe("ORDERS", is_extended=True), script).message
    )


IN_JSON = "CREATE STREAM j (id INT KEY, a INT, `b c` INT, s STRUCT<`d e` INT>) WITH (KAFKA_TOPIC='j', FORMAT='JSON');"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE STREAM s WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO');",
         "schemas/o-value.avsc. `lakehouse schema pull o"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='o', FORMAT='AVRO');",
         "schemas/o-key.avsc. `lakehouse schema pull o"),
        ("CREATE STREAM s WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON');", "values in JSON don't say what they are"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=5);",
         "VALUE_SCHEMA_ID=5 says what the columns of the value are, and they are named, too"),
        ("CREATE STREAM s WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=5);",
         "schemas/id-5.avsc. `lakehouse schema pull --id 5"),
        ("CREATE STREAM s WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=2147483648);",
         "VALUE_SCHEMA_ID takes a whole number from 1 to 2147483647"),
        ("CREATE STREAM s WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON_SR', VALUE_SCHEMA_ID=5);",
         "VALUE_SCHEMA_ID is for VALUE_FORMAT='AVRO', and this one is JSON_SR"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO');"
         "CREATE STREAM t WITH (VALUE_SCHEMA_ID=5) AS SELECT * FROM s;",
         "VALUE_SCHEMA_ID is for a stream or table over a topic"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO', KEY_SCHEMA_ID=5);",
         "KEY_SCHEMA_ID is for KEY_FORMAT='AVRO', and this one is KAFKA"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='JSON', VALUE_SCHEMA_FULL_NAME='a.b');",
         "VALUE_SCHEMA_FULL_NAME is for a VALUE_FORMAT with a schema registry, and this one is JSON"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO', VALUE_SCHEMA_FULL_NAME='a.1b');",
         "VALUE_SCHEMA_FULL_NAME='a.1b': expected a record's full name"),
        (IN_JSON + "CREATE STREAM t WITH (KEY_FORMAT='AVRO', KEY_SCHEMA_FULL_NAME='a.b') AS SELECT id, a FROM j;",
         "KEY_SCHEMA_FULL_NAME names a record, and this key is one value alone"),
        (IN_JSON + "CREATE STREAM t WITH (VALUE_FORMAT='AVRO') AS SELECT id, `b c` FROM j;",
         "VALUE_FORMAT='AVRO': column 'b c': a name in Avro is of letters"),
        (IN_JSON + "CREATE STREAM t WITH (VALUE_FORMAT='AVRO') AS SELECT id, s FROM j;", "field 'd e'"),
        (IN_JSON + "CREATE STREAM t WITH (VALUE_FORMAT='AVRO', WRAP_SINGLE_VALUE=false) AS SELECT id, a, s FROM j;",
         "WRAP_SINGLE_VALUE"),
        (IN_JSON + "CREATE STREAM t (id INT KEY, `b c` INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='AVRO');"
         "INSERT INTO t SELECT id, `b c` FROM j;", "column 'b c'"),
    ],
)  # fmt: skip
def test_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refusal(text, tmp_path)


@pytest.mark.parametrize(
    ("part_name", "schema", "expected"),
    [
        ("value", {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["int", "string"]}]},
         "field 'x': union of int, string is no type of a column"),
        ("value", {"type": "record", "name": "R", "fields": []}, "record R has no fields"),
        ("value", {"type": "record"}, "a record without a name"),
        ("value", {"type": "record", "name": "R", "fields": [SKU, {"name": "Sku", "type": "int"}]},
         "duplicate column name: SKU. The pinned schema has a field 'Sku', and another column has its name"),
        ("value", {"type": "record", "name": "R", "fields": [{"name": "rowtime", "type": "int"}]},
         "'ROWTIME' is a reserved column name"),
        ("key", {"type": "map", "values": "int"}, "a key can't be a MAP"),
    ],
)  # fmt: skip
def test_schemas_that_give_no_columns(tmp_path: Path, part_name: str, schema: Any, expected: str) -> None:
    pin(tmp_path, "o", part_name, schema)
    text = "CREATE STREAM s WITH (KAFKA_TOPIC='o', VALUE_FORMAT='AVRO');"
    if part_name == "key":
        text = "CREATE STREAM s (x INT) WITH (KAFKA_TOPIC='o', FORMAT='AVRO');"
    assert expected in refusal(text, tmp_path)


@pytest.mark.rotated
def test_spark_gives_what_the_model_gives(spark: SparkSession) -> None:
    app = application(ORDERS + TOTALS)
    for engine in ("model", "spark"):
        replay = Replay(app, engine=engine)  # type: ignore[arg-type]
        replay.send("orders", key=1, value=ROW).send("orders", key=2, value={**ROW, "AMOUNT": None}).send(
            "orders", key=3
        )
        replay.send("orders", key=4, value_bytes=b"{}")
        result = replay.run()
        assert result.rows("TOTALS") == [{"CITY": "Rome", "TOTAL": Decimal("12.50")}], engine
