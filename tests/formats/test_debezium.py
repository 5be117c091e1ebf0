"""A database's changes as Debezium writes them: rows, deletes, and reasons."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.errors import PlanError
from lakehouse.formats.decode import decode_record
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.plan.names.debezium_options import DebeziumOptions, parse_options
from lakehouse.plan.names.record_format import RecordFormat, parse_format
from lakehouse.plan.origin import Source
from lakehouse.semantics.record import Record
from lakehouse.testing import Replay

SCHEMA = "name string, amount decimal(10, 2), made timestamp, born date, photo binary"
PLACEHOLDER = "__debezium_unavailable_value"
UNSCALED = [base64.b64encode(bytes([byte])).decode() for byte in PLACEHOLDER.encode()]
CONNECT = "org.apache.kafka.connect.data."
VARIABLE_SCALE = "io.debezium.data.VariableScaleDecimal"
MILLIS, MICROS, NANOS = (
    {"type": "int64", "name": f"io.debezium.time.{name}"} for name in ("Timestamp", "MicroTimestamp", "NanoTimestamp")
)
DAYS = {"type": "int32", "name": "io.debezium.time.Date"}
ZONED = "io.debezium.time.ZonedTimestamp"
NEW_YEAR = "2026-01-01T02:00:00.5+01:00"


def decimal_of(scale: int) -> dict[str, Any]:
    return {"type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": str(scale)}}


def moment(microsecond: int) -> datetime:
    return datetime(1970, 1, 1, microsecond=microsecond, tzinfo=UTC)


def source(schema: str = SCHEMA, key: str = "id int", **options: Any) -> Source:
    origin = lh.debezium("shop.orders", key=key, schema=schema, **options).source
    assert isinstance(origin, Source)
    return origin


def decoded(origin: Source, value: Any, key: Any = None) -> Any:
    """Return the row of a value, None for a delete, or the reason why there is none."""
    key_bytes, value_bytes = (None if item is None else json.dumps(item).encode() for item in (key, value))
    record = decode_record(origin, Record("shop.orders", "id", 0, 0, 1, key_bytes, value_bytes, 1, 1))
    return record.reason if isinstance(record, BadRecord) else (record.value if key is None else record.key)


def event(operation: str = "c", **after: Any) -> dict[str, Any]:
    return {"before": None, "after": after, "source": {"ts_ms": 7, "lsn": 33}, "op": operation, "ts_ms": 9}


def value_of(origin: Source, name: str, value: Any, field_schema: dict[str, Any] | None = None) -> Any:
    """Return what a column is for a field's value, with its schema beside it if there is one; or the reason."""
    envelope: Any = event(**{name: value})
    if field_schema is not None:
        after = {
            "type": "struct",
            "field": "after",
            "fields": [{"type": "x", "field": "other"}, field_schema | {"field": name}],
        }
        envelope = {
            "schema": {"type": "struct", "fields": [after | {"field": "before", "fields": []}, after]},
            "payload": envelope,
        }
    row = decoded(origin, envelope)
    return row[name] if isinstance(row, dict) else row


@pytest.mark.parametrize("operation", ["c", "u", "r"])
def test_the_row_after_a_change(operation: str) -> None:
    row = decoded(source("name string, city string"), event(operation, id=1, NAME="ann", other=[1]))
    assert row == {"name": "ann", "city": None, "debezium_source_ts_ms": 7}


