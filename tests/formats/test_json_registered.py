"""JSON behind a registry's prefix: read and written, with the JSON Schema of the columns; and what has no prefix."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import ConfigError, PlanError, SqlError
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import WriterSchemas, with_prefix
from lakehouse.formats.decode import decode_columns, decode_key, decode_record, reason_not_fitting, written_schemas
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.formats.values.json_schema import title_of
from lakehouse.formats.values.json_validation import check_json
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import (
    decode_written_key,
    decode_written_value,
    encode_written_key,
    encode_written_value,
)
from lakehouse.ksql.script import application
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.plan.expression.schema import Column, parse_schema
from lakehouse.plan.origin import Source
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.run.repair.fixes import bytes_of_text
from lakehouse.run.schemas.written_schemas import schema_to_write
from lakehouse.semantics.record import Record
from lakehouse.testing import Replay

COLUMNS = parse_schema(
    "i int, m decimal(9, 2), d double, b boolean, s string, raw binary, day date, at timestamp, "
    "home struct<zip: int>, tags array<string>, counts map<string, bigint>",
    "test",
)
ROW: dict[str, Any] = {
    "i": 7, "m": Decimal("12.50"), "d": 0.5, "b": True, "s": "é", "raw": b"\0\1", "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC), "home": {"zip": None}, "tags": ["a", None], "counts": {"x": 1},
}  # fmt: skip
AVRO = WriterSchema("AVRO", '"long"')
EXPECTED = "value: expected the byte 0, a schema's id of 4 bytes and a value, found "


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]}


@pytest.mark.parametrize("row", [ROW, dict.fromkeys(ROW)])
def test_rows_are_read_back(row: dict[str, Any]) -> None:
    data = encode_value("json_sr?id=300", COLUMNS, row)
    assert data is not None
    assert data[:6] == b"\0\0\0\1\x2c{"
    assert data[5:] == encode_value("json", COLUMNS, row)
    assert decode_columns("json_sr", COLUMNS, data) == row
    assert decode_columns("json_sr", COLUMNS, with_prefix(1, b" null")) is None


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "no byte"),
        (b'{"i": 7}', "0x7b2269223a20377d: it looks like JSON"),
        (b"\0\0\0\0", "0x00000000. If the id is in a header"),
        (b"\0\0\0\0\0{}", "the id 0: an id of 8 bytes?"),
        (b"\0\x80\0\0\0{}", "the id 2147483648: an id of 8 bytes?"),
        (b"\1" + b"\0" * 16 + b"{}", "the byte 1: a schema's GUID"),
    ],
)
def test_bytes_without_a_prefix(data: bytes, found: str) -> None:
    reason = reason_not_fitting("value", "json_sr", COLUMNS, data)
    assert (reason or "").startswith(EXPECTED + found)


def test_what_stands_behind_the_prefix_has_the_reasons_of_json() -> None:
    for text in (b'{"i": "x"}', b"[]", b"\xff", b"", b"{"):
        plain = reason_not_fitting("value", "json", COLUMNS, text)
        assert reason_not_fitting("value", "json_sr", COLUMNS, with_prefix(7, text)) == plain


@pytest.mark.parametrize(
    ("format", "text", "row"),
    [
        ("json_sr", b"7", {"id": 7}),
        ("json_sr", b'{"id":7}', {"id": 7}),
        ("json_sr_any_case", b'{"ID":"7"}', {"id": 7}),
        ("json_sr_bare", b"7", {"id": 7}),
        ("json_sr", b"null", None),
    ],
)
def test_keys_stand_in_an_object_or_alone(format: str, text: bytes, row: Any) -> None:
    columns = parse_schema("id bigint", "test")
    assert decode_key(format, columns, with_prefix(9, text)) == row


def test_a_key_or_a_value_in_another_form_has_a_hint() -> None:
    key = parse_schema("id bigint", "test")
    assert "; as json (key_format) it is 7" in str(reason_not_fitting("key", "json_sr", key, b'{"id": 7}'))
    assert "; as json_sr (key_format) it is 7" in str(
        reason_not_fitting("key", "json", key, with_prefix(5, b'{"id":7}'))
    )
    reason = reason_not_fitting("value", "json", COLUMNS, with_prefix(5, b"{}"))
    assert str(reason).endswith("(the byte 0 and then 5: a value in JSON with a registry's schema 5?)")


def test_people_write_the_json_alone() -> None:
    source = lh.stream("t", key="id bigint", schema="i int, s string", format="json_sr", key_format="json_sr").source
    key, value = encode_written_key(source, 5), encode_written_value(source, {"i": "no int", "s": "x"})
    assert (key, value) == (with_prefix(1, b'{"id":5}'), with_prefix(1, b'{"i":"no int","s":"x"}'))
    assert decode_written_key(source, with_prefix(300, b"5")) == 5
    assert decode_written_value(source, with_prefix(300, b'{"i": 1}')) == {"i": 1}
    newest = WriterSchemas({3: WriterSchema("JSON", "true"), 9: WriterSchema("JSON", "{}"), 12: AVRO})
    assert bytes_of_text(source, "value", '{"i": 1}', lambda *_: newest) == with_prefix(9, b'{"i": 1}')
    with pytest.raises(ConfigError, match=r"no schema of the topic's writers is known .* by --key-file"):
        bytes_of_text(source, "key", "7")
    with pytest.raises(Unfit, match="it looks like JSON"):
        decode_written_value(source, b"{}")


def test_the_schema_of_an_object() -> None:
    format = "json_sr?id=7&name=shop.Order"
    (item,) = written_schemas(format, COLUMNS, is_key=False).items()
    (id, schema) = item
    assert (id, schema.kind, title_of(schema.text)) == (7, "JSON", "shop.Order")
    properties = {
        "i": {"type": "integer"}, "m": {"type": "number"}, "b": {"type": "boolean"},
        "s": {"type": "string"}, "raw": {"type": "string", "contentEncoding": "base64"},
        "day": {"type": "string", "format": "date"}, "at": {"type": "string", "format": "date-time"},
        "home": {
            "type": "object", "properties": {"zip": or_null({"type": "integer"})}, "additionalProperties": False,
        },
        "tags": {"type": "array", "items": or_null({"type": "string"})},
        "counts": {"type": "object", "additionalProperties": or_null({"type": "integer"})},
    }  # fmt: skip
    double = {"oneOf": [{"type": "null"}, {"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
    assert json.loads(schema.text) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "shop.Order",
        "type": "object",
        "properties": {name: or_null(part) for name, part in properties.items()} | {"d": double},
        "additionalProperties": False,
    }
    (in_sql,) = written_schemas("json_sr+epoch", COLUMNS, is_key=False).values()
    written = json.loads(in_sql.text)["properties"]
    assert [written[name] for name in ("day", "at")] == [or_null({"type": "integer"})] * 2


def test_the_schema_of_a_value_alone() -> None:
    columns = parse_schema("n bigint", "test")
    key, value = (written_schemas("json_sr_bare", columns, is_key=is_key)[1].text for is_key in (True, False))
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "lakehouse.row"}
    assert json.loads(key) == {**head, "type": "integer"}
    assert json.loads(value) == {**head, **or_null({"type": "integer"})}
    assert encode_key("json_sr_bare", columns, {"n": 7}) == with_prefix(1, b"7")
    assert encode_value("json_sr_bare", columns, {"n": None}) == with_prefix(1, b"null")
    (unknown,) = written_schemas("json_sr", (Column("x", "variant"),), is_key=False).values()
    assert json.loads(unknown.text)["properties"] == {"x": or_null({})}


def test_a_schema_keeps_the_title_of_the_one_before() -> None:
    columns = parse_schema("n bigint", "test")
    first = schema_to_write("my-topic", "value", "json_sr", columns)
    assert title_of(first.text) == "lakehouse.my_topic_value"
    named = schema_to_write("my-topic", "value", "json_sr?name=shop.N", columns)
    assert title_of(schema_to_write("my-topic", "value", "json_sr", columns, named).text) == "shop.N"
    untitled = replace(named, text='{"type": "object"}')
    assert schema_to_write("my-topic", "value", "json_sr", columns, untitled) == first
    assert [title_of(text) for text in ("", "[]", '{"title": 1}')] == ["", "", ""]


def test_columns_are_declared() -> None:
    with pytest.raises(PlanError, match="schema is missing, and columns are not taken from a JSON Schema"):
        lh.stream("t", key="id string", format="json_sr")
    source = lh.stream("t", key="id bigint", schema="n int", format="json_sr", key_format="json_sr").source
    assert (source.is_registered, source.registered_parts) == (False, ())  # no table waits for a registry
    assert codec_of("json_sr").format.traits.is_registered


STATEMENTS = """
CREATE STREAM orders (id BIGINT KEY, city VARCHAR, at TIMESTAMP, `b c` INT)
  WITH (KAFKA_TOPIC='orders', FORMAT='JSON_SR', VALUE_SCHEMA_FULL_NAME='shop.Order');
