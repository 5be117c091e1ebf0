"""Values written in any schema: another library reads what was written, and JSON texts give the same values."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.formats.avro.avro_json import text_writer
from lakehouse.formats.avro.avro_writer import value_writer
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.avro.avro_schema import parse_avro
from tests.formats.test_avro import MOMENTS, TEXTS, record_of

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
IN_FIXED = {"type": "fixed", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}
DECIMALS = st.decimals(-9_999_999, 9_999_999, places=2)
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ({"type": "long", "logicalType": "timestamp-nanos"}, st.integers(-(2**63), 2**63 - 1)),
    ({"type": "long", "logicalType": "made-up"}, st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=5)),
    ("string", TEXTS),
    (DATE, st.dates()),
    (MICROS, MOMENTS),
    (MILLIS, MOMENTS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))),
    (DECIMAL, DECIMALS),
    (IN_FIXED, DECIMALS),
    ({"type": "fixed", "size": 2}, st.binary(min_size=2, max_size=2)),
    ({"type": "enum", "symbols": ["A", "B"]}, st.sampled_from("AB")),
]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema and its values. Named types get their names by `named`."""
    kind = draw(st.sampled_from(["leaf", "record", "array", "map", "union"] if depth else ["leaf"]))
    if kind == "leaf":
        return draw(st.sampled_from(LEAVES))
    if kind == "record":
        parts = draw(st.lists(schemas(depth - 1), max_size=3))
        fields = [{"name": f"f{index}", "type": schema} for index, (schema, _) in enumerate(parts)]
        rows = st.fixed_dictionaries({f"f{index}": values for index, (_, values) in enumerate(parts)})
        return {"type": "record", "fields": fields}, rows
    part, values = draw(schemas(depth - 1))
    if kind == "array":
        # In a record with a number: of values that may have no bytes there is no array.
        fields = [{"name": "n", "type": "int"}, {"name": "v", "type": part}]
        items = st.fixed_dictionaries({"n": st.integers(0, 9), "v": values})
        return {"type": "array", "items": {"type": "record", "fields": fields}}, st.lists(items, max_size=3)
    if kind == "map":
        return {"type": "map", "values": part}, st.dictionaries(TEXTS, values, max_size=3)
    others = draw(st.lists(st.sampled_from(LEAVES), max_size=3, unique_by=lambda leaf: kind_of(leaf[0])))
    branches = [branch for branch in others if kind_of(branch[0]) != kind_of(part)]
    if kind_of(part) != "union":
        branches.insert(draw(st.integers(0, len(branches))), (part, values))
    # A number goes to the first branch that holds it: a decimal beside a double would be the nearest double.
    if any(schema in ("float", "double") for schema, _ in branches):
        branches = [branch for branch in branches if branch[0] not in (DECIMAL, IN_FIXED, "int", "long")]
        branches = [branch for branch in branches if kind_of(branch[0]) != "long" and branch[0] != "float"]
    branches = branches or [("null", st.none())]
    return [schema for schema, _ in branches], st.one_of(*(values for _, values in branches))


def kind_of(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema["type"])
    return "union" if isinstance(schema, list) else str(schema)