def test_a_delete_is_a_null_value() -> None:
    assert decoded(source(), event() | {"op": "d", "after": None, "before": {"id": 1}}) is None
    assert decoded(source(), None) is None
    assert decoded(source(), {"schema": None, "payload": None}) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (
            event() | {"op": "t", "after": None},
            "value: op t: the database's table was truncated, all its rows are gone",
        ),
        (event() | {"op": "m"}, "value: op m: a message in the database's log is no row"),
        (event() | {"op": "x"}, 'value: expected op c, u, r, d, t or m, found "x"'),
        (event() | {"op": 3}, "value: expected op c, u, r, d, t or m, found 3"),
        ({"id": 1, "name": "ann"}, "value: expected Debezium's envelope with op, before, after and source"),
        (event() | {"after": None}, "value: op c: expected the whole row in after, found none"),
        (event() | {"after": '{"_id": 1}'}, "value: op c: expected an object in after, found a text, as MongoDB's"),
        (event(name=PLACEHOLDER), "value: field name: not sent (TOAST)"),
        (event(photo=base64.b64encode(PLACEHOLDER.encode()).decode()), "value: field photo: not sent (TOAST)"),
        (event(Made=1, mADE=2), "value: expected one field made, found Made, mADE"),
        ([1], "value: expected a JSON object, found [1]"),
        ({"schema": {}, "payload": 7}, "value: expected a change event, found 7"),
    ],
)
def test_what_is_no_row_has_a_reason(value: Any, reason: str) -> None:
    assert str(decoded(source(), value)).startswith(reason)


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({}, {"\ud800": 1}),
        ({}, {"op": "\ud800"}),
        ({}, {"op": "c", "after": {"made": "\ud800"}}),
        ({}, {"op": "c", "after": {"\udc00ame": 1, "name": {"\ud800": 1}, "NAME": 1, "born": "\udfff"}}),
        ({"flattened": True}, {"__op": "\ud800"}),
        ({"documents": True}, {"op": "c", "after": '{"made": {"$date": {"$numberLong": "\ud800"}}}'}),
    ],
)
def test_a_reason_with_half_of_a_surrogate_pair_can_be_written(options: dict[str, Any], value: Any) -> None:
    assert decoded(source(SCHEMA, **options), value).encode().startswith(b"value: ")


def test_a_placeholder_in_a_column_that_nobody_reads_does_no_harm() -> None:
    assert decoded(source("name string"), event(name="ann", text=PLACEHOLDER))["name"] == "ann"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("x array<string>", [PLACEHOLDER]),
        ("x array<int>", list(PLACEHOLDER.encode())),
        ("x array<double>", [float(byte) for byte in PLACEHOLDER.encode()]),
        ("x array<date>", list(PLACEHOLDER.encode())),
        ("x array<binary>", [base64.b64encode(PLACEHOLDER.encode()).decode()]),
        ("x array<string>", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
        ("x array<decimal(9, 2)>", UNSCALED),
        ("x array<decimal(9, 2)>", [{"scale": 0, "value": unscaled} for unscaled in UNSCALED]),
        ("x map<string, string>", {PLACEHOLDER: PLACEHOLDER}),
        ("x string", json.dumps({PLACEHOLDER: PLACEHOLDER}, separators=(",", ":"))),
        ("x string", PLACEHOLDER.encode().hex()),
    ],
)
def test_a_placeholder_of_each_type(schema: str, value: Any) -> None:
    assert decoded(source(schema), event(x=value)).startswith("value: field x: not sent (TOAST)")


@pytest.mark.parametrize("operation", ["c", "r"])
@pytest.mark.parametrize("reads", ["latest", "values"])
def test_a_new_row_has_no_value_before(operation: str, reads: str) -> None:
    """An update that changes the primary key: a delete, and the row as a new one without its large value."""
    stream = lh.debezium("t", key="id int", schema="name string, big string")
    table = stream.latest("t") if reads == "latest" else stream.group_by("big").agg(n=lh.count()).table("t")
    replay = Replay(lh.app(table))
    replay.send("t", key=1, value=event("r", id=1, name="a", big="large"))
    replay.send("t", key=1, value=event("d") | {"after": None})
    replay.send("t", key=2, value=event(operation, id=2, name="a", big=PLACEHOLDER))
    result = replay.run()
    (bad,) = result.quarantined("t")
    assert "field big: not sent (TOAST)" in bad["reason"]
    assert ("with a new row" in bad["reason"]) is (reads == "latest")
    assert result.rows("t") == ([] if reads == "latest" else [{"big": "large", "n": 1}])


def test_another_placeholder() -> None:
    for unavailable in ("<nothing>", "hex:3c6e6f7468696e673e"):
        origin = source("x string", unavailable=unavailable)
        assert value_of(origin, "x", PLACEHOLDER) == PLACEHOLDER
        assert value_of(origin, "x", "<nothing>").startswith("value: field x: not sent (TOAST)")


def test_a_number_is_no_placeholder() -> None:
    origin = source("x bigint, amount decimal(18, 2)", unavailable="hex:1010101010101010")
    number = 1010101010101010
    assert decoded(origin, event(x=number, amount=number)) | {"debezium_source_ts_ms": 7} == {
        "x": number, "amount": Decimal(number), "debezium_source_ts_ms": 7,
    }  # fmt: skip
    assert value_of(origin, "x", str(number)).startswith("value: field x: not sent (TOAST)")


