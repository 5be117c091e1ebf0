"""Rows in order, more of them than memory holds: sorted runs in a folder of their own, merged row by row."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

RUN_BYTES = 128 * 2**20
# What is read back of each run at a time: there may be a hundred runs.
PART_BYTES = 2**20
ROWS_AT_ONCE = 4096

Row = tuple[Any, ...]


def in_order(batches: Iterable[pa.RecordBatch], by: int) -> Iterator[list[Row]]:
    """Yield the rows of batches as tuples, some at a time, in the order of their first `by` columns.

    `RUN_BYTES` are sorted in memory; where there are more, every run goes to disk and is removed at the end.
    """
    runs = _runs(batches, by)
    first = next(runs, None)
    second = next(runs, None)
    if first is None:
        return
    if second is None:
        for batch in first.to_batches(max_chunksize=ROWS_AT_ONCE):
            yield _rows(batch)
        return
    with tempfile.TemporaryDirectory(prefix="lakehouse-sort-") as folder:
        files = [
            _write(run, Path(folder, f"{number}.arrow")) for number, run in enumerate(chain((first, second), runs))
        ]
        del first, second
        merged = heapq.merge(*map(_read, files), key=itemgetter(*range(by)))
        while rows := list(islice(merged, ROWS_AT_ONCE)):
            yield rows


def _runs(batches: Iterable[pa.RecordBatch], by: int) -> Iterator[pa.Table]:
    """Yield tables that are sorted, each of so many bytes."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= RUN_BYTES:
            yield _sorted(held, by)
            held, size = [], 0
    if held:
        yield _sorted(held, by)


def _sorted(held: list[pa.RecordBatch], by: int) -> pa.Table:
    table = pa.Table.from_batches(held)
    return table.sort_by([(name, "ascending") for name in table.column_names[:by]])


def _write(run: pa.Table, file: Path) -> Path:
    rows = max(1, run.num_rows * PART_BYTES // max(run.nbytes, 1))
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_stream(out, run.schema) as writer:
        writer.write_table(run, max_chunksize=rows)
    return file


def _read(file: Path) -> Iterator[Row]:
    with pa.OSFile(str(file), "rb") as data, pa.ipc.open_stream(data) as batches:
        for batch in batches:
            yield from _rows(batch)


def _rows(batch: pa.RecordBatch) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