def named(schema: Any, names: list[str]) -> Any:
    """The schema with a name of its own for each of its types."""
    if isinstance(schema, list):
        return [named(branch, names) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    result = dict(schema)
    if schema["type"] in ("record", "enum", "fixed"):
        names.append(f"T{len(names)}")
        result["name"] = names[-1]
    for part in ("items", "values"):
        if part in schema:
            result[part] = named(schema[part], names)
    if "fields" in schema:
        result["fields"] = [{**field, "type": named(field["type"], names)} for field in schema["fields"]]
    return result


def as_json(value: Any) -> Any:
    """A value as people type it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case datetime() | date():
            return value.isoformat()
        case dict():
            return {name: as_json(part) for name, part in value.items()}
        case list():
            return [as_json(part) for part in value]
    return value


def read_back(schema: Any, data: bytes) -> Any:
    written = io.BytesIO(data)
    value = fastavro.schemaless_reader(written, fastavro.parse_schema(schema), None)
    assert written.tell() == len(data)
    return value


@given(st.data())
def test_another_library_reads_what_is_written(data: st.DataObject) -> None:
    drawn, values = data.draw(schemas())
    schema, value = named(drawn, []), data.draw(values)
    avro_type = parse_avro(json.dumps(schema))
    assert read_back(schema, value_writer(avro_type)(value)) == value


def has_union(schema: Any) -> bool:
    """Whether a union is in a schema."""
    if isinstance(schema, list):
        return True
    if not isinstance(schema, dict):
        return False
    parts = [field["type"] for field in schema.get("fields", ())]
    return any(map(has_union, [*parts, schema.get("items"), schema.get("values")]))


@given(st.data())
def test_json_texts_give_the_same_bytes(data: st.DataObject) -> None:
    """Where no union leaves open what a text is."""
    drawn, values = data.draw(schemas().filter(lambda drawn: not has_union(drawn[0])))
    avro_type, value = parse_avro(json.dumps(named(drawn, []))), data.draw(values)
    assert text_writer(avro_type)(json.dumps(as_json(value))) == value_writer(avro_type)(value)


FIRST = {"type": "record", "name": "First", "fields": [{"name": "a", "type": ["null", "int"]}]}
SECOND = {"type": "record", "name": "Second", "fields": [{"name": "b", "type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        (["null", "string"], "null", None),
        (["string", "null"], '"x"', "x"),
        (["int", "string", "null"], '"5"', "5"),
        (["int", "string", "null"], "5", 5),
        (["int", "double"], "1.5", 1.5),
        (["int", "long"], "5000000000", 5_000_000_000),
        ([FIRST, SECOND], '{"b": "x"}', {"b": "x"}),
        ([FIRST, SECOND], '{"a": 1}', {"a": 1}),
        ([{"type": "array", "items": "int"}, {"type": "map", "values": "int"}], '{"x": 1}', {"x": 1}),
        ([{"type": "array", "items": "int"}, {"type": "map", "values": "int"}], "[1, 2]", [1, 2]),
        ([DATE, "string"], '"2026-01-31T12:00:00Z"', "2026-01-31T12:00:00Z"),
        (DECIMAL, "12.5", Decimal("12.50")),
        (DECIMAL, '"-12.500"', Decimal("-12.50")),
        (DECIMAL, "0e99", Decimal(0)),
        (DECIMAL, "1e3", Decimal(1000)),
        ({**IN_FIXED, "name": "D"}, "-0.01", Decimal("-0.01")),
        (MILLIS, '"2026-01-31T13:00:00.5+01:00"', datetime(2026, 1, 31, 12, 0, 0, 500_000, UTC)),
        (MICROS, '"2026-01-31"', datetime(2026, 1, 31, tzinfo=UTC)),
        (MICROS, '"20260131T120000Z"', datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (MICROS, '"2026-01-31T13:00+01:00[Europe/Berlin]"', datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (MICROS, '"2026-01-31 12:00"', datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (MICROS, '"2026-01-31T12:00:00.1234560Z"', datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(0, 0, 123_456)),
        ("bytes", '"aGk="', b"hi"),
        ("double", '"NaN"', None),
        ("float", "16777217", 16777216.0),
        (record_of(a=["null", "int"], b="int"), '{"b": 1, "b": 2}', {"a": None, "b": 2}),
    ],
)  # fmt: skip
def test_json_texts(schema: Any, text: str, expected: Any) -> None:
    value = read_back(schema, text_writer(parse_avro(json.dumps(schema)))(text))
    assert value == expected or (text == '"NaN"' and value != value)


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ("string", "null", "expected string, found null"),
        ("string", "5", "expected string, found 5"),
        ("int", "2147483648", "expected int, found 2147483648"),
        ("int", "1.0", "expected int, found 1.0"),
        ("int", "true", "expected int, found true"),
        ("float", "1e39", "expected float, found 1e39"),
        ("double", "1e400", "expected double, found 1e400"),
        ("null", "0", "expected null, found 0"),
        ("boolean", '"true"', "expected boolean, found 'true'"),
        (DECIMAL, "1.234", "expected decimal(9, 2), found 1.234"),
        (DECIMAL, "12345678.00", "expected decimal(9, 2), found 12345678.00"),
        (DECIMAL, '"NaN"', "expected decimal(9, 2), found 'NaN'"),
        (DECIMAL, '"1_000"', "expected decimal(9, 2), found '1_000'"),
        (DECIMAL, '" 1.5 "', "expected decimal(9, 2), found ' 1.5 '"),
        (DECIMAL, '"\u0661"', "expected decimal(9, 2), found '\u0661'"),
        (MICROS, '"2026-W05-1T10:00:00Z"', "a moment is written as"),
        (MICROS, '"2026-W05-1"', "a moment is written as"),
        (MICROS, '"2026-01-31x12:00"', "a moment is written as"),
        (MICROS, '"0001-01-01T00:00:00+01:00"', "a moment is written as"),
        (MICROS, '"9999-12-31T23:59:59-01:00"', "a moment is written as"),
        (DECIMAL, '"1,5"', "expected decimal(9, 2), found '1,5'"),
        ({**IN_FIXED, "name": "D", "size": 1}, "1.28", "expected decimal(9, 2) in 1 bytes, found 1.28, which needs 2"),
        (DATE, '"2026-02-30"', "expected int (date), found '2026-02-30'; a date is written as \"2026-01-31\""),
        (MILLIS, '"2026-01-31T12:00:00.000001Z"', "its microseconds would be lost"),
        (MICROS, '"2026-01-31T12:00:00.0000001Z"', "it is finer than microseconds"),
        (MICROS, "5", "expected long (timestamp-micros), found 5"),
        (MICROS, '"noon"', "a moment is written as"),
        ("bytes", '"hi!"', "bytes are written in base64"),
        ({"type": "fixed", "name": "F", "size": 3}, '"aGk="', "expected fixed F of 3 bytes, found 2"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, '"C"', "expected enum E: one of A, B, found 'C'"),
        ({"type": "array", "items": "int"}, "{}", "expected array of int, found {}"),
        ({"type": "map", "values": "int"}, '{"x": "y"}', "expected int, found 'y'"),
        (["null", "int"], '"x"', "expected int, found 'x'"),
        (["int", DECIMAL], '"x"', "expected int, found 'x'; or expected decimal(9, 2), found 'x'"),
        (["null"], '"x"', "expected union of null, found 'x'"),
        ([FIRST, SECOND], '{"c": 1}', "has no such field; it has a; or field c: record Second has no such field"),
        (record_of(a="int"), "[1]", "expected record R, found ['1']"),
        (record_of(a="int"), '{"a": 1, "b": 2}', "field b: record R has no such field; it has a"),
        (record_of(a=SECOND), '{"a": {"b": 1}}', "field a: field b: expected string, found 1"),
        ("string", '"\\ud800"', "half of a surrogate pair"),
        ("string", "{", "expected JSON"),
    ],
)  # fmt: skip
def test_json_texts_that_do_not_fit(schema: Any, text: str, reason: str) -> None:
    with pytest.raises(Unfit) as refused:
        text_writer(parse_avro(json.dumps(schema)))(text)
    assert reason in str(refused.value)
