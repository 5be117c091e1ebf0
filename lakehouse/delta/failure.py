"""A streaming query that ended badly, as one message: the cause. Spark's own trace is 150 lines of Java."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from lakehouse.errors import JobFailed, LakehouseError


class Catching:
    """A foreachBatch function that keeps the Python exception it raised: through Java it would arrive as text."""

    def __init__(self, work: Callable[[Any, int], None]) -> None:
        self._work = work
        self._running = threading.Lock()
        self._stopped = False
        self.error: Exception | None = None

    def __call__(self, frame: Any, batch_id: int) -> None:
        with self._running:
            if self._stopped:
                return
            try:
                self._work(frame, batch_id)
            except Exception as error:
                self.error = error
                raise

    def stop(self, query: StreamingQuery) -> None:
        """Stop a query between two batches: one that is under way is finished first.

        Spark would interrupt it, and a lease could be given back while its commit is still being written.
        """
        self._stopped = True
        with self._running:
            pass  # whatever comes after this returns at once
        query.stop()


def raise_failure(query: StreamingQuery, catching: Catching) -> None:
    """Raise what ended a query, if it ended with an error: our own error as it was, else JobFailed with the cause."""
    if isinstance(catching.error, LakehouseError):
        raise catching.error
    if catching.error is not None:
        raise JobFailed(f"{query.name}: {cause(str(catching.error))}") from catching.error
    if (error := query.exception()) is not None:
        raise JobFailed(f"{query.name}: {cause(str(error))}")


def cause(text: str) -> str:
    """Return the line of a Java trace that says why: the last "Caused by", else the first line."""
    causes = re.findall(r"Caused by: (?:[\w.$]+: )?(.+)", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return str(causes[-1] if causes else lines[0] if lines else "no reason was given")[:2000]
