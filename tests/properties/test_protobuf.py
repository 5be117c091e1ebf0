"""Records in Protobuf by drawn schemas, whole and damaged: Spark reads what the rule does, and the rule what is right.

What is right, another way tells: Google's library with the writer's whole schema, and a walk over its messages.
"""

from __future__ import annotations

import base64
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

import lakehouse as lh
from lakehouse.formats.codec.codec_choice import codec_of
from lakehouse.formats.codec.registered import WriterSchemas, with_prefix
from lakehouse.formats.decode import decode_columns
from lakehouse.formats.values.unfit import Unfit
from lakehouse.plan.names.record_format import RecordFormat
from lakehouse.plan.names.schema_options import SchemaOptions
from lakehouse.plan.origin import Source
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.semantics.record import Record
from tests.properties.compared import Comparison, bronze_rows
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = (
    "n int, big bigint, small tinyint, x double, f float, ok boolean, t string, raw binary, amount decimal(12, 2), "
    "wide decimal(20, 0), born date, at timestamp, tags array<string>, days array<date>, "
    "home struct<zip: smallint, city: string>, rooms array<struct<size: decimal(9, 1), name: string>>, "
    "props map<string, int>, places map<string, struct<city: string>>"
)
HEAD, PARTS = (
    """syntax = "proto3"; package drawn;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto"; import "google/type/date.proto";
import "google/type/decimal.proto"; import "confluent/type/decimal.proto";
""",
    """
enum Letter { A = 0; B = 1; C = -3; }
message Home { int32 zip = 1; optional string city = 2; }
message Place { string city = 2; bytes more = 3; Place again = 4; }
message Wrong { string zip = 1; }
message Room { google.type.Decimal size = 1; string name = 2; }
""",
)
G, W = "google.protobuf.", "Value"
# For each column, the types that writers have; the first ones are usual, and the last one does not fit.
TYPES: dict[str, list[str]] = {
    "n": ["int32", "optional sint32", "sfixed32", "int64", "uint32", f"{G}Int32{W}", "string"],
    "big": ["int64", "optional sint64", "fixed64", "uint64", "int32", f"{G}UInt64{W}", "double"],
    "small": ["int32", "sint64", "float"],
    "x": ["double", "float", "optional double", "fixed32", f"{G}Double{W}", "int64"],
    "f": ["float", "optional float", f"{G}Float{W}", "double"],
    "ok": ["bool", "optional bool", f"{G}Bool{W}", "int32"],
    "t": ["string", "optional string", "Letter", "optional Letter", f"{G}String{W}", "bytes"],
    "raw": ["bytes", "optional bytes", f"{G}Bytes{W}", "string"],
    "amount": ["google.type.Decimal", "confluent.type.Decimal", "int32", "int64"],
    "wide": ["uint64", "int64", "confluent.type.Decimal", "fixed64", "double"],
    "born": ["google.type.Date", "int32"],
    "at": [f"{G}Timestamp", "int64"],
    "tags": ["repeated string", "repeated Letter", f"repeated {G}String{W}", "string"],
    "days": ["repeated google.type.Date", "repeated int32"],
    "home": ["Home", "Place", "repeated Home", "Wrong"],
    "rooms": ["repeated Room", "Room"],
    "props": ["map<string, int32>", "map<string, sint64>", "map<int32, int32>"],
    "places": ["map<string, Place>", "map<string, Home>", "map<string, string>"],
    "unread": ["string", "Wrong", "map<int32, Room>", "repeated double", "optional Letter"],
}  # fmt: skip


def drawn_schema(draw: random.Random, *, has_maps: bool = True) -> WriterSchema:
    """Return a message of some of the columns; now and then one of them has a type that does not fit."""
    fields, alone = [], []
    names = draw.sample(sorted(TYPES), draw.randint(3, len(TYPES)))
    names = [name for name in names if has_maps or not TYPES[name][0].startswith("map")]
    numbers = draw.sample(range(1, 40), len(names))
    for name, number in zip(names, numbers, strict=True):
        own_types = TYPES[name]
        type = draw.choice(own_types if draw.random() < 0.03 or name == "unread" else own_types[:-1])
        is_alone = not type.startswith(("optional", "repeated", "map")) and draw.random() < 0.15
        (alone if is_alone else fields).append(f"{type} {name} = {number};")
    group = f"oneof one {{ {' '.join(alone)} }}" if alone else ""
    return WriterSchema("PROTOBUF", f"{HEAD} message Row {{ {' '.join(fields)} {group} }} {PARTS}")


def row_class(schema: WriterSchema) -> Any:
    """Return the class that Google's library has for the writer's whole schema."""
    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(schema.proto_schema.files).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("drawn.Row"))


