"""A database's changes in Avro, as Debezium's connectors write them: rows, deletes, reasons; types by the schema."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.formats.codec.registered import LENGTH_MAX, WriterSchemas, with_prefix
from lakehouse.formats.decode import decode_columns, decode_record, find_declared
from lakehouse.formats.written_form import (
    decode_written_key,
    decode_written_value,
    encode_written_key,
    encode_written_value,
)
from lakehouse.model.model import BadRecord
from lakehouse.plan.origin import Source
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.semantics.record import Record

SCHEMA = (
    "name string, amount decimal(10, 2), made timestamp, seen timestamp, born date, photo binary, wide decimal(20, 4)"
)


def connect(type: str, name: str) -> dict[str, Any]:
    return {"type": type, "connect.version": 1, "connect.name": name}


DECIMAL = {"type": "bytes", "scale": 2, "precision": 10, "connect.version": 1, "logicalType": "decimal",
           "connect.name": "org.apache.kafka.connect.data.Decimal"}  # fmt: skip
VARIABLE = {
    "type": "record", "name": "VariableScaleDecimal", "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}  # fmt: skip
FIELDS: dict[str, Any] = {
    "ID": "int", "NAME": ["null", "string"], "AMOUNT": ["null", DECIMAL],
    "MADE": ["null", connect("long", "io.debezium.time.MicroTimestamp")],
    "SEEN": ["null", connect("string", "io.debezium.time.ZonedTimestamp")],
    "BORN": ["null", connect("int", "io.debezium.time.Date")], "PHOTO": ["null", "bytes"], "WIDE": ["null", VARIABLE],
}  # fmt: skip


def record(record_name: str, /, **types: Any) -> dict[str, Any]:
    return {"type": "record", "name": record_name, "fields": [{"name": name, "type": types[name]} for name in types]}


ROW = record("Value", **FIELDS)
ENVELOPE = record(
    "Envelope", before=["null", ROW], after=["null", "Value"],
    source=record("Source", version="string", ts_ms="long", lsn=["null", "long"]),
    op="string", ts_ms=["null", "long"],
)  # fmt: skip
FLATTENED = record("Flat", **FIELDS, __deleted=["null", "string"])
KEY = record("Key", ID="int")
EMPTY = dict.fromkeys(FIELDS)
PLACEHOLDER = "__debezium_unavailable_value"


def decoded(
    value: Any,
    written_by: Any = ENVELOPE,
    key: int = 1,
    schema: str = SCHEMA,
    bytes_replaced: tuple[bytes, bytes] = (b"", b""),
    **options: Any,
) -> Any:
    """Return the row of a value that another library writes, None for a delete, or the reason."""
    source = lh.debezium("shop.orders", key="id int", schema=schema, format="avro", **options).source
    assert isinstance(source, Source)
    data = []
    for id, own_schema, item in ((1, KEY, {"ID": key}), (2, written_by, value)):
        written = io.BytesIO()
        fastavro.schemaless_writer(written, fastavro.parse_schema(json.loads(json.dumps(own_schema))), item)
        data.append(with_prefix(id, written.getvalue().replace(*bytes_replaced)))
    schemas = WriterSchemas({1: WriterSchema("AVRO", json.dumps(KEY)), 2: WriterSchema("AVRO", json.dumps(written_by))})
    result = decode_record(source, Record("shop.orders", "t", 0, 0, 1, *data, 1, 1), lambda topic, part: schemas)
    if isinstance(result, BadRecord):
        return result.reason
    assert result.key == {"id": key}
    return result.value


def event(operation: str = "c", **after: Any) -> dict[str, Any]:
    row = {**EMPTY, "ID": 1, **after} if after else None
    return {
        "before": None,
        "after": row,
        "source": {"version": "3", "ts_ms": 7, "lsn": 33},
        "op": operation,
        "ts_ms": 9,
    }


def test_types_come_from_the_schema_and_names_from_the_declaration() -> None:
    row = decoded(
        event(
            NAME="a", AMOUNT=Decimal("-0.05"), MADE=1_500_001, SEEN="2026-01-01T02:00:00.5+01:00", BORN=1, PHOTO=b"\0",
            WIDE={"scale": 1, "value": (123).to_bytes(1, "big")},
        )
    )  # fmt: skip
    assert row == {
        "name": "a", "amount": Decimal("-0.05"), "made": datetime(1970, 1, 1, 0, 0, 1, 500_001, tzinfo=UTC),
        "seen": datetime(2026, 1, 1, 1, 0, 0, 500_000, tzinfo=UTC), "born": date(1970, 1, 2), "photo": b"\0",
        "wide": Decimal("12.3000"), "debezium_source_ts_ms": 7,
    }  # fmt: skip


@pytest.mark.parametrize("operation", ["c", "u", "r"])
def test_operations_with_a_row(operation: str) -> None:
    assert decoded(event(operation, NAME="a"))["name"] == "a"


def test_a_delete_is_a_null_value() -> None:
    assert decoded(event("d")) is None


def test_of_a_delete_the_bytes_of_meta_columns_are_read_and_their_values_are_not() -> None:
    """As on Spark: what is declared is read, of each event, and bytes with a negative length have no end."""
    assert decoded(event("d"), bytes_replaced=(b"\x023", b"\x01")) is None, "nobody reads the version"
    reason = decoded(event("d"), bytes_replaced=(b"\x023", b"\x01"), meta="version string from 'source.version'")
    assert reason == "value: schema 2: field source: field version: expected a length, found -1"
    too_long = event("d") | {"source": {"version": "3", "ts_ms": 7, "lsn": 2**40}}
    assert decoded(too_long, meta="lsn int from 'source.lsn'") is None


def test_envelopes_are_no_flattened_rows() -> None:
    for value in (event(NAME="a"), event("d")):
        assert "leave out flattened=True" in decoded(value, flattened=True)


def test_flattened_rows_say_that_they_are_deleted() -> None:
    row = {**EMPTY, "ID": 1, "NAME": "a"}
    assert decoded({**row, "__deleted": "false"}, FLATTENED, flattened=True)["name"] == "a"
    assert decoded({**row, "__deleted": "true"}, FLATTENED, flattened=True) is None
    with_boolean = record("Flat", **FIELDS, __deleted="boolean", __op="string")
    assert decoded({**row, "__deleted": True, "__op": "d"}, with_boolean, flattened=True) is None
    assert "op t" in decoded({**row, "__deleted": False, "__op": "t"}, with_boolean, flattened=True)


def test_a_flattened_row_may_be_in_a_union_with_null() -> None:
    row = {**EMPTY, "ID": 1, "NAME": "a"}
    nullable = ["null", record("Flat", **FIELDS, __deleted=["null", "boolean"], __op="string")]
    assert decoded({**row, "__deleted": False, "__op": "u"}, nullable, flattened=True)["name"] == "a"
    assert decoded({**row, "__deleted": True, "__op": "d"}, nullable, flattened=True) is None
    assert "op t" in decoded({**row, "__deleted": None, "__op": "t"}, nullable, flattened=True)
    assert "leave out flattened=True" in decoded(event(NAME="a"), ["null", ENVELOPE], flattened=True)
    assert decoded(event(NAME="a"), ["null", ENVELOPE])["name"] == "a"
    assert decoded(event("d"), ["null", ENVELOPE]) is None


@pytest.mark.parametrize(
    ("schema", "after", "expected"),
    [
        ("n int", {"N": 1, "n": 2}, {"n": 2}),
        ("x int from 'n', y int from 'N'", {"n": 3}, {"x": 3, "y": 3}),
        ("x int from 'n', y int from 'N'", {"n": 3, "N": 4}, {"x": 3, "y": 4}),
        ("x int from 'n', y string from 'N'", {"n": 3}, "field n: int, declared string"),
        ("no int", {"NO": 1, "No": 2}, "expected one field no, found NO, No"),
    ],
)
def test_of_names_that_differ_in_case_alone_the_exact_one_counts(schema: str, after: Any, expected: Any) -> None:
    """As in JSON."""
    written_by = record("E", op="string", after=["null", record("V", **dict.fromkeys(after, "int"))])
    in_avro = decoded({"op": "u", "after": after}, written_by, schema=schema)
    source = lh.debezium("shop.orders", key="id int", schema=schema).source
    assert isinstance(source, Source)
    if isinstance(expected, dict):
        in_json = decode_columns(source.value_format, source.value, json.dumps({"op": "u", "after": after}).encode())
        assert {name: in_json[name] for name in expected} == expected
        assert {name: in_avro[name] for name in expected} == expected
    else:
        assert expected in in_avro


@pytest.mark.parametrize(("kind", "kept", "gone"), [("string", "false", "true"), ("boolean", False, True)])
def test_a_mark_of_a_flattened_row_may_be_declared_as_a_column(kind: str, kept: Any, gone: Any) -> None:
    """As in JSON."""
    schema = f"name string, kind string from '__op', gone {kind} from '__DELETED'"
    flat = record("Flat", **FIELDS, __op=["null", "string"], __deleted=["null", kind])
    row = {**EMPTY, "ID": 1, "NAME": "a", "__op": "u", "__deleted": kept}
    expected = {"name": "a", "kind": "u", "gone": kept}
    assert decoded(row, flat, schema=schema, flattened=True) == expected
    assert decoded({**row, "__op": None}, flat, schema=schema, flattened=True) == expected | {"kind": None}
    assert decoded({**row, "__op": "d"}, flat, schema=schema, flattened=True) is None
    assert decoded({**row, "__deleted": gone}, flat, schema=schema, flattened=True) is None
    assert "op t" in decoded({**row, "__op": "t"}, flat, schema=schema, flattened=True)
    source = lh.debezium("t", key="id int", schema=schema, format="avro", flattened=True).source
    assert isinstance(source, Source)
    written = {"name": "a", "__op": "c", "__DELETED": kept}
    data = encode_written_value(source, written)
    assert decode_written_value(source, data, find_declared([source])("t", "value")) == written


def array_of(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


@pytest.mark.parametrize(
    ("declared", "written_type", "value"),
    [
        ("string", "string", json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":"))),
        ("map<string, string>", {"type": "map", "values": ["null", "string"]}, {PLACEHOLDER: PLACEHOLDER}),
        ("array<string>", array_of(["null", "string"]), [PLACEHOLDER]),
        ("array<string>", array_of("string"), ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        ("array<binary>", array_of("bytes"), [PLACEHOLDER.encode()]),
        ("array<int>", array_of("int"), list(PLACEHOLDER.encode())),
        ("array<bigint>", array_of("int"), list(PLACEHOLDER.encode())),
        ("array<float>", array_of("float"), list(PLACEHOLDER.encode())),
        ("array<double>", array_of("double"), list(PLACEHOLDER.encode())),
        ("array<date>", array_of(connect("int", "io.debezium.time.Date")), list(PLACEHOLDER.encode())),
        ("array<timestamp>", array_of(connect("long", "io.debezium.time.Timestamp")), list(PLACEHOLDER.encode())),
        ("array<timestamp>", array_of(connect("long", "io.debezium.time.MicroTimestamp")), list(PLACEHOLDER.encode())),
        ("array<decimal(12, 3)>", array_of(DECIMAL), [Decimal(byte).scaleb(-2) for byte in PLACEHOLDER.encode()]),
        ("array<decimal(5, 0)>", array_of(VARIABLE), [{"scale": 0, "value": bytes([b])} for b in PLACEHOLDER.encode()]),
    ],
)
def test_a_placeholder_of_each_type(declared: str, written_type: Any, value: Any) -> None:
    """As in JSON, an array or an hstore that was not sent is no value of the database."""
    schema = record("E", op="string", after=["null", record("V", X=["null", written_type])])
    reason = decoded({"op": "u", "after": {"X": value}}, schema, schema=f"x {declared}")
    assert reason.startswith("value: schema 2: field x: not sent (TOAST)")
    other_value = value[:-1] if isinstance(value, list | str) else {"a": "b"}
    sent = decoded({"op": "u", "after": {"X": other_value}}, schema, schema=f"x {declared}, n int", meta="op string")
    assert len(sent["x"]) == len(other_value)


def test_bytes_of_a_placeholder_are_numbers_as_in_java() -> None:
    schema = record("E", op="string", after=["null", record("V", X=array_of("int"))])
    event_of = {"op": "u", "after": {"X": [1, -1]}}
    assert "not sent" in decoded(event_of, schema, schema="x array<int>", unavailable="hex:01ff")
    assert decoded(event_of, schema, schema="x array<int>")["x"] == [1, -1]


@pytest.mark.parametrize(
    "meta",
    [
        "src struct<lsn: bigint, version: string> from 'source'",
        "src struct<lsn: bigint> from 'source', lsn int from 'source.lsn', version string from 'source.version'",
        "version string from 'source.version', lsn string from 'source.lsn', src struct<lsn: bigint> from 'source'",
    ],
)
def test_a_part_of_the_envelope_and_a_field_in_it_may_both_be_columns(meta: str) -> None:
    source = lh.debezium("t", key="id int", schema="name string", meta=meta, format="avro").source
    assert isinstance(source, Source)
    written = {"op": "c", "after": {"name": "a"}, "source": {"lsn": 5, "version": "3", "ts_ms": 7}}
    data = encode_written_value(source, written)
    assert decode_written_value(source, data, find_declared([source])("t", "value")) == written
    if "lsn string" not in meta:
        assert decoded(event(NAME="a"), meta=meta, schema="name string")["src"]["lsn"] == 33


def test_meta_columns_come_out_of_the_envelope() -> None:
    row = decoded(event(NAME="a"), meta="op string, lsn bigint from 'source.lsn', txn bigint from 'transaction.id'")
    assert {name: row[name] for name in ("op", "lsn", "txn")} == {"op": "c", "lsn": 33, "txn": None}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (event("t"), ENVELOPE, "value: schema 2: op t: the database's table was truncated"),
        (event("x"), ENVELOPE, "value: schema 2: expected op c, u, r, d, t or m, found"),
        (event("u"), ENVELOPE, "value: schema 2: op u: expected the whole row in after, found none"),
        (event("u", NAME="__debezium_unavailable_value"), ENVELOPE, "value: schema 2: field name: not sent (TOAST)"),
        (event("u", PHOTO=b"__debezium_unavailable_value"), ENVELOPE, "value: schema 2: field photo: not sent (TOAST)"),
        (
            event("u", WIDE={"scale": 5, "value": b"\x01"}),
            ENVELOPE,
            "value: schema 2: field after: field wide: expected",
        ),
        (
            event("u", WIDE={"scale": 2**31 - 1, "value": b"\x01"}),
            ENVELOPE,
            "value: schema 2: field after: field wide: expected the scale of a decimal, -1000 to 1000, found 2147",
        ),
        ({**EMPTY, "ID": 1}, ROW, "value: schema 2: expected Debezium's envelope with op, before, after and source"),
        (
            {"op": "c", "after": {"NAME": 7}},
            record("E", op="string", after=record("V", NAME="int")),
            "value: schema 2: field after: field NAME: int, declared string",
        ),
    ],
)
def test_what_is_no_row_has_a_reason(value: Any, schema: Any, expected: str) -> None:
    assert decoded(value, schema).startswith(expected)


@pytest.mark.parametrize("options", [{"decimals": "precise"}, {"times": {"made": "millis"}}, {"documents": True}])
def test_what_the_schema_says_is_not_declared(options: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="in Avro the schema says the types"):
        decoded(event(NAME="a"), **options)


def test_another_format_is_refused() -> None:
    with pytest.raises(PlanError, match="format='xml': expected 'json' or 'avro'"):
        lh.debezium("t", key="id int", schema="n int", format="xml")


def test_keys_and_values_are_shown_as_people_write_them() -> None:
    written = {"op": "c", "after": {"name": "a", "amount": "1.50"}, "source": {"ts_ms": 7}}
    source = lh.debezium("t", key="id int", schema="name string, amount decimal(10, 2)", format="avro").source
    assert isinstance(source, Source)
    find_schemas = find_declared([source])
    key, value = encode_written_key(source, 5), encode_written_value(source, written)
    assert decode_written_key(source, key, find_schemas("t", "key")) == 5
    shown = decode_written_value(source, value, find_schemas("t", "value"))
    assert encode_written_value(source, shown) == value


def test_an_event_longer_than_any_that_is_read_is_bad() -> None:
    """As in Avro, and on Spark."""
    long_row = EMPTY | {"ID": 1, "PHOTO": bytes(LENGTH_MAX)}
    value = {"before": None, "after": long_row, "source": {"version": "3", "ts_ms": 7, "lsn": None}, "op": "c",
             "ts_ms": None}  # fmt: skip
    assert decoded(value).startswith("value: schema 2: expected at most 33,554,432 bytes, found ")
