"""Changes of a database in Avro, by drawn schemas, whole and damaged.

Spark reads what the rule in lakehouse.formats.codec.debezium_avro does.
"""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

import lakehouse as lh
from lakehouse.formats.codec.registered import WriterSchemas, with_prefix
from lakehouse.plan.origin import Source
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.semantics.record import Record
from tests.properties.compared import Comparison, bronze_rows
from tests.properties.test_avro import (
    LONG,
    SCHEMA,
    damaged,
    drawn_schema,
    drawn_value,
    record_type,
    without_logical,
)
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACEHOLDER = "__debezium_unavailable_value"
UNSENT_LISTS = {"tags": [PLACEHOLDER], "days": list(PLACEHOLDER.encode())}
ZONED = {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"}
MOMENTS = [
    "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789+02:00", "2026-01-01T12:00Z", "", "12:00", "2026",
    "0001-01-01T00:00:00+05:00", "2026-02-30T00:00:00Z", "1767225600000", "é", "now", PLACEHOLDER,
]  # fmt: skip
# What several columns read: a struct and a field in it, a field by two spellings of its name.
OVERLAPPING = "src struct<version: string> from 'source', lsn int from 'source.lsn', wide bigint from 'source.LSN'"
META = "operation string from 'op', lsn bigint from 'source.lsn', tx string from 'transaction.id'"


def drawn_envelope(draw: random.Random) -> dict[str, Any]:
    """Return the schema of an event; now and then a part of it is missing, or its types do not fit."""
    row = drawn_schema(draw, 0.02, has_maps=False)
    row["fields"].append({"name": "seen", "type": draw.choice([ZONED, ["null", ZONED]])})
    for field in row["fields"]:
        field["name"] = draw.choice([field["name"], field["name"].upper()])
    transaction = record_type("block", id="string", total_order=LONG)
    parts = {
        "before": ["null", record_type("Before", a="int")], "after": ["null", row],
        "source": record_type("Source", version="string", ts_ms=LONG, lsn=["null", LONG]), "op": "string",
        "ts_ms": ["null", LONG], "transaction": ["null", transaction],
    }  # fmt: skip
    if draw.random() < 0.1:
        del parts[draw.choice(sorted(parts))]
    return record_type("Envelope", **parts)


def event(draw: random.Random, schema: dict[str, Any]) -> bytes:
    value = drawn_value(draw, schema)
    if "op" in value:
        value["op"] = draw.choice(["c", "u", "r", "d", "t", "m", "x", "c", "u", "r", "u"])
    for name, item in (value.get("after") or {}).items():
        if name.lower() == "seen" and item is not None:
            value["after"][name] = draw.choice(MOMENTS)
        elif isinstance(item, str | bytes) and draw.random() < 0.1:
            value["after"][name] = PLACEHOLDER if isinstance(item, str) else PLACEHOLDER.encode()
        elif name.lower() in UNSENT_LISTS and isinstance(item, list) and draw.random() < 0.2:
            value["after"][name] = UNSENT_LISTS[name.lower()]
    stream = io.BytesIO()
    plain = fastavro.parse_schema(without_logical(json.loads(json.dumps(schema))))
    try:
        fastavro.schemaless_writer(stream, plain, value)
    except (ValueError, EOFError):  # an enum, or a fixed, has no such value
        return event(draw, schema)
    return stream.getvalue()


def is_same(read: Any, expected: Any) -> bool:
    return repr(read) == repr(expected) if isinstance(expected, float) else bool(read == expected)


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds(1, 2609710886, on_spark=True))
def test_spark_reads_what_the_rule_reads(spark: SparkSession, seed: int) -> None:
    draw = random.Random(seed)
    envelopes = {id: drawn_envelope(draw) for id in range(1, 7)}
    keys = {1: record_type("Key", ID=LONG), 2: record_type("Key", id="int")}
    schemas = {
        part: WriterSchemas({id: WriterSchema("AVRO", json.dumps(schema)) for id, schema in by_id.items()})
        for part, by_id in (("key", keys), ("value", envelopes))
    }
    records = []
    for number in range(1000):
        key_id, id = draw.choice([*keys]), draw.choice([*envelopes])
        key_stream = io.BytesIO()
        fastavro.schemaless_writer(key_stream, fastavro.parse_schema(keys[key_id]), drawn_value(draw, keys[key_id]))
        value = damaged(draw, with_prefix(draw.choice([id] * 30 + [99]), event(draw, envelopes[id])))
        record_key, record_value = with_prefix(key_id, key_stream.getvalue()), draw.choice([value] * 9 + [None])
        records.append(Record("rows", "id", 0, number, 1, record_key, record_value, 1, 1))
    comparison, rows = Comparison(), bronze_rows(spark, records)
    stream = lh.debezium("rows", key="id bigint", schema=f"{SCHEMA}, seen timestamp", format="avro")
    with_meta = lh.debezium("rows", key="id bigint", schema="t string, raw binary, n int", format="avro", meta=META)
    overlapping = lh.debezium("rows", key="id bigint", schema="n int", format="avro", meta=OVERLAPPING)
    for source in (stream.source, with_meta.latest("rows").stream.source, overlapping.source):
        assert isinstance(source, Source)
        comparison.add(source, rows, records, lambda topic, part_name: schemas[part_name], is_same)
    comparison.check_equal()
    assert comparison.rows_read > 100, "most of them are read"
    assert len(comparison.reasons) > 10, comparison.reasons