def drawn_scalar(draw: random.Random, field: Any) -> Any:
    kind = field.type
    if kind == field.TYPE_ENUM:
        return draw.choice([0, 1, -3, 77])
    if kind == field.TYPE_STRING:
        if field.containing_type.full_name == "google.type.Decimal":
            return draw.choice(["12.5", "-0", "1e2", "7", "-99999.0", "x", "1.255"])
        return draw.choice(["", "a", "é\0", "𝄞" * draw.randrange(4)])
    if kind == field.TYPE_BYTES:
        return draw.randbytes(draw.choice([0, 1, 2, 9]))
    if kind == field.TYPE_BOOL:
        return draw.random() < 0.5
    if kind in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return draw.choice([0.0, -0.0, 1.5, float("inf"), float(draw.randrange(1000)) / 8])
    if field.name in ("seconds", "nanos", "year", "month", "day", "scale"):
        usual = {"seconds": 10**9, "nanos": 10**9 - 1, "year": 9999, "month": 12, "day": 28, "scale": 2}[field.name]
        return draw.randint(1, usual) if draw.random() < 0.97 else draw.choice([0, -1, 2**31 - 1])
    is_signed = kind not in (field.TYPE_UINT32, field.TYPE_FIXED32, field.TYPE_UINT64, field.TYPE_FIXED64)
    bits = 64 if kind in (field.TYPE_INT64, field.TYPE_SINT64, field.TYPE_UINT64, field.TYPE_FIXED64) else 32
    number = draw.choice([0, 1, draw.randrange(100), draw.randrange(100), draw.randrange(2 ** (bits - is_signed))])
    return -number if is_signed and draw.random() < 0.5 else number


def fill(draw: random.Random, message: Any, depth: int = 0) -> Any:
    """Fill a message with drawn values."""
    for field in message.DESCRIPTOR.fields:
        if draw.random() < 0.2 or depth > 3:
            continue
        is_message = field.message_type is not None
        if is_message and field.message_type.GetOptions().map_entry:
            key_field, value_field = field.message_type.fields
            for _ in range(draw.choice([0, 1, 3])):
                entries, key = getattr(message, field.name), drawn_scalar(draw, key_field)
                if value_field.message_type is not None:
                    fill(draw, entries[key], depth + 1)
                else:
                    entries[key] = drawn_scalar(draw, value_field)
        elif field.is_repeated:
            for _ in range(draw.choice([0, 1, 3])):
                items = getattr(message, field.name)
                _ = fill(draw, items.add(), depth + 1) if is_message else items.append(drawn_scalar(draw, field))
        elif is_message:
            part = getattr(message, field.name)
            part.SetInParent()
            fill(draw, part, depth + 1)
        else:
            setattr(message, field.name, drawn_scalar(draw, field))
    return message


