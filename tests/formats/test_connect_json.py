"""Rows of Kafka Connect in JSON: with a schema beside them and without, keys, values alone, and what does not fit."""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import PlanError, SqlError
from lakehouse.formats.decode import decode_columns, decode_key, reason_not_fitting
from lakehouse.formats.values.unfit import Unfit
from lakehouse.formats.written_form import decode_written_key, encode_written_key
from lakehouse.ksql.script import Script, application
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.origin import Source
from lakehouse.testing import Replay

CONNECT = "org.apache.kafka.connect.data."
COLUMNS = parse_schema(
    "Name string, amount decimal(10, 2), at timestamp, day date, clock bigint, raw binary, tags array<string>, "
    "sizes map<string, int>, home struct<zip: int, fee: decimal(6, 3)>, deleted string from '__deleted'",
    "test",
)
FIELDS: list[dict[str, Any]] = [
    {"field": "name", "type": "string", "optional": True},
    {"field": "amount", "type": "bytes", "name": CONNECT + "Decimal", "version": 1, "parameters": {"scale": "2"}},
    {"field": "at", "type": "int64", "name": CONNECT + "Timestamp", "version": 1},
    {"field": "day", "type": "int32", "name": CONNECT + "Date", "version": 1},
    {"field": "clock", "type": "int32", "name": CONNECT + "Time", "version": 1},
    {"field": "raw", "type": "bytes"},
    {"field": "tags", "type": "array", "items": {"type": "string"}},
    {"field": "sizes", "type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}},
    {"field": "home", "type": "struct", "fields": [
        {"field": "zip", "type": "int32"},
        {"field": "fee", "type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "3"}},
    ]},
]  # fmt: skip
SCHEMA = {"type": "struct", "fields": FIELDS, "optional": False, "name": "orders"}
PAYLOAD = {
    "name": "ann", "amount": "AeI6", "at": 1767225600123, "day": 20454, "clock": 61000, "raw": "AAE=",
    "tags": ["a", None], "sizes": {"s": 1}, "home": {"zip": 7, "fee": "+w=="}, "__deleted": "false",
}  # fmt: skip
ROW = {
    "Name": "ann", "amount": Decimal("1234.50"), "at": datetime(2026, 1, 1, 0, 0, 0, 123000, UTC),
    "day": date(2026, 1, 1), "clock": 61000, "raw": b"\0\1", "tags": ["a", None], "sizes": {"s": 1},
    "home": {"zip": 7, "fee": Decimal("-0.005")}, "deleted": "false",
}  # fmt: skip


def value(item: Any, columns: Any = COLUMNS) -> Any:
    """Return the row in a value, or the reason why there is none."""
    data = json.dumps(item).encode() if not isinstance(item, bytes) else item
    try:
        return decode_columns("connect_json", columns, data)
    except Unfit as error:
        return str(error)


def key(item: Any, columns: str = "id bigint") -> Any:
    data = None if item is None else json.dumps(item).encode()
    return decode_key("connect_json", parse_schema(columns, "test"), data)


def test_a_row_by_its_schema() -> None:
    for _ in range(2):  # the schema is known the second time
        assert value({"schema": SCHEMA, "payload": PAYLOAD}) == ROW
    assert value({"payload": PAYLOAD, "schema": SCHEMA}) == ROW
    numeric = {"schema": SCHEMA, "payload": PAYLOAD | {"amount": 1234.5}}  # decimal.format=NUMERIC
    assert value(numeric) == ROW


def test_a_row_without_a_schema_has_only_what_json_says() -> None:
    plain = {"name": "ann", "amount": 12.5, "at": "2026-01-01T00:00:00.123Z", "day": "2026-01-01", "clock": 61000}
    expected = dict.fromkeys(ROW) | {name: ROW[name] for name in ("Name", "at", "day", "clock")}
    for item in (plain, {"schema": None, "payload": plain}):
        assert value(item) == expected | {"amount": Decimal("12.50")}
    assert value(PAYLOAD | {"at": 1}).startswith(
        "field amount: a text may be the bytes of a decimal(10, 2) or its digits, and no schema says which: let the "
        "converter write it (schemas.enable=true)"
    )
    assert value({"at": 1}).startswith("field at: a number may be milliseconds, microseconds or nanoseconds")


def test_a_null() -> None:
    for item in (None, {"schema": None, "payload": None}, {"schema": SCHEMA | {"optional": True}, "payload": None}):
        assert value(item) is None
        assert key(item) is None


def test_a_value_alone() -> None:
    (column,) = parse_schema("amount decimal(10, 2)", "test")
    item = {"schema": {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "2"}}, "payload": "AeI6"}
    for _ in range(2):
        assert value(item, (column,)) == {"amount": Decimal("1234.50")}
    assert value(12.5, (column,)) == {"amount": Decimal("12.50")}
    assert value({"schema": {"type": "string"}, "payload": "x"}) == (
        'expected an object of Name, amount, at, day, clock, raw, tags, sizes, home, __deleted, found "x"'
    )


def test_a_map_alone_is_the_value_if_its_schema_says_so() -> None:
    (column,) = parse_schema("m map<string, int>", "test")
    schema = {"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}
    for _ in range(2):
        assert value({"schema": schema, "payload": {"k": 1, "m": None}}, (column,)) == {"m": {"k": 1, "m": None}}
    assert value({"schema": schema, "payload": {"m": {"k": 1}}}, (column,)).startswith("field m: expected int")
    around = {"type": "struct", "fields": [{"field": "m"} | schema]}
    for item in ({"schema": around, "payload": {"m": {"k": 1}}}, {"m": {"k": 1}}):
        assert value(item, (column,)) == {"m": {"k": 1}}
    assert value({"k": 1}, (column,)) == {"m": None}  # nothing says that it is a map
    decimals = {"type": "map", "values": {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "2"}}}
    columns = parse_schema("m map<string, decimal(10, 2)>", "test")
    assert value({"schema": decimals, "payload": {"k": "AeI6"}}, columns) == {"m": {"k": Decimal("1234.50")}}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"a": 1}, {"k": (1, None)}),
        ({"A": 1, "b": 2}, {"k": (1, 2)}),
        ({"K": {"a": 1, "b": 2}}, {"k": (1, 2)}),
        ({"other": 1}, None),
    ],
)
def test_a_key_that_is_a_struct_stands_alone_as_in_json(payload: Any, expected: Any) -> None:
    columns = "k struct<a: int, b: int>"
    alone = {"type": "struct", "fields": [{"field": "a", "type": "int32"}, {"field": "b", "type": "int32"}]}
    items = [payload, {"schema": None, "payload": payload}, {"schema": alone, "payload": payload}]
    for item in items:
        found = key(item, columns)
        assert (found and {name: tuple(part.values()) for name, part in found.items()}) == expected