@pytest.mark.parametrize(
    ("name", "value", "field_schema", "expected"),
    [
        ("amount", "AeI6", decimal_of(2), Decimal("1234.50")),
        ("amount", "+w==", decimal_of(2), Decimal("-0.05")),
        ("amount", "ew==", decimal_of(-1), Decimal("1230.00")),
        ("amount", {"scale": 4, "value": "AehI"}, {"type": "struct", "name": VARIABLE_SCALE}, Decimal("12.50")),
        ("amount", {"scale": 4, "value": "AehI"}, None, Decimal("12.50")),
        ("amount", "12.5", {"type": "string"}, Decimal("12.50")),
        ("amount", 12.5, {"type": "double"}, Decimal("12.50")),
        ("amount", 12.5, None, Decimal("12.50")),
        ("made", 1, MICROS, moment(1)),
        ("made", 1, MILLIS, moment(1000)),
        ("made", -1, NANOS, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("made", 1, {"type": "int64", "name": CONNECT + "Timestamp"}, moment(1000)),
        ("made", NEW_YEAR, {"type": "string", "name": ZONED}, datetime(2026, 1, 1, 1, 0, 0, 500000, tzinfo=UTC)),
        ("made", "2026-01-01T02:00:00Z", None, datetime(2026, 1, 1, 2, tzinfo=UTC)),
        ("born", 1, DAYS, date(1970, 1, 2)),
        ("born", -1, None, date(1969, 12, 31)),
        ("born", "2026-01-01Z", {"type": "string", "name": "io.debezium.time.IsoDate"}, date(2026, 1, 1)),
        ("photo", "AAH/", {"type": "bytes"}, b"\x00\x01\xff"),
    ],
)  # fmt: skip
def test_a_value_by_its_schema(name: str, value: Any, field_schema: dict[str, Any] | None, expected: Any) -> None:
    result = value_of(source(), name, value, field_schema)
    assert (result, str(result)) == (expected, str(expected))


@pytest.mark.parametrize(
    ("name", "value", "field_schema", "reason"),
    [
        ("amount", "AeI6", None, "a text may be the bytes of a decimal(10, 2) or its digits"),
        ("amount", "AeI6", {"type": "bytes"}, "a text may be the bytes of a decimal(10, 2) or its digits"),
        ("amount", "AeI6", decimal_of(2) | {"parameters": None}, "expected the scale of a decimal, found null"),
        ("amount", "", decimal_of(2), "expected the bytes of a decimal, found none"),
        ("amount", "AeI6", decimal_of(4), "expected decimal(10, 2) without a loss, found 12.3450"),
        ("amount", {"scale": 99999999999, "value": "AQ=="}, None, "expected the scale of a decimal, -1000 to 1000"),
        ("amount", {"scale": float("inf"), "value": "AQ=="}, None, "expected the scale of a decimal, found"),
        ("amount", {"scale": True, "value": "AQ=="}, None, "expected the scale of a decimal, found true"),
        ("amount", {"scale": "1_0", "value": "AQ=="}, None, "expected the scale of a decimal, found '1_0'"),
        ("amount", {"scale": "9" * 5000, "value": "AQ=="}, None, "expected the scale of a decimal, found '9"),
        ("amount", {"scale": [0], "value": "AQ=="}, None, "expected the scale of a decimal, found [0]"),
        ("amount", {"scale": 2}, None, "expected decimal(10, 2): a number, or an object of scale and value"),
        ("amount", {"scale": -9, "value": "AQ=="}, None, "expected decimal(10, 2) without a loss, found 1000000000"),
        ("amount", "1e5000", {"type": "string"}, "expected decimal(10, 2)"),
        ("amount", base64.b64encode(b"\x7f" * 600).decode(), decimal_of(2), "expected decimal(10, 2), found a"),
        ("made", 1, None, "a number may be milliseconds, microseconds or nanoseconds"),
        ("made", 1, {"type": "int64"}, "a number may be milliseconds, microseconds or nanoseconds"),
        ("made", 1, DAYS, "expected timestamp, found a date, io.debezium.time.Date: 1"),
        ("made", 9223372036825200000, MICROS, "expected timestamp in the years 1 to 9999, in micros"),
        ("made", 1.5, MICROS, "expected timestamp: a whole number, found 1.5"),
        ("born", 1, MILLIS, "expected date, found a timestamp, io.debezium.time.Timestamp: 1"),
        ("born", 99999999, None, "expected date in the years 1 to 9999, in days"),
        ("photo", "0aff", {"type": "string"}, "expected base64 (Debezium's binary.handling.mode is bytes)"),
    ],
)  # fmt: skip
def test_nothing_is_guessed(name: str, value: Any, field_schema: dict[str, Any] | None, reason: str) -> None:
    assert str(value_of(source(), name, value, field_schema)).startswith(f"value: field {name}: {reason}")


def test_what_is_declared_for_values_without_a_schema() -> None:
    origin = source(decimals="precise", times={"made": "micros", "born": "millis"})
    assert value_of(origin, "amount", "+w==") == Decimal("-0.05")
    assert value_of(origin, "made", 1) == moment(1)
    assert value_of(origin, "born", 86_400_000) == date(1970, 1, 2)
    assert value_of(source(decimals="string"), "amount", "1234") == Decimal("1234.00")
    by_schema = MILLIS
    assert value_of(origin, "made", 1, by_schema) == moment(1000), "it says more"


def test_values_in_values() -> None:
    origin = source("x struct<at: timestamp, costs: array<decimal(10, 2)>, by: map<string, date>>")
    fields = [
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "costs", "type": "array", "items": decimal_of(2)},
        {"field": "by", "type": "map", "values": DAYS},
    ]  # fmt: skip
    value = value_of(
        origin, "x", {"AT": 1, "costs": ["+w==", None], "by": {"a": 1}}, {"type": "struct", "fields": fields}
    )
    assert value == {
        "at": moment(1),
        "costs": [Decimal("-0.05"), None],
        "by": {"a": date(1970, 1, 2)},
    }


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("id int", {"id": 7}, {"id": 7}),
        ("id int", {"schema": {"type": "struct", "fields": []}, "payload": {"ID": 7}}, {"id": 7}),
        ("id int", 7, {"id": 7}),
        ("id int", {"schema": {"type": "int32"}, "payload": 7}, {"id": 7}),
        ("id int, at date", {"id": 7, "at": 1}, {"id": 7, "at": date(1970, 1, 2)}),
        ("id int, at date", 7, "key: expected an object of id, at, found 7"),
        ("id int", {"id": "a"}, "key: field id: expected int, found 'a'"),
        ("id decimal(4, 0)", {"ID": {"scale": 0, "value": "AQ=="}}, {"id": Decimal(1)}),
    ],
)  # fmt: skip
def test_keys(key: str, value: Any, expected: Any) -> None:
    result = decoded(source("name string", key), None, value)
    assert result.startswith(expected) if isinstance(expected, str) else result == expected


