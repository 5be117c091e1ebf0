"""Keys of one column in JSON: Spark reads them as the rule in lakehouse.formats.values.json_key does."""

from __future__ import annotations

import json
import random
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.markup.plain import finite_or_text
from lakehouse.model.model import BadRecord, DecodedRecord
from lakehouse.semantics.record import Record
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("bigint", "string", "double", "boolean", "decimal(5, 2)", "timestamp", "date", "array<int>", "struct<id: int>")
VALUES = (
    "7", "-0", "0.0", "-0.0", "1.5", "1e3", "NaN", "Infinity", "-Infinity", "true", "null", "[1]", "[]", "{}", '"a"',
    '""', '"7"', '"NaN"', '"1970-01-02T03:04:05Z"', '"1970-01-02"', '"12:30"', '"a\\"b"', '"\\\\"', '"\\u00e9"',
    '"\\ud800"',
    '"}"', '"{"', "01", "+1", ".5", "9223372036854775807", "9223372036854775808", "1577836800", "'a'", "a", "\\",
    '"', "",
    '{"id":1}', '{"x":1}', '"é"', '"\t"', "7,8", '7,"id":8', "7}", "[1],[2]", "7/**/", "tru", "0x1", "1_0", '"a" "b"',
)  # fmt: skip
AROUND = (
    "%s", "%s", " %s\n", "\v%s", '{"id":%s}', '{"id":%s}', '{"ID":%s}', '{"x":1,"id":%s}', '{"id":1,"id":%s}',
    '{"id":%s} x',
)  # fmt: skip


def key(draw: random.Random) -> bytes:
    text = (draw.choice(AROUND) % draw.choice(VALUES)).encode()
    return text if draw.random() > 0.03 else text + b"\xff"


@pytest.mark.rotated
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_spark_reads_what_the_rule_reads(spark: SparkSession, seed: int) -> None:
    from pyspark.sql import functions as F

    from lakehouse.spark.bronze import bronze
    from lakehouse.spark.changelog import published
    from lakehouse.spark.stream.decoded import decode_records

    draw = random.Random(seed)
    keys = [None, *(key(draw) for _ in range(400)), *(text.encode() for text in VALUES)]
    records = [Record("docs", "id", 0, n, 1, text, b'{"v":1}', 1, 1) for n, text in enumerate(keys)]
    rows = [("docs", "id", 0, r.offset, None, 0, None, r.key, r.value, 1, None) for r in records]
    bronze_rows = spark.createDataFrame(rows, bronze.SCHEMA)
    frame, sources = None, []
    for number, kind in enumerate(KINDS):
        source = lh.stream("docs", key=f"id {kind}", key_format="json", schema="v int", name=f"s{number}").source
        sources.append(source)
        of = decode_records(source, bronze_rows)
        good = F.to_json(F.struct(F.when(~F.col("_bad"), F.col("id")).alias("id")), {"ignoreNullFields": "false"})
        of = of.select(F.lit(number).alias("n"), "rowoffset", "_bad", "_null_key", good.alias("id"))
        frame = of if frame is None else frame.unionByName(of)
    assert frame is not None
    differences = []
    for row in published.rows_of_frame(frame):
        source, record = sources[row["n"]], records[row["rowoffset"]]
        if source.key[0].type in ("date", "timestamp") and (record.key or b"").count(b'"id"') > 1:
            continue  # a known difference: of a moment that stands twice, Spark does not judge the first
        item = decode_record(source, record)
        if isinstance(item, BadRecord):
            same = bool(row["_bad"])
        else:
            assert isinstance(item, DecodedRecord)
            is_null = item.key is None
            same = not row["_bad"] and row["_null_key"] == is_null
            same = same and _shown((item.key or {"id": None})["id"]) == _shown(json.loads(row["id"])["id"])
        if not same:
            differences.append((source.key[0].type, record.key, row, item))
    assert not differences, f"{len(differences)} differences; the first: {differences[:10]}"


def _shown(value: Any) -> Any:
    """A value in a form in which both are the same: Spark's JSON has times with milliseconds."""
    match value:
        case bool():
            return value
        case float() | int() | Decimal():
            return finite_or_text(float(value))
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        case date():
            return value.isoformat()
    return value