CREATE STREAM copy AS SELECT * FROM orders;
CREATE TABLE per_city WITH (KEY_FORMAT='JSON_SR') AS SELECT city, COUNT(*) AS n, MAX(id) AS x FROM orders GROUP BY city;
"""


def test_sql_reads_and_writes_it_as_json() -> None:
    app = application(STATEMENTS)
    (source,), (copy, per_city) = app.sources, app.sinks
    assert (source.key_format, source.value_format) == ("json_sr_bare", "json_sr_any_case")
    assert copy.format.startswith("json_sr")
    assert copy.format.endswith("+epoch")
    assert copy.key_format.startswith("json_sr_bare")
    assert per_city.key_format.startswith("json_sr_bare")
    replay = Replay(app)
    replay.send("orders", key=1, value={"city": "Rome", "AT": 1_769_860_800_500, "b c": "3"})
    replay.send("orders", key=2, value={"CITY": "Rome"})
    result = replay.run()
    assert result.rows("PER_CITY") == [{"CITY": "Rome", "N": 2, "X": 2}]
    bare = application(
        "CREATE STREAM words (w VARCHAR) WITH (KAFKA_TOPIC='words', VALUE_FORMAT='JSON_SR', WRAP_SINGLE_VALUE=false);"
        "CREATE TABLE n AS SELECT w, COUNT(*) AS n FROM words GROUP BY w;"
    )
    assert bare.sources[0].value_format == "json_sr_bare"
    assert Replay(bare).send("words", value="a").run().rows("N") == [{"W": "a", "N": 1}]


@pytest.mark.parametrize(
    ("columns", "formats", "expected"),
    [
        ("", "VALUE_FORMAT='JSON_SR'", "VALUE_FORMAT='JSON_SR' and no column is named"),
        ("(a INT)", "FORMAT='JSON_SR'", "KEY_FORMAT='JSON_SR' and no column is named: columns are not inferred"),
    ],
)
def test_sql_infers_no_columns(columns: str, formats: str, expected: str) -> None:
    with pytest.raises(SqlError, match=expected):
        application(f"CREATE STREAM s {columns} WITH (KAFKA_TOPIC='s', {formats});")


def test_the_name_in_sql_is_a_title_and_may_be_any_text() -> None:
    (sink,) = application(
        "CREATE STREAM a (x INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON_SR');"
        "CREATE STREAM b WITH (VALUE_SCHEMA_FULL_NAME='An order, 2nd + last?', WRAP_SINGLE_VALUE=false) "
        "AS SELECT * FROM a;"
    ).sinks
    schema = schema_to_write("b", "value", sink.format, parse_schema("X int", "test"))
    assert title_of(schema.text) == "An order, 2nd + last?"
    with pytest.raises(SqlError, match="expected a record's full name in Avro"):
        application(
            "CREATE STREAM a (x INT, y INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='AVRO', "
            "VALUE_SCHEMA_FULL_NAME='An order');"
        )


def test_every_value_fits_the_schema_in_which_it_is_written() -> None:
    for row in (ROW, dict.fromkeys(ROW), {**ROW, "d": float("nan")}, {**ROW, "d": float("-inf")}):
        (schema,) = written_schemas("json_sr", COLUMNS, is_key=False).values()
        data = encode_value("json_sr", COLUMNS, row)
        assert data is not None
        check_json(schema, data[5:])
        read = decode_columns("json_sr", COLUMNS, data)
        assert read is not None
        assert repr(read["d"]) == repr(row["d"])


CLICK = {
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["user"],
    "properties": {
        "user": {"type": "string", "pattern": "^[a-z]+$"},
        "cost": {"type": "number", "maximum": 100},
        "place": {"$ref": "https://shop.example/place.json"},
    },
}  # fmt: skip
PLACE = {"$id": "https://shop.example/place.json", "type": "object", "properties": {"zip": {"type": "integer"}}}
WRITERS = WriterSchemas(
    {
        7: WriterSchema("JSON", json.dumps(CLICK), (json.dumps(PLACE),)),
        8: WriterSchema("JSON", '{"type": "object"}'),
        9: AVRO,
        10: WriterSchema("JSON", json.dumps({"$ref": "http://127.0.0.1:9/evil.json"})),
        11: WriterSchema("JSON", "{"),
        12: WriterSchema("JSON", '{"$ref": "file:///etc/passwd"}'),
    }
)
CLICK_COLUMNS = parse_schema("user string, cost double, place struct<zip: int>", "test")


ZIP, REFERRING = {"type": "integer"}, {"properties": {"zip": {"$ref": "zip.json"}}}


@pytest.mark.parametrize(
    ("root_id", "ref", "place_id", "names"),
    [
        (None, "place.json", None, ("zip.json", "place.json")),
        (None, "https://shop.example/place.json", None, ("zip.json", "https://shop.example/place.json")),
        ("https://shop.example/click.json", "place.json", None, ("zip.json", "place.json")),
        ("https://shop.example/click.json", "https://other.example/p", "https://other.example/p", ("zip.json", "a: b")),
        (None, "https://other.example/p", "https://other.example/p", ("zip.json", "//[:place")),
    ],
)
def test_a_schema_is_found_by_the_name_that_the_registry_has_for_it(
    root_id: str | None, ref: str, place_id: str | None, names: tuple[str, ...]
) -> None:
    """As by Confluent's serializers; a name need be no URL."""
    place = REFERRING | ({"$id": place_id} if place_id else {})
    root = {"properties": {"place": {"$ref": ref}}} | ({"$id": root_id} if root_id else {})
    schema = WriterSchema("JSON", json.dumps(root), (json.dumps(ZIP), json.dumps(place)), names)
    check_json(schema, b'{"place": {"zip": 1}}')
    with pytest.raises(Unfit, match=r"^/place/zip: expected what /type in the schema says"):
        check_json(schema, b'{"place": {"zip": "1"}}')