def test_flattened_rows() -> None:
    origin = source("name string", flattened=True)
    assert decoded(origin, {"id": 1, "Name": "ann", "__deleted": "false"}) == {"name": "ann"}
    assert decoded(origin, {"id": 1, "name": "ann", "__deleted": "true"}) is None
    assert decoded(origin, {"id": 1, "name": "ann", "__deleted": True}) is None
    assert decoded(origin, {"id": 1, "name": None, "__op": "d"}) is None
    assert decoded(origin, {"__op": "t"}).startswith("value: op t: ")
    assert decoded(origin, {"name": PLACEHOLDER}).startswith("value: field name: not sent (TOAST)")
    assert decoded(origin, event(name="ann")).startswith("value: expected a row alone, found an envelope")
    schema = {"type": "struct", "fields": [{"field": "name", "type": "string"}]}
    assert decoded(origin, {"schema": schema, "payload": {"name": "ann"}}) == {"name": "ann"}


def test_fields_of_the_envelope() -> None:
    stream = lh.debezium(
        "shop.orders", key="id int", schema="name string",
        meta="op string, lsn bigint from 'source.lsn', tx string from 'transaction.id'",
    )  # fmt: skip
    assert [column.name for column in stream.columns] == ["id", "name", "op", "lsn", "tx"]
    origin = stream.source
    assert isinstance(origin, Source)
    assert decoded(origin, event("u", name="ann")) == {
        "name": "ann", "op": "u", "lsn": 33, "tx": None, "debezium_source_ts_ms": 7,
    }  # fmt: skip


