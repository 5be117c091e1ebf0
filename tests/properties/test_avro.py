"""Records in Avro by drawn schemas, whole and damaged: Spark reads what the rule in lakehouse.formats.avro does."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

import lakehouse as lh
from lakehouse.formats.codec.registered import WriterSchemas, with_prefix
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
    "born date, at timestamp, tags array<string>, days array<date>, home struct<zip: smallint, city: string>, "
    "rooms array<struct<size: decimal(9, 1), name: string>>, grid array<array<int>>, "
    "names array<array<string>>, deep array<array<array<string>>>, props map<string, int>"
)
FIRST_DAY, DAY_MS = -719_162, 86_400_000  # the first day of the year 1, by days since 1970
LONG, MILLIS = "long", {"type": "long", "logicalType": "timestamp-millis"}


def decimal_type(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def record_type(record_name: str, /, **types: Any) -> dict[str, Any]:
    return {"type": "record", "name": record_name, "fields": [{"name": name, "type": types[name]} for name in types]}


def array_type(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


# For each column, the types that writers have; the first ones are usual, and the last one does not fit.
TYPES: dict[str, list[Any]] = {
    "n": ["int", ["null", "int"], ["int", "null"], LONG, {"type": "int", "logicalType": "time-millis"},
          decimal_type(64, 0), "string"],
    "big": [LONG, ["null", LONG], "int", ["null", "int", LONG], decimal_type(5, 0), MILLIS],
    "small": ["int", LONG, "float"],
    "x": ["double", "float", "int", ["null", "double"], LONG],
    "f": ["float", ["float", "null"], "double"],
    "ok": ["boolean", ["null", "boolean"], "int"],
    "t": ["string", ["null", "string"], {"type": "enum", "name": "Letter", "symbols": ["A", "B"]},
          {"type": "string", "logicalType": "uuid"}, "bytes"],
    "raw": ["bytes", ["null", {"type": "fixed", "name": "Two", "size": 2}], decimal_type(5, 1), "string"],
    "amount": [decimal_type(12, 2), ["null", decimal_type(9, 1)], decimal_type(3, 0), "int",
               {"type": "fixed", "name": "Wide", "size": 12, "logicalType": "decimal", "precision": 11, "scale": 2},
               decimal_type(64, 2), decimal_type(64, 1), decimal_type(14, 4)],
    "born": [{"type": "int", "logicalType": "date"},
             {"type": "string", "connect.name": "io.debezium.time.IsoDate"}, "int"],
    "at": [MILLIS, ["null", {"type": "long", "logicalType": "timestamp-micros"}],
           {"type": "long", "logicalType": "timestamp-nanos"}],
    "tags": [{"type": "array", "items": "string"}, ["null", {"type": "array", "items": ["null", "string"]}], "string"],
    "days": [{"type": "array", "items": {"type": "int", "logicalType": "date"}}, {"type": "array", "items": "int"}],
    "home": [record_type("Home", zip="int", city="string"),
             ["null", record_type("Place", more=LONG, city=["null", "string"])],
             record_type("Wrong", zip="string")],
    "rooms": [{"type": "array", "items": record_type("Room", size=decimal_type(9, 1), name="string")},
              ["null", {"type": "array", "items": ["null", record_type("Hall", name=["null", "string"])]}], "string"],
    "grid": [{"type": "array", "items": {"type": "array", "items": "int"}}, {"type": "array", "items": "int"}],
    "names": [array_type(array_type("string")), ["null", array_type(["null", array_type(["null", "string"])])],
              array_type("string")],
    "deep": [array_type(["null", array_type(array_type("string"))]), array_type(array_type("string"))],
    "props": [{"type": "map", "values": ["null", "int"]}, {"type": "map", "values": "string"}],
    "unread": ["string", record_type("Inner", a=LONG, b=["null", "string"]), {"type": "map", "values": MILLIS},
               {"type": "enum", "name": "Odd", "symbols": ["A", "B"]},
               [LONG, {"type": "fixed", "name": "Key", "size": 3}]],
}  # fmt: skip


def drawn_schema(draw: random.Random, wrong: float, *, has_maps: bool) -> dict[str, Any]:
    """Return a record of some of the columns; now and then one of them has a type that does not fit."""
    types = {}
    for name in draw.sample(sorted(TYPES), draw.randint(3, len(TYPES))):
        if name != "props" or has_maps:
            own_types = TYPES[name]
            types[name] = draw.choice(own_types if draw.random() < wrong or name == "unread" else own_types[:-1])
    return record_type("Row", **types)


def drawn_value(draw: random.Random, type: Any) -> Any:
    """Return a value for fastavro to write; logical types are left out, so that they are numbers and bytes."""
    is_usual = draw.random() < 0.97
    match type:
        case list():
            return drawn_value(draw, draw.choice(type))
        case "null":
            return None
        case "boolean":
            return draw.random() < 0.5
        case "int" | "long" if is_usual:
            return draw.randrange(-100, 100)
        case {"connect.name": "io.debezium.time.IsoDate"} if is_usual:
            return f"{draw.randrange(1, 10_000):04}-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}"
        case {"logicalType": "date"} if draw.random() < 0.9:
            return draw.randrange(FIRST_DAY, -FIRST_DAY)
        case {"logicalType": "timestamp-millis"} if draw.random() < 0.9:
            return draw.randrange(FIRST_DAY, -FIRST_DAY) * DAY_MS + draw.randrange(DAY_MS)
        case {"logicalType": "timestamp-micros"} if draw.random() < 0.9:
            return (draw.randrange(FIRST_DAY, -FIRST_DAY) * DAY_MS + draw.randrange(DAY_MS)) * 1000 + 7
        case "bytes" if is_usual:
            return draw.randbytes(1)
        case "int":
            return draw.choice([0, -1, draw.randrange(-(2**7), 2**7), draw.randrange(-(2**31), 2**31)])
        case "long":
            return draw.choice([0, 7, draw.randrange(-(2**31), 2**31), draw.randrange(-(2**63), 2**63), 10**15])
        case "float" | "double":
            return draw.choice([0.0, -0.0, 1.5, float("inf"), draw.random()])
        case "string":
            return draw.choice(["", "a", "é\0", "𝄞" * draw.randrange(4)])
        case "bytes":
            return draw.randbytes(draw.choice([0, 1, 2, 4, 9, 17]))
    match type["type"]:
        case "array":
            return [drawn_value(draw, type["items"]) for _ in range(draw.choice([0, 1, 3]))]
        case "map":
            return {str(number): drawn_value(draw, type["values"]) for number in range(draw.choice([0, 1, 3]))}
        case "record":
            return {field["name"]: drawn_value(draw, field["type"]) for field in type["fields"]}
        case "enum":
            return draw.choice(type["symbols"])
        case "fixed":
            return draw.randbytes(type["size"])
    return drawn_value(draw, type["type"])


def without_logical(type: Any) -> Any:
    if isinstance(type, list):
        return [without_logical(item) for item in type]
    if not isinstance(type, dict):
        return type
    return {
        name: without_logical(part) for name, part in type.items() if name not in ("logicalType", "precision", "scale")
    }


def written(draw: random.Random, schema: dict[str, Any]) -> bytes:
    plain = fastavro.parse_schema(without_logical(json.loads(json.dumps(schema))))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, plain, drawn_value(draw, schema))
    return stream.getvalue()


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
            return data[:place] + b"\xea\xff\xff\xff\x0f" + data[place + 1 :]
        case 5:
            return draw.choice([b"", b"{}", draw.randbytes(5), data[:5]])
    return data


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds(2, on_spark=True))
def test_spark_reads_what_the_rule_reads(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)
    source = lh.stream("rows", key="id bigint", schema=SCHEMA, format="avro", key_format="avro").source
    assert isinstance(source, Source)
    drawn = {id: drawn_schema(draw, 0.05, has_maps=id > 12) for id in range(1, 17)}
    keys = {1: "long", 2: "int", 3: record_type("Key", id=["null", LONG]), 4: ["null", LONG], 5: "string"}
    schemas = {
        part: WriterSchemas({id: WriterSchema("AVRO", json.dumps(schema)) for id, schema in by_id.items()})
        for part, by_id in (("key", keys), ("value", drawn))
    }
    records = []
    for number in range(2000):
        key_id, value_id = draw.choice([*keys]), draw.choice([*drawn])
        key = damaged(draw, with_prefix(key_id, written(draw, keys[key_id])))
        value = damaged(draw, with_prefix(draw.choice([value_id] * 30 + [99]), written(draw, drawn[value_id])))
        records.append(
            Record("rows", "id", 0, number, 1, draw.choice([key] * 9 + [None]), draw.choice([value] * 9 + [None]), 1, 1)
        )
    comparison = Comparison()
    comparison.add(source, bronze_rows(spark, records), records, lambda topic, part_name: schemas[part_name])
    comparison.check_equal()
    assert comparison.rows_read > 200, "many are read"
    assert len(comparison.reasons) > 50, comparison.reasons


def test_a_record_that_says_billions_of_items_ends_no_jvm(spark: SparkSession) -> None:
    from lakehouse.spark.bronze import bronze
    from lakehouse.spark.stream.decoded import decode_records

    types = {"t": "string", "raw": "bytes", "tags": {"type": "array", "items": "string"}, "grid": TYPES["grid"][0]}
    schemas = WriterSchemas(
        {
            id: WriterSchema("AVRO", json.dumps(record_type("Row", **{name: type})))
            for id, (name, type) in enumerate(types.items(), 1)
        }
    )
    columns = "t string, raw binary, tags array<string>, grid array<array<int>>"
    source = lh.stream("rows", key="id int", schema=columns, format="avro").source
    assert isinstance(source, Source)
    lengths = [b"\xea\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x0f\x02"]
    values = [with_prefix(id, prefix + length) for id in schemas for length in lengths for prefix in (b"", b"\x02")]
    rows = [("rows", "id", 0, n, EPOCH + timedelta(0), 0, None, None, value, 1, None) for n, value in enumerate(values)]
    bronze_rows = spark.createDataFrame(rows, bronze.SCHEMA)
    assert decode_records(source, bronze_rows, lambda topic, part_name: schemas).where("NOT _bad").count() == 0
