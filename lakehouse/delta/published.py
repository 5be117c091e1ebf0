"""Changes as records for Kafka: key, value or tombstone, and in the headers what another lake needs to go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta import bronze, changefeed, tables
from lakehouse.delta.layout import Layout
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.kafka.publish import ACCUMULATORS, EVENT_TIME, OFFSETS, POSITION
from lakehouse.plan.declare import Sink, Stream, Table
from lakehouse.plan.schema import Column, base_type


def key_format(columns: tuple[Column, ...]) -> str:
    """Return how a key of these columns is written: as Kafka's primitive where it is one, else as JSON."""
    simple = len(columns) == 1 and base_type(columns[0].type) in ("string", "int", "bigint", "double", "binary")
    return "kafka" if simple else "json"


def columns_of(spark: SparkSession, of: Stream | Table) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the key and the value columns of what is published, with Spark's types."""
    frame = tables.empty_stream(spark, of).schema if isinstance(of, Stream) else tables.schema(spark, of)
    kinds = {field.name: field.dataType.simpleString() for field in frame}
    names = [c.name for c in of.columns] if isinstance(of, Stream) else [n for n in kinds if not n.startswith("_")]
    key = tuple(Column(name, kinds[name]) for name in of.key)
    return key, tuple(Column(name, kinds[name]) for name in names if name not in of.key)


def records(
    spark: SparkSession, layout: Layout, sink: Sink, after: int, to: int, own: list[str]
) -> Iterator[ProducerRecord]:
    """Yield the records that publish the ticks in (after, to], in position order.

    The last one carries the offsets that follow what is published, so that a lake restored from the topic knows where
    to go on.
    """
    of = sink.of
    if isinstance(of, Stream):
        frame, topic = changefeed.stream_events(spark, layout, of, after, to, own), of.source.topic
    elif sink.mode == "net":
        frame, topic = changefeed.net(spark, layout, of, after, to), of.stream.source.topic
    else:
        frame, topic = changefeed.per_event(spark, layout, of, after, to, own), of.stream.source.topic
    key, value = columns_of(spark, of)
    held: ProducerRecord | None = None
    for row in rows(frame):
        if held is not None:
            yield held
        held = _record(row, key, value)
    if held is not None:
        offsets = json.dumps({"tick": to, "next": bronze.next_offsets(spark, layout, topic, to)}).encode()
        yield ProducerRecord(held.key, held.value, held.timestamp_ms, (*held.headers, (OFFSETS, offsets)))


def rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a frame's rows as dicts. Through Arrow: a Row's timestamps would lose their zone."""
    for batch in frame.toArrow().to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _record(row: dict[str, Any], key: tuple[Column, ...], value: tuple[Column, ...]) -> ProducerRecord:
    position = row["_position"]
    headers: list[tuple[str, bytes | None]] = [
        (POSITION, json.dumps(list(position.values())).encode()),
        (EVENT_TIME, str(row["_event_time_ms"]).encode()),
    ]
    if kept := {name: str(total) for name, total in row.items() if name.startswith("_acc_")}:
        headers.append((ACCUMULATORS, json.dumps(kept).encode()))
    key_bytes = None if row.get("_null_key") else encode_key(key_format(key), key, row)
    value_bytes = None if row["_tombstone"] else encode_value("json", value, row)
    return ProducerRecord(key_bytes, value_bytes, row["_event_time_ms"], tuple(headers))