def test_a_schema_is_looked_through_once_for_all_items() -> None:
    """A record of 1 MB with a schema of many fields and many items took a minute."""
    many = 20_000
    struct: Any = {"type": "struct", "fields": [{"field": f"f{place}", "type": "int32"} for place in range(many)]}
    inner = {"type": "struct", "fields": [{"field": "inner"} | struct]}
    for kind, items_schema, item in (
        ("array<struct<f7: int>>", {"type": "array", "items": struct}, [{"F7": 1}] * many),
        ("map<string, struct<f7: int>>", {"type": "map", "values": struct}, {str(n): {} for n in range(many)}),
        ("array<struct<inner: struct<f7: int>>>", {"type": "array", "items": inner}, [{"inner": {}}] * many),
    ):
        schema = {"type": "struct", "fields": [{"field": "a"} | items_schema]}
        data = json.dumps({"schema": schema, "payload": {"a": item}}).encode()
        started = time.process_time()
        row = value(data, parse_schema(f"a {kind}", "test"))
        assert len(row["a"]) == many
        assert time.process_time() - started < 10


def test_keys() -> None:
    struct = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, {"field": "n", "type": "string"}]}
    for item in (7, {"id": 7}, {"ID": 7}, {"schema": {"type": "int64"}, "payload": 7},
                 {"schema": struct, "payload": {"id": 7}}, {"schema": None, "payload": 7}):  # fmt: skip
        assert key(item) == {"id": 7}
    assert key({"schema": struct, "payload": {"id": 7, "n": "a"}}, "n string, id bigint") == {"n": "a", "id": 7}
    assert key({"schema": struct, "payload": {"x": 1}}) is None


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (b"", "expected JSON"),
        (b"{", "expected a JSON object that ends with }"),
        (b"\xff", "expected UTF-8"),
        (b"7 7", "expected one JSON value"),
        ({"schema": SCHEMA, "payload": PAYLOAD | {"amount": "AeI6AeI6AeI6"}}, "field amount: expected decimal(10, 2)"),
        ({"schema": SCHEMA, "payload": PAYLOAD | {"at": 10**30}}, "field at: expected timestamp in the years"),
        ({"schema": SCHEMA, "payload": PAYLOAD | {"raw": 7}}, "field raw: expected base64"),
        ({"schema": SCHEMA, "payload": 7}, "expected an object of Name"),
        ({"schema": 7, "payload": {"amount": []}}, {**dict.fromkeys(ROW)}),  # no schema: these are two fields
    ],
)
def test_what_does_not_fit(item: Any, reason: Any) -> None:
    found = value(item)
    assert found == reason if isinstance(reason, dict) else found.startswith(reason), found


