"""Sort more rows than fit in memory: sorted runs in a temporary folder, merged row by row."""

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
# The size of the batches that are read back from each run, and yielded: there may be a hundred runs.
PART_BYTES = 2**20
ROWS_AT_ONCE = 4096

SortedRow = tuple[Any, ...]


def sort_rows(batches: Iterable[pa.RecordBatch], sort_columns: int) -> Iterator[list[SortedRow]]:
    """Yield the rows of batches as tuples, in lists, in the order of their first `sort_columns` columns.

    Up to `RUN_BYTES` are sorted in memory; if there are more, every run goes to disk and is removed at the end.
    """
    remaining_batches: Iterator[pa.RecordBatch] = (batch for batch in batches if batch.num_rows)
    sorted_run = _sort_next_run(remaining_batches, sort_columns)
    next_batch = next(remaining_batches, None)
    if next_batch is None:
        for batch in sorted_run.to_batches(max_chunksize=_rows_at_once(sorted_run)) if sorted_run is not None else ():
            yield _rows_of_batch(batch)
        return
    chunk_rows = _rows_at_once(sorted_run)
    with tempfile.TemporaryDirectory(prefix="lakehouse-sort-") as folder:
        run_files: list[Path] = []
        remaining_batches = chain([next_batch], remaining_batches)
        while sorted_run is not None:
            run_files.append(_write_run(sorted_run, Path(folder, f"{len(run_files)}.arrow")))
            sorted_run = None  # free the memory before reading the next run
            sorted_run = _sort_next_run(remaining_batches, sort_columns)
        merged_rows = heapq.merge(*map(_read_run, run_files), key=itemgetter(*range(sort_columns)))
        while chunk := list(islice(merged_rows, chunk_rows)):
            yield chunk


def _sort_next_run(batches: Iterator[pa.RecordBatch], sort_columns: int) -> pa.Table | None:
    """Return the next batches, up to `RUN_BYTES`, as one sorted table; None if there is no batch."""
    run_batches: list[pa.RecordBatch] = []
    run_bytes = 0
    while run_bytes < RUN_BYTES and (batch := next(batches, None)) is not None:
        run_batches.append(batch)
        run_bytes += batch.nbytes
    if not run_batches:
        return None
    table = pa.Table.from_batches(run_batches)
    return table.sort_by([(name, "ascending") for name in table.column_names[:sort_columns]])


def _rows_at_once(sorted_run: pa.Table) -> int:
    """Return how many rows to handle at a time."""
    row_count: int = sorted_run.num_rows * PART_BYTES // max(sorted_run.nbytes, 1)
    return min(ROWS_AT_ONCE, max(1, row_count))


def _write_run(sorted_run: pa.Table, run_file: Path) -> Path:
    with pa.OSFile(str(run_file), "wb") as output, pa.ipc.new_stream(output, sorted_run.schema) as writer:
        writer.write_table(sorted_run, max_chunksize=_rows_at_once(sorted_run))
    return run_file


def _read_run(run_file: Path) -> Iterator[SortedRow]:
    with pa.OSFile(str(run_file), "rb") as run_data, pa.ipc.open_stream(run_data) as batches:
        for batch in batches:
            yield from _rows_of_batch(batch)


def _rows_of_batch(batch: pa.RecordBatch) -> list[SortedRow]:
    return list(zip(*(column.to_pylist(maps_as_pydicts="strict") for column in batch.columns), strict=True))
