"""The newest record of each key of a changelog, and rows on their way to Spark, for more keys than memory holds.

The records are sorted on the driver's disk, and the rows go to Spark a few megabytes at a time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import count, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.errors import LeaseHeld
from lakehouse.kafka.headers import RecordHeaders
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.lake.record.sorted_rows import in_order
from lakehouse.semantics.position import Position
from lakehouse.spark import folders
from lakehouse.spark.functions import frame_of
from lakehouse.spark.open_lake import OpenLake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

AT_ONCE = 1000
HANDED_BYTES, HANDED_ROWS = 16 << 20, 20_000
RECORD = pa.schema(
    {
        "key": pa.binary(), "number": pa.int64(), "value": pa.binary(), "where": pa.string(), "position": pa.string(),
        "event_ms": pa.int64(), "origin": pa.string(), "of": pa.string(), "accumulators": pa.binary(),
        "left_out": pa.int64(), "formats": pa.list_(pa.string()),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest record of a key, and its headers. value: None for a delete."""

    said: RecordHeaders
    key: bytes
    value: bytes | None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"") + len(self.said.accumulators or b"")


def newest(records: Iterable[tuple[RecordHeaders, bytes, bytes | None]]) -> Iterator[Newest]:
    """Yield the last record of each key, from records' headers, keys and values. All are read before the first."""
    for _, group in groupby(_one_by_one(in_order(_batches(records), 2)), key=itemgetter(0)):
        *_, (key, _, value, where, position, event_ms, origin, of, accumulators, left_out, formats) = group
        at = Position.of(dict(zip(Position._fields, json.loads(position), strict=True)))
        written = (formats[0], formats[1])
        yield Newest(RecordHeaders(where, at, event_ms, origin, of, accumulators, left_out, written), key, value)


def _one_by_one(parts: Iterator[list[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
    for part in parts:
        yield from part


def _batches(records: Iterable[tuple[RecordHeaders, bytes, bytes | None]]) -> Iterator[pa.RecordBatch]:
    numbered = enumerate(records)
    while some := list(islice(numbered, AT_ONCE)):
        yield pa.RecordBatch.from_pylist(
            [
                {**asdict(said), "position": json.dumps(said.position), "key": key, "value": value, "number": number}
                for number, (said, key, value) in some
            ],
            RECORD,
        )


@contextmanager
def handed(lake: OpenLake, schema: StructType, rows: Iterable[tuple[int, tuple[Any, ...]]]) -> Iterator[DataFrame]:
    """Give rows, each with its size in bytes, as Spark frames; their files in the lake are removed at the end."""
    with _folder(lake) as path:
        try:
            lake.spark.createDataFrame([], schema).write.parquet(path)
            for some in _together(rows):
                frame_of(lake.spark, schema, some).write.mode("append").parquet(path)
            yield lake.spark.read.schema(schema).parquet(path)
        finally:
            folders.remove(lake.spark, path)


@contextmanager
def _folder(lake: OpenLake) -> Iterator[str]:
    """Give an empty folder that nobody else uses. What killed processes left in such folders is removed.

    On an object store no lease tells which are in use: what a killed process left stays there.
    """
    layout, root = lake.layout, lake.layout.restoring
    if "://" in layout.root:
        yield f"{root}/{uuid.uuid4().hex}"
        return
    number, lease = _first_free(layout)
    with lease:
        for name in folders.names(lake.spark, root):
            try:
                with nullcontext() if name == number else _lease(layout, name):
                    folders.remove(lake.spark, f"{root}/{name}")
            except LeaseHeld:
                continue  # it belongs to a running restore
        yield f"{root}/{number}"


def _first_free(layout: Layout) -> tuple[str, Lease]:
    """The first number whose folder is not in use, and its lease."""
    for number in map(str, count()):
        with suppress(LeaseHeld):
            return number, _lease(layout, number).acquire()
    raise AssertionError("numbers end nowhere")


def _lease(layout: Layout, name: str) -> Lease:
    return Lease(Layout(layout.root).lease(f"restoring-{name}"), f"folder {name} of a restore")


def _together(rows: Iterable[tuple[int, tuple[Any, ...]]]) -> Iterator[list[tuple[Any, ...]]]:
    held: list[tuple[Any, ...]] = []
    volume = 0
    for size, row in rows:
        held.append(row)
        volume += size
        if volume >= HANDED_BYTES or len(held) >= HANDED_ROWS:
            yield held
            held, volume = [], 0
    if held:
        yield held