def test_moments_of_the_envelope_have_the_unit_of_their_names() -> None:
    origin = source(
        "name string", meta="ms timestamp from 'ts_ms', us timestamp from 'source.ts_us', ns date from 'ts_ns'"
    )
    times = {"ts_ms": 9, "source": {"ts_ms": 7, "ts_us": 11}, "ts_ns": 86_400_000_000_000}
    row = decoded(origin, event(name="ann") | times)
    assert (row["ms"], row["us"], row["ns"]) == (moment(9000), moment(11), date(1970, 1, 2))
    assert "may be milliseconds" in decoded(source(meta="x timestamp from 'source.lsn'"), event(name="ann"))


ORACLE = {"type": "struct", "name": VARIABLE_SCALE}
UNSIGNED = decimal_of(0)


@pytest.mark.parametrize(
    ("type", "schema", "value", "expected"),
    [
        ("bigint", None, {"scale": 0, "value": "fQ=="}, 125), ("int", ORACLE, {"scale": -2, "value": "Aw=="}, 300),
        ("int", None, {"scale": 1, "value": "CWA="}, 240), ("double", ORACLE, {"scale": 1, "value": "fQ=="}, 12.5),
        ("bigint", UNSIGNED, "fQ==", 125), ("double", decimal_of(2), "gw==", -1.25),
        ("bigint", UNSIGNED, "AP//////////", "expected bigint"),
        ("int", None, {"scale": 1, "value": "fQ=="}, "found 12.5"), ("int", None, "fQ==", "expected int"),
        ("int", None, {"scale": 0, "value": "f" * 1000}, "a number of"),
        ("int", None, {"scale": 10**9, "value": "AQ=="}, "scale"),
        ("string", {"type": "bytes"}, "fQ==", "declare binary"), ("string", decimal_of(2), "fQ==", "declare decimal"),
        ("string", {"type": "string"}, "fQ==", "fQ=="),
    ],
)  # fmt: skip
def test_a_decimal_in_bytes_is_a_number_for_any_column_of_numbers(
    type: str, schema: Any, value: Any, expected: Any
) -> None:
    result = value_of(source(f"x {type}"), "x", value, schema)
    assert expected in result if isinstance(expected, str) else result == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"decimals": "exact"}, "decimals='exact': expected 'precise' or 'string'"),
        ({"times": "made"}, "times='made': expected a unit for each column"),
        ({"flattened": "no"}, "flattened='no': expected True or False"),
        ({"times": {"mad": "micros"}}, "times: 'mad' is not a column"),
        ({"times": {"name": "micros"}}, "times: name string has no moments"),
        ({"times": {"made": "seconds"}}, "times: made='seconds': expected nanos, micros, millis, days"),
        ({"times": {"made": "days"}}, "days for a date only"),
        ({"meta": "x string from 'after.name'"}, "found 'after.name', expected op, source"),
        ({"meta": "name string from 'op'"}, "name"),
        ({"meta": "at timestamp from 'source.ts_ms'"}, "the event time reads source.ts_ms as a bigint"),
        ({"meta": "op string", "flattened": True}, "flattened rows have no envelope"),
        ({"schema": "x string from 'op'", "meta": "op string"}, "meta reads op from the envelope"),
        ({"unavailable": ""}, "unavailable=''"),
        ({"unavailable": "hex:0"}, "unavailable='hex:0'"),
        ({"unavailable": "hex:00"}, "unavailable='hex:00': expected at least 8 bytes in JSON, found 1"),
        ({"key_format": "xml"}, "key_format='xml'"),
        ({"topic": "a b"}, "topic 'a b'"),
    ],
)
def test_what_a_declaration_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError) as refused:
        lh.debezium(**({"topic": "shop.orders", "key": "id int", "schema": SCHEMA} | arguments))
    assert message in str(refused.value)


@given(
    st.builds(
        DebeziumOptions, st.booleans(), st.booleans(), st.sampled_from(["", "precise", "string"]),
        st.lists(st.tuples(st.text(), st.sampled_from(["nanos", "days"])), max_size=3).map(tuple), st.text(min_size=1),
        st.lists(st.text(min_size=1), max_size=3).map(tuple),
    )
)  # fmt: skip
def test_options_stand_in_the_name_of_the_format(options: DebeziumOptions) -> None:
    format = RecordFormat("debezium", options=str(options))
    assert parse_format(str(format)) == format
    assert parse_options(parse_format(str(format)).options) == options


def test_a_value_that_was_not_sent_is_null_and_named_for_latest() -> None:
    stream = lh.debezium("shop.orders", key="id int", schema="Title string from 'TITLE', n int, photo binary")
    marked = stream.latest("orders").stream.source
    assert isinstance(marked, Source)
    row = decoded(marked, event("u", title=PLACEHOLDER, n=3, photo=None))
    assert (row["Title"], row["n"], row["debezium_unsent"]) == (None, 3, ["TITLE"])


