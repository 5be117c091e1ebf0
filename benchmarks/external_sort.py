"""Records sorted beyond memory: our sorted runs (`lake/record/sorted_rows.py`) against DuckDB's ORDER BY.

    .venv/bin/python benchmarks/external_sort.py [--rows N] [--bytes N] [--memory 128MB]

Each way runs in a process of its own over the same Parquet files, as bronze has them: fifty ticks of four partitions,
each partition's rows together, random values. Rows come out as tuples, some at a time, as `rehydrate` needs them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from common import show

from lakehouse.lake.record.sorted_rows import sort_rows

TICKS, PARTITIONS = 50, 4
BATCH_BYTES = 2**20
DUCKDB = 'SELECT * FROM rows ORDER BY tick, order_time, "partition", "offset"'


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--bytes", type=int, default=200, help="of a row's value")
    arguments.add_argument("--memory", default="128MB", help="DuckDB's memory limit")
    arguments.add_argument("--way", nargs=2, metavar=("WAY", "FOLDER"), help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.way:
        print(*measured(*chosen.way, chosen.memory, max(1, min(8192, BATCH_BYTES // chosen.bytes))), sep="\t")
        return
    with tempfile.TemporaryDirectory(prefix="lakehouse-benchmark-") as folder:
        write(Path(folder), chosen.rows, chosen.bytes)
        rows = []
        for way in ("runs", "duckdb"):
            command = [sys.executable, __file__, "--way", way, folder, "--bytes", str(chosen.bytes)]
            done = subprocess.run([*command, "--memory", chosen.memory], capture_output=True, text=True, check=False)
            result = done.stdout.strip().split("\t") if done.returncode == 0 else ["-"] * 4
            said = [
                line.partition(":")[0] for line in done.stderr.splitlines() if "Error:" in line or "Exception:" in line
            ]
            rows.append([way, *result, said[-1].rpartition(".")[2] if done.returncode else ""])
    columns = ["way", "seconds", "processor seconds", "peak memory (MB)", "temporary files (MB)", "refused"]
    show(f"{chosen.rows:,} rows of {chosen.bytes:,} bytes; DuckDB's limit {chosen.memory}", columns, rows)


def write(folder: Path, rows: int, size: int) -> None:
    """Write a file a tick."""
    dice, each = np.random.default_rng(1), max(1, rows // TICKS // PARTITIONS)
    for tick in range(TICKS):
        offsets = np.tile(np.arange(tick * each, (tick + 1) * each), PARTITIONS)
        values = [dice.bytes(size // 2).hex().encode() for _ in offsets]
        columns: dict[str, Any] = {
            "tick": np.full(len(offsets), tick), "order_time": offsets * 1000 + dice.integers(0, 50_000, len(offsets)),
            "partition": np.repeat(np.arange(PARTITIONS), each), "offset": offsets, "value": pa.array(values),
        }  # fmt: skip
        pq.write_table(pa.table(columns), folder / f"{tick:03}.parquet", row_group_size=max(1, 2**24 // size))


def measured(way: str, folder: str, memory: str, batch: int) -> list[str]:
    """Sort, and return seconds, processor seconds, the largest memory and the most that lay in temporary files."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-sort-") as scratch:
        tempfile.tempdir = scratch
        used, ended = [0], threading.Event()
        threading.Thread(target=watch, args=(Path(scratch), used, ended), daemon=True).start()
        pieces = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
        scan = ds.dataset(folder).scanner(
            batch_size=batch, batch_readahead=2, fragment_readahead=1, fragment_scan_options=pieces
        )
        began, processor = time.monotonic(), time.process_time()
        last: tuple[Any, ...] = ()
        for rows in sort_rows(scan.to_batches(), 4) if way == "runs" else by_duckdb(scan, scratch, memory):
            assert last <= rows[0][:4]
            last = rows[-1][:4]
        seconds = [time.monotonic() - began, time.process_time() - processor]
        ended.set()
    return [*(f"{one:.1f}" for one in seconds), f"{getrusage(RUSAGE_SELF).ru_maxrss // 1024:,}", f"{used[0] >> 20:,}"]


def by_duckdb(scan: ds.Scanner, scratch: str, memory: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows as `in_order` does."""
    config = {"enable_external_access": "false", "temp_directory": f"{scratch}/duckdb", "memory_limit": memory}
    connection = duckdb.connect(config=config)
    connection.register("rows", scan.to_reader())
    batches: Iterable[pa.RecordBatch] = connection.sql(DUCKDB).to_arrow_reader(4096)
    for batch in batches:
        yield list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def watch(folder: Path, used: list[int], ended: threading.Event) -> None:
    """Keep the most that the files of a folder took."""
    while not ended.wait(0.05):
        size = 0
        for path in folder.rglob("*"):
            with suppress(OSError):
                size += path.stat().st_blocks * 512
        used[0] = max(used[0], size)


if __name__ == "__main__":
    main()
