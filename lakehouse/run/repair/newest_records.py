"""The newest record of each key of a changelog, and rows on their way to Spark, for more keys than memory holds.

The driver sorts the records on its disk, and the rows go to Spark a few megabytes at a time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from itertools import count, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.errors import LeaseHeld, NotFound
from lakehouse.kafka.headers import RecordHeaders
from lakehouse.lake.control import note
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.sorted_rows import sort_rows
from lakehouse.semantics.position import Position
from lakehouse.spark.expression.arrow_functions import frame_of_rows
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenLake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

AT_ONCE = 1000
HANDED_BYTES, HANDED_ROWS = 16 << 20, 20_000
RECORD = pa.schema(
    {
        "plain_key": pa.binary(), "number": pa.int64(), "key": pa.binary(), "value": pa.binary(), "where": pa.string(),
        "position": pa.string(), "event_ms": pa.int64(), "origin": pa.string(), "of": pa.string(),
        "accumulators": pa.binary(), "left_out": pa.int64(), "formats": pa.list_(pa.string()),
    }
)  # fmt: skip
_KEY, _PLACE = RECORD.get_field_index("key"), RECORD.get_field_index("where")
INSTEAD = "Build the table from bronze; or delete the topic, so that its lake publishes it again, and restore then."


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest record of a key, and its headers. value: None for a delete."""

    headers: RecordHeaders
    key: bytes
    value: bytes | None

    @property
    def size(self) -> int:
        return len(self.key) + len(self.value or b"") + len(self.headers.accumulators or b"")


def newest_records(
    records: Iterable[tuple[RecordHeaders, bytes, bytes | None]],
    find_plain_key: Callable[[RecordHeaders, bytes], bytes],
) -> Iterator[Newest]:
    """Yield the last record of each key, from headers, keys and values; read all records before the first result.

    find_plain_key: gives the same bytes for a record's key in whatever format it is written. A key's records come in
    order, since they are in one partition. Raises NotFound for a key that is in two, or was written in two ways.
    """
    sorted_rows = _flatten_batches(sort_rows(_record_batches(records, find_plain_key), 2))
    for _, group in groupby(sorted_rows, key=itemgetter(0)):
        *_, newest_row = _in_one_partition(_written_alike(group))
        _, _, key, value, place, position, event_ms, origin, table_name, accumulators, left_out, formats = newest_row
        record_position = Position.from_fields(dict(zip(Position._fields, json.loads(position), strict=True)))
        key_formats = (formats[0], formats[1])
        yield Newest(
            RecordHeaders(place, record_position, event_ms, origin, table_name, accumulators, left_out, key_formats),
            key,
            value,
        )


def _written_alike(key_rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a key. Raises NotFound if it has other bytes in some: Kafka has kept the last one of each."""
    first_row: tuple[Any, ...] | None = None
    for row in key_rows:
        first_row = first_row or row
        if row[_KEY] != first_row[_KEY]:
            raise NotFound(
                f"record {row[_PLACE]} has the key {row[_KEY][:60]!r}, which is written as {first_row[_KEY][:60]!r} in "
                f"record {first_row[_PLACE]}; expected the same bytes wherever a key is the same. The format of the "
                "keys, or the id of their schema in the registry, was changed: Kafka keeps the last record of both, so "
                f"there would be two rows of one key, or a deleted one. {INSTEAD}"
            )
        yield row


def _in_one_partition(key_rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a key. Raises NotFound if they are from two partitions: nothing says which is the newest."""
    partition = ""
    for row in key_rows:
        record_partition = row[_PLACE].rpartition("@")[0]
        if partition not in ("", record_partition):
            raise NotFound(
                f"record {row[_PLACE]} has the key {row[_KEY][:60]!r}, which a record of {partition} has, too; "
                "expected each key in one partition. The topic was given more partitions, or its keys another format: "
                f"nothing says which record is the newest. {INSTEAD}"
            )
        partition = record_partition
        yield row


def _flatten_batches(batches: Iterator[list[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
    for part in batches:
        yield from part


def _record_batches(
    records: Iterable[tuple[RecordHeaders, bytes, bytes | None]],
    find_plain_key: Callable[[RecordHeaders, bytes], bytes],
) -> Iterator[pa.RecordBatch]:
    numbered = enumerate(records)
    while chunk := list(islice(numbered, AT_ONCE)):
        yield pa.RecordBatch.from_pylist(
            [
                {
                    **asdict(headers),
                    "position": json.dumps(headers.position),
                    "plain_key": find_plain_key(headers, key),
                    "key": key,
                    "value": value,
                    "number": number,
                }
                for number, (headers, key, value) in chunk
            ],
            RECORD,
        )


@contextmanager
def rows_as_frame(
    lake: OpenLake, schema: StructType, rows: Iterable[tuple[int, tuple[Any, ...]]]
) -> Iterator[DataFrame]:
    """Give rows that come with their sizes in bytes as a Spark frame; remove its files in the lake at the end."""
    with _restore_folder(lake) as path:
        try:
            lake.spark.createDataFrame([], schema).write.parquet(path)
            for chunk in _group_by_size(rows):
                frame_of_rows(lake.spark, schema, chunk).write.mode("append").parquet(path)
            yield lake.spark.read.schema(schema).parquet(path)
        finally:
            folders.remove_folder(lake.spark, path)


@contextmanager
def _restore_folder(lake: OpenLake) -> Iterator[str]:
    """Give an empty folder that nobody else uses; remove the files of killed processes in such folders.

    Where no lease shows which folders are in use (stores other than S3), the files of killed processes stay.
    """
    layout, root = lake.layout, lake.layout.restoring
    if not note.are_kept(layout.root):
        yield f"{root}/{uuid.uuid4().hex}"
        return
    folder_name, lease = _first_free(layout)
    with lease:
        for name in folders.folder_names(lake.spark, root):
            try:
                with nullcontext() if name == folder_name else _folder_lease(layout, name):
                    folders.remove_folder(lake.spark, f"{root}/{name}")
            except LeaseHeld:
                continue  # the folder belongs to a running restore
        yield f"{root}/{folder_name}"


def _first_free(layout: Layout) -> tuple[str, Lease]:
    """Return the first number whose folder is not in use, and its lease."""
    for number in map(str, count()):
        with suppress(LeaseHeld):
            return number, _folder_lease(layout, number).acquire()
    raise AssertionError("numbers end nowhere")


def _folder_lease(layout: Layout, name: str) -> Lease:
    return Lease(Layout(layout.root).lease(f"restoring-{name}"), f"folder {name} of a restore")


def _group_by_size(rows: Iterable[tuple[int, tuple[Any, ...]]]) -> Iterator[list[tuple[Any, ...]]]:
    chunk: list[tuple[Any, ...]] = []
    byte_count = 0
    for size, row in rows:
        chunk.append(row)
        byte_count += size
        if byte_count >= HANDED_BYTES or len(chunk) >= HANDED_ROWS:
            yield chunk
            chunk, byte_count = [], 0
    if chunk:
        yield chunk