@pytest.mark.parametrize(
    ("id", "text", "reason"),
    [
        (7, b'{"user": "ann", "cost": 1.5, "place": {"zip": 7}}', None),
        (7, b"null", None),
        (8, b'{"user": "!"}', None),
        (7, b'{"cost": 1}', 'the whole: expected what /required in the schema says, found that "user" is a required'),
        (7, b'{"user": "a1"}', "/user: expected what /properties/user/pattern in the schema says, found that "),
        (7, b'{"user": "a", "cost": 101}', "/cost: expected what /properties/cost/maximum in the schema says, found "),
        (
            7,
            b'{"user": "a", "place": {"zip": 1.5}}',
            "field place: field zip: expected",
        ),  # what is declared is looked at first
        (7, b'{"user": "a", "cost": NaN}', "expected JSON, found NaN"),
        (7, b'{"user": "a", "more": 1e400, "cost": "x"}', "field cost: expected"),
        (9, b"{}", "expected a JSON Schema, found one of AVRO"),
        (10, b"{}", "expected a JSON Schema that can be used, found Resource 'http://127.0.0.1:9/evil.json'"),
        (11, b"{}", "expected a JSON Schema that can be used, found "),
        (12, b"{}", "expected a JSON Schema that can be used, found Resource 'file:///etc/passwd'"),
        (99, b"{}", "the registry has no schema of that id"),
    ],
)
def test_a_validated_value_fits_its_writers_schema(id: int, text: bytes, reason: str | None) -> None:
    found = reason_not_fitting("value", "json_sr_valid", CLICK_COLUMNS, with_prefix(id, text), WRITERS)
    if reason is None:
        assert found is None
    elif reason.startswith("field"):
        assert str(found).startswith(f"value: {reason}")
    else:
        assert str(found).startswith(f"value: schema {id}: {reason}"), found