def test_what_computes_with_a_stream_gets_no_marks() -> None:
    stream = lh.debezium("shop.orders", key="id int", schema="title string, n int")
    tables = [
        stream.filter("n > 1").latest("a"), stream.select(upper="upper(title)").latest("a"),
        stream.latest("a", order_by="cast(n AS bigint)"), stream.group_by("title").agg(n=lh.count()).table("a"),
        lh.debezium("shop.orders", key="id int", schema="title string", unsent="quarantine").latest("a"),
        lh.stream("orders", key="id int", schema="title string").latest("a"),
    ]  # fmt: skip
    for table in tables:
        assert "debezium_unsent" not in str(table.stream.sources)
    assert [column.name for column in stream.latest("a").columns] == ["id", "title", "n"]


def test_a_stream_is_read_with_marks_or_without_them() -> None:
    stream = lh.debezium("shop.orders", key="id int", schema="title string, n int")
    with pytest.raises(PlanError, match=r"'shop_orders' is read by latest, which keeps a value that was not sent"):
        lh.app(stream.latest("a"), stream.group_by("title").agg(n=lh.count()).table("b"))
    strict = lh.debezium("shop.orders", key="id int", schema="title string, n int", unsent="quarantine")
    lh.app(strict.latest("a"), strict.group_by("title").agg(n=lh.count()).table("b"))
    with pytest.raises(PlanError, match=r"unsent='bad': expected 'keep' or 'quarantine'"):
        lh.debezium("shop.orders", key="id int", schema="title string", unsent="bad")
    with pytest.raises(PlanError, match=r"'debezium_unsent' is a name for marks"):
        lh.debezium("shop.orders", key="id int", schema="Debezium_unsent string")


@pytest.mark.parametrize(
    ("envelope", "deleted_ms"),
    [
        ({"op": "d", "source": {"ts_ms": 7}}, 7),
        ({"schema": {"type": "struct"}, "payload": {"op": "d", "after": None, "source": {"ts_ms": -7}}}, -7),
        ({"op": "d", "source": {"ts_ms": 10**15}}, None),  # after the year 9999
        ({"op": "d", "source": {"ts_ms": "7"}}, None),
        ({"op": "d", "source": {"ts_ms": None}}, None),
        ({"op": "d", "source": 7}, None),
        ({"op": "d"}, None),
        (None, None),
    ],
)
def test_a_delete_has_the_time_of_the_change(envelope: Any, deleted_ms: int | None) -> None:
    data = None if envelope is None else json.dumps(envelope).encode()
    record = Record("shop.orders", "id", 0, 0, 1, None, data, 1, 1)
    assert decode_record(source("name string"), record) == DecodedRecord(None, None, deleted_ms)
    for options in ({"event_time": "name"}, {"event_time": "rowtime"}, {"flattened": True}):
        other = source("name timestamp, op string", **options)
        outcome = decode_record(other, record)
        assert isinstance(outcome, BadRecord) or outcome.deleted_ms is None


def test_a_truncate_is_a_row_s_end_only_for_latest() -> None:
    changes = lh.debezium("shop.orders", key="id int", schema="name string", truncates="apply")
    (latest,), truncate = changes.latest("t").stream.sources, {"op": "t", "source": {"ts_ms": 7}}
    record = Record("shop.orders", "id", 0, 0, 1, None, json.dumps(truncate).encode(), 1, 1)
    assert decode_record(latest, record) == DecodedRecord(None, None, 7, truncates=True)
    escaped = Record("shop.orders", "id", 0, 0, 1, None, rb'{"op": "\u0074"}', 1, 1)
    assert decode_record(latest, escaped) == DecodedRecord(None, None, None, truncates=True)
    for reader in (changes.filter("name = 'a'").latest("t"), changes.group_by("name").agg(n=lh.count()).table("t")):
        (other,) = reader.stream.sources
        assert "op t" in str(decode_record(other, record))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"truncates": "delete"}, "truncates='delete': expected 'quarantine' or 'apply'"),
        ({"truncates": "apply", "unsent": "quarantine"}, 'it needs unsent="keep"'),
        ({"truncates": "apply", "flattened": True}, "no flattened=True"),
    ],
)
def test_truncates_that_can_t_be_applied(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        source("name string", **options)
