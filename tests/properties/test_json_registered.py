"""JSON behind a registry's prefix: Spark reads it as the rule does, and no other prefix."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.formats.codec.registered import ID_MAX, WriterSchemas, with_prefix
from lakehouse.formats.decode import decode_record
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.plan.registered.writer_schema import WriterSchema
from lakehouse.semantics.record import Record
from tests.properties import test_json, test_json_keys
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = lh.stream("docs", key="id string", schema=test_json.SCHEMA, format="json_sr")
FLAT = replace(STREAM, source=replace(test_json.FLAT.source, value_format="json_sr"), columns=test_json.FLAT.columns)
ANY_CASE = replace(STREAM, source=replace(STREAM.source, value_format="json_sr_any_case"))
BARE = lh.stream("docs", key="id string", schema="v double", format="json_sr")
BARE = replace(BARE, source=replace(BARE.source, value_format="json_sr_bare"))
PREFIXES = [*(with_prefix(id, b"") for id in (1, 255, 256, ID_MAX))] * 4 + [
    b"", b"\0", b"\0\0\0\0", b"\0\0\0\0\0", b"\0\x80\0\0\0", b"\0\xff\xff\xff\xff", b"\1\0\0\0\1", b"\xff\0\0\0\1",
]  # fmt: skip
texts = st.one_of(test_json.documents, test_json.loose, test_json.noise, st.sampled_from([b"5", b'"NaN"', b"true"]))
prefixed = st.builds(bytes.__add__, st.sampled_from(PREFIXES), texts)


@pytest.mark.rotated
@pytest.mark.parametrize("stream", [STREAM, FLAT, ANY_CASE, BARE], ids=["plain", "flat", "any case", "bare"])
@settings(max_examples=2, deadline=None, phases=test_json.PHASES, suppress_health_check=list(HealthCheck))
@given(st.lists(prefixed, min_size=400, max_size=400))
@example([prefix + text for prefix in PREFIXES[-9:] for text in test_json.NOISE])
def test_spark_reads_what_the_rule_reads(stream: lh.Stream, spark: SparkSession, docs: list[bytes]) -> None:
    test_json.check(stream, spark, docs)


@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_spark_reads_keys_as_the_rule_does(spark: SparkSession, seed: int) -> None:
    from lakehouse.spark.bronze import bronze
    from lakehouse.spark.changelog import published
    from lakehouse.spark.stream.decoded import decode_records

    draw = random.Random(seed)
    source = lh.stream("docs", key="id bigint", key_format="json_sr", schema="v int").source
    keys = [None, *(draw.choice(PREFIXES) + test_json_keys.key(draw) for _ in range(400)), *PREFIXES]
    records = [Record("docs", "id", 0, n, 1, key, b'{"v":1}', 1, 1) for n, key in enumerate(keys)]
    rows = [("docs", "id", 0, r.offset, None, 0, None, r.key, r.value, 1, None) for r in records]
    frame = decode_records(source, spark.createDataFrame(rows, bronze.SCHEMA)).orderBy("rowoffset")
    good_count = 0
    for record, row in zip(records, published.rows_of_frame(frame), strict=True):
        item = decode_record(source, record)
        assert row["_bad"] == isinstance(item, BadRecord), record.key
        if isinstance(item, DecodedRecord):
            good_count += item.key is not None
            assert (row["_null_key"], row["id"]) == (item.key is None, (item.key or {"id": None})["id"]), record.key
    assert good_count > 10


USER = {"type": "object", "properties": {"v": {"type": "integer", "maximum": 500}}}
SCHEMAS = WriterSchemas(
    {
        1: WriterSchema("JSON", "true"),
        255: WriterSchema("JSON", json.dumps(USER)),
        256: WriterSchema("JSON", "false"),
    }
)


@pytest.mark.parametrize("formats", [("valid", "valid"), ("any_case_valid", "bare_valid")], ids=["Python", "SQL"])
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_spark_compares_with_schemas_as_the_rule_does(spark: SparkSession, seed: int, formats: tuple[str, str]) -> None:
    from lakehouse.spark.bronze import bronze
    from lakehouse.spark.changelog import published
    from lakehouse.spark.stream.decoded import decode_records

    draw = random.Random(seed)
    source = lh.stream(
        "docs", key="id bigint", key_format="json_sr", schema="v int", format="json_sr", validate=True
    ).source
    value_format, key_format = (f"json_sr_{name}" for name in formats)
    source = replace(source, value_format=value_format, key_format=key_format)
    texts = [
        b'{"v":1}', b'{"v":501}', b'{"V":"7"}', b"4", b'{"v":1.0}', b"null", b'{"v":NaN}', b"{}", b"7", b"{",
        b'{"v":1,"v":900}', b"",
    ]  # fmt: skip
    # Half of them have an id whose schema lets something pass, so that enough records fit.
    parts = [draw.choice(draw.choice((PREFIXES, PREFIXES[:2]))) + draw.choice(texts) for _ in range(800)]
    keys, values = [None, *parts[:399]], [*parts[400:799], None]
    records = [
        Record("docs", "id", 0, n, 1, key, value, 1, 1) for n, (key, value) in enumerate(zip(keys, values, strict=True))
    ]
    rows = [("docs", "id", 0, r.offset, None, 0, None, r.key, r.value, 1, None) for r in records]

    def find(topic: str, part_name: str) -> WriterSchemas:
        return SCHEMAS

    frame = decode_records(source, spark.createDataFrame(rows, bronze.SCHEMA), find).orderBy("rowoffset")
    bad_count = 0
    for record, row in zip(records, published.rows_of_frame(frame), strict=True):
        item = decode_record(source, record, find)
        bad_count += isinstance(item, BadRecord)
        assert row["_bad"] == isinstance(item, BadRecord), (record.key, record.value, item)
    assert 10 < bad_count < 390