def test_text_behind_an_object_is_read_alike_with_a_schema_that_is_known() -> None:
    """What a process has read before makes no difference."""
    (column,) = parse_schema("n int", "test")
    text = json.dumps({"schema": {"type": "int32", "doc": "z"}, "payload": 1}) + "{}"
    first, again = (value(text.encode(), (column,)) for _ in range(2))
    assert first == again == {"n": 1}


def test_the_reason_for_a_key_names_the_format() -> None:
    columns = parse_schema("id bigint", "test")
    data = json.dumps({"schema": {"type": "int64"}, "payload": 7}).encode()
    reason = reason_not_fitting("key", "kafka", columns, data)
    assert reason
    assert reason.endswith("; as connect_json (key_format) it is 7")
    plain = reason_not_fitting("key", "kafka", columns, b'{"id": 7}')
    assert plain
    assert plain.endswith("; as json (key_format) it is 7")


def test_keys_as_people_write_them() -> None:
    source = lh.stream("t", key="id bigint", key_format="connect_json", schema="n int").source
    assert isinstance(source, Source)
    with_schema = {"schema": {"type": "int64"}, "payload": 7}
    data = encode_written_key(source, with_schema)
    assert data
    assert json.loads(data) == with_schema
    assert decode_written_key(source, data) == 7
    assert encode_written_key(source, 7) == b'{"id":7}'


def test_nothing_writes_it() -> None:
    stream = lh.stream("t", key="id int", format="connect_json", key_format="connect_json", schema="n int")
    for part in ("format", "key_format"):
        with pytest.raises(PlanError, match=f"{part}='connect_json' is only read: others write it. Use 'json'"):
            stream.latest("t2").changes().to_topic("out", **{part: "connect_json"})


def test_in_sql() -> None:
    declared = """CREATE STREAM orders (id BIGINT KEY, name VARCHAR, amount DECIMAL(10, 2), at TIMESTAMP, day DATE)
        WITH (KAFKA_TOPIC='orders', FORMAT='CONNECT_JSON', TIMESTAMP='AT');"""
    app = application(declared + "CREATE TABLE newest AS SELECT id, LATEST_BY_OFFSET(amount) AS amount, "
                      "LATEST_BY_OFFSET(day) AS day FROM orders GROUP BY id;")  # fmt: skip
    (sink,) = app.sinks
    assert (sink.format, sink.key_format) == ("json+epoch", "json_bare+epoch")
    key_text = {"schema": {"type": "int64"}, "payload": 7}
    replay = Replay(app).send("orders", key=key_text, value={"schema": SCHEMA, "payload": PAYLOAD})
    assert replay.run().rows("NEWEST") == [{"ID": 7, "AMOUNT": Decimal("1234.50"), "DAY": date(2026, 1, 1)}]
    for refused, reason in (
        ("CREATE STREAM s WITH (VALUE_FORMAT='CONNECT_JSON') AS SELECT * FROM orders;",
         "VALUE_FORMAT='CONNECT_JSON' is only read: others write such records"),
        ("CREATE STREAM s AS SELECT * FROM orders; INSERT INTO orders SELECT * FROM s;",
         "cannot insert into ORDERS: others write records in CONNECT_JSON"),
    ):  # fmt: skip
        with pytest.raises(SqlError) as error:
            application(declared + refused)
        assert reason in str(error.value)
    script = Script()
    script.run(declared + "INSERT INTO orders (id) VALUES (1);")
    with pytest.raises(SqlError, match="cannot insert values into ORDERS: others write records in CONNECT_JSON"):
        script.inserted_records()