def expected_row(message: Any, types: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a whole message; raises ValueError for a value that its column can't hold."""
    fields = message.DESCRIPTOR.fields_by_name
    return {name: expected(message, fields[name], types[name]) if name in fields else None for name in types}


def expected(message: Any, field: Any, declared: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        part = field.message_type.fields_by_name["value"]
        return {key: one(value, part, declared["of"]) for key, value in getattr(message, field.name).items()}
    if field.is_repeated:
        return [one(value, field, declared["of"]) for value in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name):
        return None
    return one(getattr(message, field.name), field, declared)


def one(value: Any, field: Any, declared: Any) -> Any:
    """Return a single value as a column's: numbers are checked by their bits, decimals by their digits."""
    if field.enum_type is not None:
        return {0: "A", 1: "B", -3: "C"}.get(value, str(value))
    name = "" if field.message_type is None else field.message_type.full_name
    if isinstance(declared, dict):
        return expected_row(value, declared)
    if name.endswith("Value"):
        return one(value.value, field.message_type.fields[0], declared)
    match declared:
        case "double":
            return float(value)
        case "date":
            return date(value.year, value.month, value.day)
        case "timestamp":
            if not 0 <= value.nanos < 10**9:
                raise ValueError
            try:
                return EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
            except OverflowError:
                raise ValueError from None
        case (precision, scale):
            try:
                if name.startswith("google"):
                    number = Decimal(value.value or "0")  # as google/type/decimal.proto says
                elif name:
                    number = Decimal(int.from_bytes(value.value, "big", signed=True)).scaleb(-value.scale)
                else:
                    number = Decimal(value)
                fitted = round(number, scale)
            except ArithmeticError:
                raise ValueError from None
            if fitted != number or abs(number) >= 10 ** (precision - scale) or abs(getattr(value, "scale", 0)) > 1000:
                raise ValueError
            return abs(fitted) if fitted == 0 else fitted
        case int():
            if not -(2 ** (declared - 1)) <= value < 2 ** (declared - 1):
                raise ValueError
    return value


ROW = {"zip": 16, "city": ""}
DECLARED: dict[str, Any] = {
    "n": 32, "big": 64, "small": 8, "x": "double", "f": "", "ok": "", "t": "", "raw": "", "amount": (12, 2),
    "wide": (20, 0), "born": "date", "at": "timestamp", "tags": {"of": ""}, "days": {"of": "date"}, "home": ROW,
    "rooms": {"of": {"size": (9, 1), "name": ""}}, "props": {"of": 32}, "places": {"of": {"city": ""}},
}  # fmt: skip


ARROW_TYPE = pa.struct(
    {
        "n": pa.int32(), "big": pa.int64(), "small": pa.int8(), "x": pa.float64(), "f": pa.float32(), "ok": pa.bool_(),
        "t": pa.string(), "raw": pa.binary(), "amount": pa.decimal128(12, 2), "wide": pa.decimal128(20, 0),
        "born": pa.date32(), "at": pa.timestamp("us", "UTC"), "tags": pa.list_(pa.string()),
        "days": pa.list_(pa.date32()), "home": pa.struct({"zip": pa.int16(), "city": pa.string()}),
        "rooms": pa.list_(pa.struct({"size": pa.decimal128(9, 1), "name": pa.string()})),
        "props": pa.map_(pa.string(), pa.int32()), "places": pa.map_(pa.string(), pa.struct({"city": pa.string()})),
        "_unfit": pa.string(),
    }
)  # fmt: skip


def damaged(draw: random.Random, data: bytes) -> bytes:
    """Return the bytes of a record with one fault, or none."""
    place = draw.randrange(len(data)) if data else 0
    match draw.randrange(14):
        case 0:
            return data[:place]
        case 1:
            return data + draw.randbytes(draw.randint(1, 9))
        case 2:
            return data[:place] + draw.randbytes(1) + data[place + 1 :]
        case 3:
            return data[:place] + b"\xff" * draw.randint(1, 11) + data[place + 1 :]
        case 4:
            return draw.choice([b"", b"{}", draw.randbytes(5), data[:5], data[:6]])
    return data


@pytest.mark.parametrize("seed", seeds(5))
def test_the_rule_reads_what_another_reader_does(seed: int) -> None:
    draw, read_count, unfit_count = random.Random(seed), 0, 0
    columns = lh.stream("rows", key="id int", schema=SCHEMA, format="protobuf").source.value
    for schema in (drawn_schema(draw) for _ in range(40)):  # a schema may fit nothing
        if read_count > 150 and unfit_count > 10:
            break
        codec = codec_of("protobuf").with_schemas(WriterSchemas({1: schema}))
        if (problem := codec.schema_problem(schema, columns, is_key=False)) is not None:
            assert "declared" in problem, problem
            continue
        own_class = row_class(schema)
        for _ in range(60):
            data = fill(draw, own_class()).SerializeToString()
            data = draw.choice([data] * 4 + [damaged(draw, data), data + fill(draw, own_class()).SerializeToString()])
            try:
                row: Any = codec.decode(with_prefix(1, b"\0" + data), columns)
            except Unfit as error:
                row, reason = None, str(error)
            try:
                right: Any = expected_row(own_class.FromString(data), DECLARED)
            except (ValueError, DecodeError):
                right = None
            if row is None:
                unfit_count += 1
                assert right is None, (reason, data, schema.text)
            else:
                read_count += 1
                # Nobody looks into a text that is not read; to a library with the whole schema it is broken.
                assert repr(row) == repr(right) or (right is None and own_problem(own_class, data)), (data, schema.text)
    assert read_count > 50
    assert unfit_count > 10


def own_problem(own_class: Any, data: bytes) -> bool:
    try:
        own_class.FromString(data)
    except DecodeError:
        return True
    return False


@pytest.mark.parametrize("seed", seeds(5))
def test_batches_are_read_as_the_rule_reads_each_record(seed: int) -> None:
    """Without a session: what an executor does with a batch."""
    from lakehouse.spark.expression.protobuf_batches import MessageBatches

    draw = random.Random(seed)
    columns = lh.stream("rows", key="id int", schema=SCHEMA, format="protobuf").source.value
    schemas = WriterSchemas({id: drawn_schema(draw, has_maps=id > 3) for id in range(1, 5)})
    batches = MessageBatches("value", "protobuf", columns, schemas, ARROW_TYPE)
    classes = {id: row_class(schema) for id, schema in schemas.items()}
    for has_faults in (False, True):
        values: list[bytes | None] = []
        for _ in range(draw.choice([1, 40, 150])):
            id = draw.choice([*schemas])
            row = fill(draw, classes[id]()).SerializeToString()
            row += fill(draw, classes[id]()).SerializeToString() if draw.random() < 0.1 else b""
            value = with_prefix(id, draw.choice([b"\0"] * 9 + [b"\x02\0", b"\x02\x02"]) + row)
            values.append(draw.choice([damaged(draw, value) if has_faults else value] * 20 + [None]))
        expected_rows = []
        for value in values:
            try:
                row_or_none = decode_columns("protobuf", columns, value, schemas)
                expected_rows.append(row_or_none and {**row_or_none, "_unfit": None})
            except Unfit as error:
                expected_rows.append({**{column.name: None for column in columns}, "_unfit": str(error)})
        rows = batches.decode(pa.array(values, pa.binary())).to_pylist(maps_as_pydicts="strict")
        expected_array = pa.array(expected_rows, ARROW_TYPE).to_pylist(maps_as_pydicts="strict")
        for value, row, expected_row in zip(values, rows, expected_array, strict=True):
            assert repr(row) == repr(expected_row), (value, {id: schema.text for id, schema in schemas.items()})


@pytest.mark.parametrize("seed", seeds(5))
def test_batches_without_a_registry_are_read_as_the_rule_reads_each_record(seed: int) -> None:
    from lakehouse.spark.expression.protobuf_batches import PlainMessageBatches

    draw = random.Random(seed)
    columns = lh.stream("rows", key="id int", schema=SCHEMA, format="protobuf").source.value
    for has_faults in (False, True, True):
        schema = drawn_schema(draw, has_maps=draw.random() < 0.5)
        text = base64.b64encode(schema.proto_schema.files).decode()
        format = str(RecordFormat("protobuf_nosr", options=str(SchemaOptions(schema=text))))
        own_class, values = row_class(schema), [None]
        for _ in range(60):
            value = fill(draw, own_class()).SerializeToString()
            values.append(damaged(draw, value) if has_faults and draw.random() < 0.2 else value)
        expected_rows = []
        for value in values:
            try:
                row_or_none = decode_columns(format, columns, value)
                expected_rows.append(row_or_none and {**row_or_none, "_unfit": None})
            except Unfit as error:
                expected_rows.append({**{column.name: None for column in columns}, "_unfit": str(error)})
        batches = PlainMessageBatches("value", format, columns, WriterSchemas(), ARROW_TYPE)
        rows = batches.decode(pa.array(values, pa.binary())).to_pylist(maps_as_pydicts="strict")
        expected_array = pa.array(expected_rows, ARROW_TYPE).to_pylist(maps_as_pydicts="strict")
        for value, row, expected_row in zip(values, rows, expected_array, strict=True):
            assert repr(row) == repr(expected_row), (value, schema.text)


@pytest.mark.parametrize("seed", seeds(2, on_spark=True))
def test_spark_reads_what_the_rule_reads(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)
    source = lh.stream("rows", key="id bigint", schema=SCHEMA, format="protobuf", key_format="protobuf").source
    assert isinstance(source, Source)
    drawn = {id: drawn_schema(draw, has_maps=id > 6) for id in range(1, 9)}
    key_text = 'syntax = "proto3"; package drawn; message Row {{ {} id = 1; }}'
    keys = {
        id: WriterSchema("PROTOBUF", key_text.format(type))
        for id, type in enumerate(["int64", "optional int64", "string"], 1)
    }
    schemas = {"key": WriterSchemas(keys), "value": WriterSchemas(drawn)}
    classes = {id: row_class(schema) for id, schema in drawn.items()}
    key_classes = {id: row_class(schema) for id, schema in keys.items()}
    records = []
    for number in range(1000):
        key_id, value_id = draw.choice([1] * 9 + [2, 3]), draw.choice([*drawn])
        key = with_prefix(key_id, b"\0" + fill(draw, key_classes[key_id]()).SerializeToString())
        row = fill(draw, classes[value_id]()).SerializeToString()
        value = damaged(draw, with_prefix(draw.choice([value_id] * 30 + [99]), b"\0" + row))
        records.append(
            Record("rows", "id", 0, number, 1, draw.choice([key] * 9 + [None]), draw.choice([value] * 9 + [None]), 1, 1)
        )
    comparison = Comparison()
    comparison.add(source, bronze_rows(spark, records), records, lambda topic, part_name: schemas[part_name])
    comparison.check_equal()
    assert comparison.rows_read > 20, "some are read: a drawn schema may fit nothing"
    assert len(comparison.reasons) > 30, comparison.reasons
