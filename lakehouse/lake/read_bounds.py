"""Bounds in time and memory for reads that somebody waits for, in a process that others use too.

Inside `bound_reads`, each DuckDB of `lakehouse.lake.sql` has a share of memory and threads, spills nothing to disk, and
is interrupted when the time is over; files are read in small batches, and the bytes of the returned rows are limited.
Outside, nothing is bounded: a terminal may take what it needs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb

from lakehouse.errors import ConfigError, LakehouseError, TimedOut

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

    Rows: TypeAlias = ds.Dataset | pa.Table

TICK_SECONDS = 0.1  # an interrupt between two queries is lost, so it is repeated
BATCH_ROWS = 64  # rows of a file to read at once: one value may be a megabyte
FETCHED_BATCH_ROWS = 16


@dataclass(slots=True)
class BoundedRead:
    """The limits of one read: seconds, megabytes of DuckDB's memory, and megabytes of returned rows.

    otherwise: advice for the error when the limits are too low. is_cut: rows were left out.
    """

    seconds: float
    memory_mb: int
    threads: int
    fetched_mb: int
    otherwise: str
    is_cut: bool = False
    until: float = field(init=False)
    connections: list[duckdb.DuckDBPyConnection] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    def check(self) -> None:
        """Raise TimedOut when the time is over; called between two steps of a read without DuckDB."""
        if time.monotonic() >= self.until:
            raise TimedOut(f"it was not read within {self.seconds:g} s; {self.otherwise}")


_read_of_thread: ContextVar[BoundedRead | None] = ContextVar("read", default=None)


def current_read() -> BoundedRead | None:
    """Return the bounds of this thread's read; None if it has none."""
    return _read_of_thread.get()


@contextmanager
def bound_reads(bounded_read: BoundedRead) -> Iterator[BoundedRead]:
    """Bound all reads inside the block. Raises TimedOut, and ConfigError for a read that needs more memory."""
    context_token, finished_event = _read_of_thread.set(bounded_read), threading.Event()
    interrupter = threading.Thread(
        target=_interrupt_when_over, args=(bounded_read, finished_event), daemon=True, name="lakehouse-read"
    )
    interrupter.start()
    try:
        yield bounded_read
    except (duckdb.Error, LakehouseError) as error:
        error_types = {type(chained_error) for chained_error in (error, error.__cause__, error.__context__)}
        if duckdb.InterruptException in error_types and not isinstance(error, TimedOut):
            raise TimedOut(f"it was not read within {bounded_read.seconds:g} s; {bounded_read.otherwise}") from error
        if duckdb.OutOfMemoryException in error_types:
            raise ConfigError(
                f"it can't be read in {bounded_read.memory_mb} MB of memory, which a read may take here; "
                f"{bounded_read.otherwise}"
            ) from error
        raise
    finally:
        finished_event.set()
        interrupter.join()
        _read_of_thread.reset(context_token)
        for connection in bounded_read.connections:
            connection.close()


def duckdb_settings() -> dict[str, str]:
    """Return DuckDB's settings for a read of this thread."""
    bounded_read = current_read()
    if bounded_read is None:
        return {}
    # Without a folder DuckDB spills nothing: a full disk would hurt everybody else too.
    return {"memory_limit": f"{bounded_read.memory_mb}MB", "threads": str(bounded_read.threads), "temp_directory": ""}


def attach_connection(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Let this thread's bounded read interrupt and close a connection."""
    if (bounded_read := current_read()) is not None:
        bounded_read.check()
        bounded_read.connections.append(connection)
    return connection


def scan_rows(rows: Rows, columns: list[str]) -> Any:
    """Return the source for DuckDB to read: in a bounded read only these columns of the rows, in small batches."""
    import pyarrow.dataset as ds

    if current_read() is None or not isinstance(rows, ds.Dataset):
        return rows
    return rows.scanner(columns=columns, batch_size=BATCH_ROWS, batch_readahead=1, fragment_readahead=1)


def fetch_rows(result: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """Return a result's rows; in a bounded read only those that fit into its bytes (see `BoundedRead.is_cut`)."""
    bounded_read = current_read()
    if bounded_read is None:
        return list(result.to_arrow_table().to_pylist(maps_as_pydicts="strict"))
    rows: list[dict[str, Any]] = []
    fetched_bytes = 0
    batch_reader = result.to_arrow_reader(FETCHED_BATCH_ROWS)
    try:
        for batch in batch_reader:
            fetched_bytes += batch.get_total_buffer_size()
            if rows and fetched_bytes > bounded_read.fetched_mb * 2**20:
                bounded_read.is_cut = True
                break
            rows += batch.to_pylist(maps_as_pydicts="strict")
    finally:
        batch_reader.close()
    return rows


def _interrupt_when_over(bounded_read: BoundedRead, finished_event: threading.Event) -> None:
    if not finished_event.wait(bounded_read.seconds):
        while not finished_event.wait(TICK_SECONDS):
            for connection in list(bounded_read.connections):
                connection.interrupt()
