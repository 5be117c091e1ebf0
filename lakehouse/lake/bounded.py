"""Bounds in time and memory for reads that somebody waits for, in a process that others use too.

Inside `bounded`, each DuckDB of `lakehouse.lake.sql` has a share of memory and threads, spills nothing to disk and is
interrupted when the time is over; files are read in small batches, and the bytes of rows handed on are limited.
Outside, nothing is bounded: a terminal takes what it needs.
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
BATCH_ROWS = 64  # rows of a file: one value may be a megabyte
TAKEN_ROWS = 16


@dataclass(slots=True)
class BoundedRead:
    """The limits of one read: seconds, and megabytes of DuckDB's memory and of the rows that it hands on.

    otherwise: what to do instead where the limits are too low, for the error. is_cut: rows were left out.
    """

    seconds: float
    memory_mb: int
    threads: int
    taken_mb: int
    otherwise: str
    is_cut: bool = False
    until: float = field(init=False)
    connections: list[duckdb.DuckDBPyConnection] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.until = time.monotonic() + self.seconds

    def check(self) -> None:
        """Raise TimedOut when the time is over: for reads without DuckDB, between two steps."""
        if time.monotonic() >= self.until:
            raise TimedOut(f"it was not read within {self.seconds:g} s; {self.otherwise}")


_current: ContextVar[BoundedRead | None] = ContextVar("read", default=None)


def current() -> BoundedRead | None:
    """Return the bounds of this thread's read; None if it has none."""
    return _current.get()


@contextmanager
def bounded(read: BoundedRead) -> Iterator[BoundedRead]:
    """Bound all reads inside. Raises TimedOut, and ConfigError for a read that needs more memory."""
    token, done = _current.set(read), threading.Event()
    clock = threading.Thread(target=_interrupt, args=(read, done), daemon=True, name="lakehouse-read")
    clock.start()
    try:
        yield read
    except (duckdb.Error, LakehouseError) as error:
        kinds = {type(one) for one in (error, error.__cause__, error.__context__)}
        if duckdb.InterruptException in kinds and not isinstance(error, TimedOut):
            raise TimedOut(f"it was not read within {read.seconds:g} s; {read.otherwise}") from error
        if duckdb.OutOfMemoryException in kinds:
            raise ConfigError(
                f"it can't be read in {read.memory_mb} MB of memory, which a read may take here; {read.otherwise}"
            ) from error
        raise
    finally:
        done.set()
        clock.join()
        _current.reset(token)
        for connection in read.connections:
            connection.close()


def settings() -> dict[str, str]:
    """Return DuckDB's settings for a read of this thread."""
    read = current()
    if read is None:
        return {}
    # Without a folder nothing is spilled: a full disk would hurt everybody else, too.
    return {"memory_limit": f"{read.memory_mb}MB", "threads": str(read.threads), "temp_directory": ""}


def entered(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Let a connection be interrupted, and closed, with the read that it belongs to."""
    if (read := current()) is not None:
        read.check()
        read.connections.append(connection)
    return connection


def scanned(rows: Rows, columns: list[str]) -> Any:
    """Return what DuckDB reads: in a bounded read only these columns of a file's rows, in small batches."""
    import pyarrow.dataset as ds

    if current() is None or not isinstance(rows, ds.Dataset):
        return rows
    return rows.scanner(columns=columns, batch_size=BATCH_ROWS, batch_readahead=1, fragment_readahead=1)


def taken(result: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """Return a result's rows; in a bounded read only those that fit into its bytes (see `Read.is_cut`)."""
    read = current()
    if read is None:
        return list(result.to_arrow_table().to_pylist(maps_as_pydicts="strict"))
    found: list[dict[str, Any]] = []
    size = 0
    batches = result.to_arrow_reader(TAKEN_ROWS)
    try:
        for batch in batches:
            size += batch.get_total_buffer_size()
            if found and size > read.taken_mb * 2**20:
                read.is_cut = True
                break
            found += batch.to_pylist(maps_as_pydicts="strict")
    finally:
        batches.close()
    return found


def _interrupt(read: BoundedRead, done: threading.Event) -> None:
    if not done.wait(read.seconds):
        while not done.wait(TICK_SECONDS):
            for connection in list(read.connections):
                connection.interrupt()
