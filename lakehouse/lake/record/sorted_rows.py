"""Rows in order, more of them than fit in memory: sorted runs in a folder of their own, merged row by row."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

RUN_BYTES = 64 * 2**20
# The size of what is read back of each run, and handed on, at a time: there may be a hundred runs.
PART_BYTES = 2**20
ROWS_AT_ONCE = 4096

SortedRow = tuple[Any, ...]


def in_order(batches: Iterable[pa.RecordBatch], by: int) -> Iterator[list[SortedRow]]:
    """Yield the rows of batches as tuples, some at a time, in the order of their first `by` columns.

    `RUN_BYTES` are sorted in memory; if there are more, every run goes to disk and is removed at the end.
    """
    left: Iterator[pa.RecordBatch] = (batch for batch in batches if batch.num_rows)
    run = _run(left, by)
    following = next(left, None)
    if following is None:
        for batch in run.to_batches(max_chunksize=_at_once(run)) if run is not None else ():
            yield _rows(batch)
        return
    rows = _at_once(run)
    with tempfile.TemporaryDirectory(prefix="lakehouse-sort-") as folder:
        files: list[Path] = []
        left = chain([following], left)
        while run is not None:
            files.append(_write(run, Path(folder, f"{len(files)}.arrow")))
            run = None  # before the next one is read
            run = _run(left, by)
        merged = heapq.merge(*map(_read, files), key=itemgetter(*range(by)))
        while some := list(islice(merged, rows)):
            yield some


def _run(batches: Iterator[pa.RecordBatch], by: int) -> pa.Table | None:
    """Return the next batches, up to `RUN_BYTES`, as one sorted table; None if there is no batch."""
    held: list[pa.RecordBatch] = []
    size = 0
    while size < RUN_BYTES and (batch := next(batches, None)) is not None:
        held.append(batch)
        size += batch.nbytes
    if not held:
        return None
    table = pa.Table.from_batches(held)
    return table.sort_by([(name, "ascending") for name in table.column_names[:by]])


def _at_once(run: pa.Table) -> int:
    """How many rows to handle at a time."""
    rows: int = run.num_rows * PART_BYTES // max(run.nbytes, 1)
    return min(ROWS_AT_ONCE, max(1, rows))


def _write(run: pa.Table, file: Path) -> Path:
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_stream(out, run.schema) as writer:
        writer.write_table(run, max_chunksize=_at_once(run))
    return file


def _read(file: Path) -> Iterator[SortedRow]:
    with pa.OSFile(str(file), "rb") as data, pa.ipc.open_stream(data) as batches:
        for batch in batches:
            yield from _rows(batch)


def _rows(batch: pa.RecordBatch) -> list[SortedRow]:
    return list(zip(*(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True))