@pytest.mark.parametrize(
    ("rule", "fits", "does_not_fit"),
    [
        ('"maximum": 9999999999999999.99', "9999999999999999.99", "10000000000000000.00"),
        ('"maximum": 9007199254740992', "9007199254740992.00", "9007199254740992.01"),
        ('"maximum": 1', "-1e999999999", "1e999999999"),
        ('"exclusiveMinimum": 0', "1e-400", "0.0"),
        ('"exclusiveMaximum": 1', "0.99999999999999999999", "1.0"),
        ('"type": "integer"', "5.0", "5.00000000000000001"),
        ('"multipleOf": 0.01', "0.07", "1.00000000000000000001"),
        ('"const": 1.50', "1.5", "1.500000000000000001"),
    ],
)
def test_numbers_are_compared_digit_by_digit(rule: str, fits: str, does_not_fit: str) -> None:
    writers = WriterSchemas({7: WriterSchema("JSON", f'{{"properties": {{"a": {{{rule}}}}}}}')})
    for text, expected in ((fits, True), (does_not_fit, False)):
        data = with_prefix(7, f'{{"a": {text}}}'.encode())
        reason = reason_not_fitting("value", "json_sr_valid", (Column("a", "string"),), data, writers)
        assert (reason is None) == expected, reason


