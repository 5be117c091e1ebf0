"""Kafka's whole numbers as keys and values: Spark reads what the rule in lakehouse.formats.codec.primitive does."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model.model import BadRecord
from lakehouse.plan.origin import Source
from lakehouse.semantics.record import Record
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EDGES = (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 255, 2**24)


def drawn_bytes(draw: random.Random) -> bytes | None:
    size = draw.choice([4, 8])
    number = draw.choice([draw.choice(EDGES), draw.randrange(-(2**63), 2**63)])
    number = (number + 2 ** (8 * size - 1)) % 2 ** (8 * size) - 2 ** (8 * size - 1)
    whole = number.to_bytes(size, "big", signed=True)
    return draw.choice([whole] * 9 + [None, b"", whole[1:], whole + b"\0", draw.randbytes(draw.randrange(12))])


@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_spark_reads_what_the_rule_reads(spark: SparkSession, seed: int) -> None:
    from lakehouse.spark.bronze import bronze
    from lakehouse.spark.changelog import published
    from lakehouse.spark.stream.decoded import decode_records

    draw = random.Random(seed)
    records = [Record("t", "id", 0, n, 1, drawn_bytes(draw), drawn_bytes(draw), 1, 1) for n in range(1000)]
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    rows = [("t", "id", 0, r.offset, moment, 0, None, r.key, r.value, 1, None) for r in records]
    bronze_rows = spark.createDataFrame(rows, bronze.SCHEMA)
    for key_type, value_type in (("int", "bigint"), ("bigint", "int")):
        source = lh.stream("t", key=f"id {key_type}", schema=f"v {value_type}", format="kafka").source
        assert isinstance(source, Source)
        frame = decode_records(source, bronze_rows).select("rowoffset", "_bad", "_null_key", "_tombstone", "id", "v")
        numbers = 0
        for row in published.rows_of_frame(frame):
            item = decode_record(source, records[row["rowoffset"]])
            if isinstance(item, BadRecord):
                assert row["_bad"], item
                continue
            numbers += item.key is not None and item.value is not None
            spark_row = (row["_bad"], row["_null_key"], row["_tombstone"], row["id"], row["v"])
            key, value = (item.key or {}).get("id"), (item.value or {}).get("v")
            assert spark_row == (False, item.key is None, item.value is None, key, value)
        assert numbers > 50
