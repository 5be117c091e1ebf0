"""Changes as records for Kafka: key, value or tombstone, and in the headers what another lake needs to go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta import bronze, changefeed, past, tables
from lakehouse.delta.layout import Layout
from lakehouse.formats.encode import encode_key, encode_value
from lakehouse.kafka.produce import ProducerRecord
from lakehouse.kafka.publish import ACCUMULATORS, EVENT_TIME, OFFSETS, POSITION
from lakehouse.plan.schema import Column, base_type
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import WINDOW_COLUMNS, Sink, Table


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


def accumulators_of(spark: SparkSession, table: Table) -> tuple[Column, ...]:
    """Return the hidden columns without which a table can't go on, with Spark's types."""
    kinds = {field.name: field.dataType.simpleString() for field in tables.schema(spark, table)}
    return tuple(Column(name, kind) for name, kind in kinds.items() if name.startswith("_acc_"))


def records(spark: SparkSession, layout: Layout, sink: Sink, after: int, to: int) -> Iterator[ProducerRecord]:
    """Yield the records that publish the ticks in (after, to], in position order.

    The last one carries the offsets that follow what is published, so that a lake restored from the topic knows where
    to go on.
    """
    of = sink.of
    if isinstance(of, Stream):
        frame, stream = changefeed.stream_events(spark, layout, of, after, to, sink.partition_by), of
    elif sink.mode == "net":
        frame, stream = changefeed.net(spark, layout, of, after, to), of.stream
    else:
        frame, stream = changefeed.per_event(spark, layout, of, after, to), of.stream
    write = _Writer(spark, of)
    held: ProducerRecord | None = None
    for row in rows(frame):
        if held is not None:
            yield held
        held = write(row)
    if held is not None:
        covers: dict[str, Any] = {"tick": to, "next": {}}
        for topic in stream.topics:
            covers["next"] |= bronze.next_offsets(spark, layout, topic, to)
        clock = past.clock_at(spark, layout, of, to) if isinstance(of, Table) else None
        if clock is not None:
            covers["clock"] = clock.metadata()
        yield replace(held, headers=(*held.headers, (OFFSETS, json.dumps(covers).encode())))


def rows(frame: DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a frame's rows as dicts. Through Arrow: a Row's timestamps would lose their zone."""
    for batch in frame.toArrow().to_batches(max_chunksize=10_000):
        yield from batch.to_pylist(maps_as_pydicts="strict")


class _Writer:
    """Rows of changes as records: the key, the value or a tombstone, and in the headers what a restore needs."""

    def __init__(self, spark: SparkSession, of: Stream | Table) -> None:
        self._key, self._value = columns_of(spark, of)
        self._kept = () if isinstance(of, Stream) else accumulators_of(spark, of)
        windowed = isinstance(of, Table) and of.window is not None
        # The windows of one key stay in its partition.
        self._placed_by = self._key[: -len(WINDOW_COLUMNS)] if windowed else None

    def __call__(self, row: dict[str, Any]) -> ProducerRecord:
        headers: list[tuple[str, bytes | None]] = [
            (POSITION, json.dumps(list(row["_position"].values())).encode()),
            (EVENT_TIME, str(row["_event_time_ms"]).encode()),
        ]
        if self._kept and not row["_tombstone"]:
            headers.append((ACCUMULATORS, encode_value("json", self._kept, row)))
        key = None if row.get("_null_key") else encode_key(key_format(self._key), self._key, row)
        value = None if row["_tombstone"] else encode_value("json", self._value, row)
        place: bytes | int | None = row.get("_place")
        if self._placed_by is not None:
            place = encode_key(key_format(self._placed_by), self._placed_by, row)
        return ProducerRecord(key, value, row["_event_time_ms"], tuple(headers), place=place)