def test_a_validated_stream_is_declared_typed_and_tested() -> None:
    stream = lh.stream(
        "clicks", key="id bigint", schema="user string", format="json_sr", key_format="json_sr", validate=True
    )
    source = stream.source
    assert isinstance(source, Source)
    assert (source.value_format, source.registered_parts) == ("json_sr_valid", ("key", "value"))
    app = lh.app(stream.latest("last_click"))
    assert app.pinned_parts == ()
    with pytest.raises(PlanError, match=r"validate=True, and neither its values, in json, nor its keys"):
        lh.stream("clicks", key="id bigint", schema="user string", validate=True)

    def find(*_: str) -> WriterSchemas:
        return WriterSchemas({id: WRITERS[id] for id in (7, 8)})

    assert bytes_of_text(source, "value", '{"user": "!"}', find)[:5] == with_prefix(8, b"")
    strict = WriterSchemas({7: WRITERS[7]})
    assert bytes_of_text(source, "value", '{"user": "ann"}', lambda *_: strict)[:5] == with_prefix(7, b"")
    with pytest.raises(ConfigError, match=r"schema 7: /user: expected what .* by --value-file"):
        bytes_of_text(source, "value", '{"user": "!"}', lambda *_: strict)
    replay = Replay(app)
    replay.send("clicks", key=1, value={"user": "ann"})
    assert replay.run().rows("last_click") == [{"id": 1, "user": "ann"}]


def test_a_stream_in_sql_is_validated_and_keeps_its_names_in_any_case() -> None:
    statement = (
        "CREATE STREAM clicks (id BIGINT KEY, `user` VARCHAR, COST INT) WITH (KAFKA_TOPIC='clicks', FORMAT='JSON_SR', "
        "VALIDATE=true); CREATE TABLE costs AS SELECT id, SUM(cost) AS cost FROM clicks GROUP BY id;"
    )
    (source,) = application(statement).sources
    assert source.registered_parts == ("key", "value")
    writers = WriterSchemas({**WRITERS, 6: WriterSchema("JSON", '{"maximum": 5}')})
    parts = [
        (b"4", b'{"user": "a", "cost": 5}'), (b"4", b'{"user": "a", "cost": 101}'), (b"4", b'{"cost": 5}'),
        (b"7", b'{"user": "a"}'),
    ]  # fmt: skip
    records = [
        Record("clicks", "t", 0, n, 1, with_prefix(6, key), with_prefix(7, value), 1, 1)
        for n, (key, value) in enumerate(parts)
    ]
    outcomes = [decode_record(source, record, lambda *_: writers) for record in records]
    assert isinstance(outcomes[0], DecodedRecord)
    reasons = [bad.reason for bad in outcomes if isinstance(bad, BadRecord)]
    assert [reason.partition(": expected")[0] for reason in reasons] == [
        "value: schema 7: /cost", "value: schema 7: the whole", "key: schema 6: the whole",
    ]  # fmt: skip
    assert "key_format" not in reasons[2]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', VALIDATE=true);",
         "VALIDATE compares JSON with the schema of its writer, and the values are in JSON"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON_SR', VALIDATE='yes');",
         "VALIDATE is true or false"),
        ("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON_SR'); "
         "CREATE STREAM t WITH (VALIDATE=true) AS SELECT a FROM s;",
         "VALIDATE"),
    ],
)  # fmt: skip
def test_validation_in_sql_is_refused_where_nothing_can_be_compared(statement: str, error: str) -> None:
    with pytest.raises(SqlError, match=re.escape(error)):
        application(statement)
