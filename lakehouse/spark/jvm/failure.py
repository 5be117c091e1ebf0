"""Reports why a streaming query failed, in one message: the cause. Spark's own trace is 150 lines of Java."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse.errors import JobFailed, LakehouseError
from lakehouse.file_faults import describe_file_fault
from lakehouse.spark.cluster.root_cause import root_cause

SPARK_ERRORS = (PySparkException, Py4JError)  # the exceptions that calls of Spark raise
READ_ERRORS = (PySparkException, Py4JJavaError)  # those of a read that fails while Spark runs on
ENDED = (
    "Spark's process has ended: most often it needed more than its memory ([spark] memory), or somebody ended it. "
    "Nothing is half done; start again."
)


class BatchHandler:
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

    def wait(self) -> None:
        """Wait for the end of a batch that is under way: only then is its error known."""
        with self._running:
            pass

    def stop(self, query: StreamingQuery) -> None:
        """Stop a query after the batch that is under way.

        Spark would interrupt the batch, and its lease could be released while its commit is still being written.
        """
        self._stopped = True
        self.wait()  # a batch that starts after this returns at once
        stop_query(query)


def stop_query(query: StreamingQuery) -> None:
    """Stop a query; if Spark's process has ended, nothing is left to stop."""
    with contextlib.suppress(Py4JNetworkError, OSError):
        query.stop()


def has_spark_ended() -> bool:
    """Say whether Spark's process has ended; False if this process never started Spark."""
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return False
    try:
        gateway.jvm.java.lang.System.nanoTime()  # any question to Java
    except (Py4JError, OSError):
        return True
    return False


@contextlib.contextmanager
def explain_ended_spark() -> Iterator[None]:
    """Raise JobFailed in place of any error that came because Spark's process has ended."""
    try:
        yield
    except Exception as error:
        if is_caused_by_ended_spark(error):
            raise JobFailed(ENDED) from error
        raise


def is_caused_by_ended_spark(error: Exception) -> bool:
    """Say whether an error came because Spark's process has ended."""
    if isinstance(error, PySparkRuntimeError):
        return error.getCondition() == "JAVA_GATEWAY_EXITED"  # while it started
    return isinstance(error, Py4JError | OSError) and has_spark_ended()


def raise_failure(query: StreamingQuery, batch_handler: BatchHandler, folders: Iterable[Path] = ()) -> None:
    """Raise the error that ended a query, if any: lakehouse's own error itself, else JobFailed with the cause.

    folders: where it writes: see `describe_file_fault`.
    """
    if isinstance(batch_handler.error, LakehouseError):
        raise batch_handler.error
    try:
        query_name, error = query.name, batch_handler.error or query.exception()
    except (Py4JError, OSError):
        raise JobFailed(ENDED) from batch_handler.error
    if error is not None:
        reason = describe_file_fault(error, folders) or root_cause(str(error))
        raise JobFailed(f"{query_name}: {reason}") from batch_handler.error
