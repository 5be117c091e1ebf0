"""Brings the rows of a frame to the driver, in order, a few megabytes at a time, however many and large they are.

Spark's own methods bring a whole result to the driver, or a whole partition of it, and refuse more than
spark.driver.maxResultSize. Here the tasks pack their rows into chunks, which Spark keeps (in memory, then on disk), and
the driver fetches a few at a time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

CHUNK = "part int, number int, chunk binary"
# A chunk is a batch of rows as Spark hands them to Python, see `spark.sql.execution.arrow.maxBytesPerBatch`.
FETCHED_BYTES = 16 << 20
ChunkPlace = tuple[int, int]  # the task's number, and the chunk's in the task


def stream_rows(frame: DataFrame) -> Generator[dict[str, Any]]:
    """Yield a frame's rows as dicts, in its order. Through Arrow: a Row's timestamps would lose their zone.

    A caller that may stop before the end must close it: Spark keeps the chunks until then.
    """
    with closing(fetch_chunks(frame)) as chunk_groups:
        for chunks in chunk_groups:
            for chunk in chunks:
                with pa.ipc.open_stream(chunk) as batches:
                    for batch in batches:
                        yield from batch.to_pylist(maps_as_pydicts="strict")


def fetch_chunks(frame: DataFrame) -> Generator[list[bytes]]:
    """Yield a frame's chunks in order, as many at a time as fit into `FETCHED_BYTES`, but at least one."""
    packed_chunks = frame.mapInArrow(_pack_batches, CHUNK).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        place = F.struct("part", "number")
        sizes = packed_chunks.select(place, F.octet_length("chunk")).collect()
        for places in _group_places(sorted(((chunk_place[0], chunk_place[1]), size) for chunk_place, size in sizes)):
            first, last = (
                F.struct(F.lit(part).alias("part"), F.lit(number).alias("number"))
                for part, number in (places[0], places[-1])
            )
            chunk_rows = packed_chunks.where(place.between(first, last)).select(place, "chunk").collect()
            yield [bytes(chunk) for _, chunk in sorted(chunk_rows)]
    finally:
        packed_chunks.unpersist()


def _group_places(sizes: Iterable[tuple[ChunkPlace, int]]) -> Iterator[list[ChunkPlace]]:
    """Group the places of all chunks, given with their bytes, into groups to fetch at once."""
    places: list[ChunkPlace] = []
    volume = 0
    for place, size in sizes:
        if places and volume + size > FETCHED_BYTES:
            yield places
            places, volume = [], 0
        places.append(place)
        volume += size
    if places:
        yield places


def _pack_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker, yield each batch as one row, with the task's number and its own."""
    context = TaskContext.get()
    assert context is not None
    part, numbers = context.partitionId(), count()
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        columns = [
            pa.array([part], pa.int32()), pa.array([next(numbers)], pa.int32()),
            pa.array([sink.getvalue().to_pybytes()], pa.binary()),
        ]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, ["part", "number", "chunk"])
