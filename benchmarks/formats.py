"""Processor seconds to decode a million records of each format on Spark: bronze's columns to a stream's, to no sink.

    .venv/bin/python benchmarks/formats.py [--records N] [--bad SHARE] [--only FORMAT ...] [--written]

Each record has the same six fields, and a bigint as Kafka writes it for its key. Of a share of them the second half is
cut off; with it the passes also make the quarantine's rows, with the reasons. Processor seconds are those of the JVM
and of Python's workers together, the median of three passes after one that warms up; compare them with each other only.
With --written instead: to write the values of a million changes, as publishing does in its own process, without Spark.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import statistics
import tempfile
import time
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from common import show
from pyspark.sql import functions as F

import lakehouse as lh
from lakehouse.formats.decode import find_declared
from lakehouse.formats.encode import encode_value
from lakehouse.formats.written_form import encode_written_value
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.origin import Source
from lakehouse.settings.config import load
from lakehouse.spark.bronze import bronze
from lakehouse.spark.jvm.session.session import open_session
from lakehouse.spark.stream.decoded import decode_records
from lakehouse.spark.table import quarantine

SCHEMA = "name string, city string, amount decimal(12, 2), made timestamp, visits bigint, ratio double"
COLUMNS = parse_schema(SCHEMA, "schema")
MADE_MICROS = 1_767_225_600_123_456
MADE = datetime(2026, 1, 1, microsecond=123_456, tzinfo=UTC)
DEBEZIUM_STREAM = lh.debezium("t", key="id bigint", schema=SCHEMA, key_format="kafka", format="avro")
CONNECT = "org.apache.kafka.connect.data."
FIELDS = [
    {"field": "id", "type": "int64"}, {"field": "name", "type": "string"}, {"field": "city", "type": "string"},
    {"field": "amount", "type": "bytes", "name": CONNECT + "Decimal", "parameters": {"scale": "2"}},
    {"field": "made", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    {"field": "visits", "type": "int64"}, {"field": "ratio", "type": "double"},
]  # fmt: skip


def row(number: int) -> dict[str, Any]:
    return {"name": f"name {number % 999}", "city": "Rome", "visits": number, "ratio": number / 7}


def json_record(number: int) -> str:
    return json.dumps(row(number) | {"amount": number / 100, "made": "2026-01-01T00:00:00.123456Z"})


def line(number: int) -> str:
    return f"name {number % 999},Rome,{number / 100},2026-01-01T00:00:00.123456Z,{number},{number / 7}"


def envelope(number: int) -> dict[str, Any]:
    amount = base64.b64encode(number.to_bytes(8, "big", signed=True)).decode()
    after = {"id": number} | row(number) | {"amount": amount, "made": MADE_MICROS + number}
    source = {"version": "3.3.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1_767_225_600_000}
    source |= {"db": "shop", "schema": "public", "table": "customers", "txId": 700, "lsn": number}
    return {"before": None, "after": after, "source": source, "op": "u", "ts_ms": 1_767_225_600_500}


def with_schema(number: int) -> str:
    struct = {"type": "struct", "optional": True, "name": "shop.public.customers.Value", "fields": FIELDS}
    fields = [struct | {"field": "before"}, struct | {"field": "after"}, {"field": "op", "type": "string"}]
    schema = {"type": "struct", "name": "shop.public.customers.Envelope", "fields": fields}
    return json.dumps({"schema": schema, "payload": envelope(number)})


def registered_record(format: str, number: int) -> bytes:
    data = encode_value(format, COLUMNS, row(number) | {"amount": Decimal(number).scaleb(-2), "made": MADE})
    assert data is not None
    return data


def debezium_avro_record(number: int) -> bytes:
    after = row(number) | {"amount": Decimal(number).scaleb(-2), "made": MADE}
    event = {"op": "u", "after": after, "source": {"ts_ms": 1_767_225_600_000}}
    assert isinstance(DEBEZIUM_STREAM.source, Source)
    data = encode_written_value(DEBEZIUM_STREAM.source, event)
    assert data is not None
    return data


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--records", type=int, default=200_000)
    arguments.add_argument("--bad", type=float, default=0.0, help="the share of bad records, 0.1")
    arguments.add_argument("--only", nargs="*", metavar="FORMAT", help="these formats alone")
    arguments.add_argument("--written", action="store_true", help="to write, not to read")
    given = arguments.parse_args()
    if given.written:
        measure_writing(given.records)
        return
    records, bad_share = given.records, given.bad
    formats = {
        "json": (lh.stream("t", key="id bigint", schema=SCHEMA), json_record),
        "avro": (lh.stream("t", key="id bigint", schema=SCHEMA, format="avro"), partial(registered_record, "avro")),
        "protobuf": (
            lh.stream("t", key="id bigint", schema=SCHEMA, format="protobuf"),
            partial(registered_record, "protobuf"),
        ),
        "delimited": (lh.stream("t", key="id bigint", schema=SCHEMA, format="csv"), line),
        "debezium": (
            lh.debezium(
                "t", key="id bigint", schema=SCHEMA, key_format="kafka", decimals="precise", times={"made": "micros"}
            ),
            lambda number: json.dumps(envelope(number)),
        ),
        "debezium, {schema, payload}": (
            lh.debezium("t", key="id bigint", schema=SCHEMA, key_format="kafka"),
            with_schema,
        ),
        "debezium_avro": (DEBEZIUM_STREAM, debezium_avro_record),
    }
    with tempfile.TemporaryDirectory() as folder:
        settings = load(environ={"LAKEHOUSE_LAKE_PATH": folder}, start=Path(folder))
        spark = open_session(settings)
        rows = []
        for name, (stream, written) in formats.items():
            if given.only and name not in given.only:
                continue
            source = stream.source
            assert isinstance(source, Source)
            place = f"{folder}/{len(rows)}"
            written_values = (written(number) for number in range(records))
            values = [
                (number, number.to_bytes(8, "big", signed=True), value if isinstance(value, bytes) else value.encode())
                for number, value in enumerate(written_values)
            ]
            draw = random.Random(1)
            values = [
                (n, key, value[: len(value) // 2] if draw.random() < bad_share else value) for n, key, value in values
            ]
            values_frame = spark.createDataFrame(values, "offset bigint, key binary, value binary")
            values_frame.selectExpr(
                "'t' AS topic", "'id' AS topic_id", "0 AS partition", "offset", "timestamp_millis(offset) AS timestamp",
                "0 AS timestamp_type", "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers", "key",
                "value", "1L AS tick", "timestamp_millis(offset) AS order_time",
            ).write.parquet(place)  # fmt: skip
            bronze_rows = spark.read.schema(bronze.SCHEMA).parquet(place)
            decoded = decode_records(source, bronze_rows, find_declared([source]))
            bad = decoded.filter(F.col("_bad")).count()
            assert abs(bad / records - bad_share) < 0.01, f"{name}: {bad} bad records"
            bad_rows = quarantine.bad_records(source, bronze_rows, decoded, find_declared([source]))
            seconds = []
            for _ in range(4):
                before = processor_seconds()
                decoded.write.format("noop").mode("overwrite").save()
                if bad_share:
                    bad_rows.write.format("noop").mode("overwrite").save()
                seconds.append((processor_seconds() - before) * 1_000_000 / records)
            size = statistics.mean(len(value) for _, _, value in values)
            rows.append([name, f"{size:.0f}", f"{statistics.median(seconds[1:]):.1f}"])
        show("processor seconds to decode a million records", ["format", "bytes a record", "seconds"], rows)


def measure_writing(records: int) -> None:
    rows = [row(number) | {"amount": Decimal(number).scaleb(-2), "made": MADE} for number in range(records)]
    results = []
    for format in ("json", "avro", "json_sr", "protobuf", "protobuf_nosr"):
        seconds = []
        for _ in range(4):
            before = time.process_time()
            sizes = [len(encode_value(format, COLUMNS, values) or b"") for values in rows]
            seconds.append((time.process_time() - before) * 1_000_000 / records)
        results.append([format, f"{statistics.mean(sizes):.0f}", f"{statistics.median(seconds[1:]):.1f}"])
    show("processor seconds to write a million values", ["format", "bytes a value", "seconds"], results)


def processor_seconds() -> float:
    """Return the processor seconds of this process's children so far: the JVM, and Python's workers behind it."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


if __name__ == "__main__":
    main()
