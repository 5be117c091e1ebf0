"""Rewrites a small table in one job and one commit, with its change data feed: the fast way beside Delta's MERGE.

A MERGE reads the table twice and Delta's log in several queries. For a table of few rows that is most of a batch's
time. Here one task reads the files, joins, and writes the new rows and the changes. The files that a rewrite leaves
are known to the next one, so that Delta's log is not read for them.

The plain way is MERGE, by Delta's public interface. The caller takes it where this one does not apply.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, Observation, SparkSession

from lakehouse.spark.jvm.capability import Capability, choose_way
from lakehouse.spark.jvm.delta_log import JavaSnapshot, delta_log_of, frame_of_files, take_number
from lakehouse.spark.jvm.java import activate_session, active_jvm, java_session, scala_list, scala_none

CHANGE_TYPE = "_change_type"  # in Delta's change data feed; null for a row that the table has afterwards
# One task on one core reads and writes all of it. Figures: benchmarks/README.md.
BYTES_MAX = 16 << 20
ROWS_MAX = 300_000
FILES_MAX = 64


@dataclass(frozen=True, slots=True)
class WriteNumber:
    """The number of a commit, by which Delta skips a second one: see `lakehouse.spark.transaction`."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class RewrittenRows:
    """A table's new rows and its changes, with `_change_type`.

    counts: how many of the table's rows were Inserted, Updated, Deleted and Copied, once all is written. source_rows:
    how many rows came in.
    """

    frame: DataFrame
    counts: Observation
    source_rows: int


@dataclass(frozen=True, slots=True)
class _LiveFiles:
    """A table's files at a version, as Delta's own Java objects."""

    table_id: str
    version: int
    files: list[Any]


class TableRewriter:
    """Rewrites one table, for one writer after another commit: it remembers the files that it left."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._live_files: _LiveFiles | None = None

    def rewrite(
        self, spark: SparkSession, number: WriteNumber, make_rows: Callable[[DataFrame], RewrittenRows]
    ) -> bool:
        """Rewrite the table in one numbered commit; return False, with nothing done, if that is not for this table.

        make_rows: called with the table's rows. As with Delta's own numbered writes, nothing happens if the table has
        that number or a larger one. The session's settings give the commit's metadata. Raises Delta's exceptions if
        another commit comes in between.
        """
        return choose_way(Capability.DELTA_REWRITE, lambda: self._rewrite(spark, number, make_rows), lambda: False)

    def read_rows(self, spark: SparkSession) -> DataFrame | None:
        """Return the table's rows, if its files are those of the last rewrite; None if only Delta knows them."""
        live_files = self._live_files
        if live_files is None:
            return None
        log = delta_log_of(spark, self._path)
        snapshot = JavaSnapshot(spark, log.update(False, scala_none(), scala_none()))
        if (live_files.table_id, live_files.version) != (snapshot.table_id, snapshot.version):
            return None
        return frame_of_files(spark, log, snapshot.java, live_files.files)

    def _rewrite(
        self, spark: SparkSession, number: WriteNumber, make_rows: Callable[[DataFrame], RewrittenRows]
    ) -> bool:
        jvm, none = active_jvm(), scala_none()
        activate_session(spark)
        log = delta_log_of(spark, self._path)
        transaction = log.startTransaction(none, none)
        snapshot = JavaSnapshot(spark, transaction.snapshot())
        if not _is_small(snapshot):
            return False
        if snapshot.has_number(number.app_id, number.version):
            return True
        old_files = self._files_of(snapshot, transaction)
        if sum(_row_count(file) for file in old_files) > ROWS_MAX:
            return False
        old_rows = frame_of_files(spark, log, snapshot.java, old_files)
        rewritten_rows = make_rows(old_rows)
        written_files = transaction.writeFiles(cast(Any, rewritten_rows.frame)._jdf, none)
        new_files = [written_files.apply(index) for index in range(written_files.size())]
        transaction.registerSQLMetrics(java_session(spark), _history_metrics(spark, rewritten_rows))
        numbering = take_number(transaction, number.app_id, number.version)
        removals = [file.remove() for file in old_files]
        merge = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$Merge")
        empty = scala_list([])
        operation = merge(none, none, none, none, empty, empty, empty)
        version = transaction.commit(scala_list([numbering, *removals, *new_files]), operation)
        self._live_files = None
        if version == snapshot.version + 1:  # else another commit, which is no conflict, came in between
            live_files = [file for file in new_files if file.getClass().getSimpleName() == "AddFile"]
            self._live_files = _LiveFiles(snapshot.table_id, version, live_files)
        return True

    def _files_of(self, snapshot: JavaSnapshot, transaction: Any) -> list[Any]:
        """Return the table's files, read as a whole: any other commit that changes rows is a conflict."""
        live_files = self._live_files
        if live_files is not None and (live_files.table_id, live_files.version) == (
            snapshot.table_id,
            snapshot.version,
        ):
            transaction.readWholeTable()
            return live_files.files
        files = transaction.filterFiles(scala_list([]), True)  # all of them, with the number of their rows
        return [files.apply(index) for index in range(files.size())]


def _is_small(snapshot: JavaSnapshot) -> bool:
    """Say whether a table is small, by its checksum, and of the kind that can be rewritten."""
    file_count, total_bytes, properties = snapshot.file_count, snapshot.total_bytes, snapshot.properties
    return (
        file_count is not None
        and file_count <= FILES_MAX
        and total_bytes is not None
        and total_bytes <= BYTES_MAX
        and properties.get("delta.enableChangeDataFeed") == "true"
        and properties.get("delta.enableRowTracking") != "true"  # a row would get another id
    )


def _row_count(file: Any) -> int:
    """Return the number of a file's rows, by its statistics; too many if they don't tell."""
    row_count = json.loads(file.stats() or "{}").get("numRecords")
    return ROWS_MAX + 1 if row_count is None else int(row_count)


def _history_metrics(spark: SparkSession, rewritten_rows: RewrittenRows) -> Any:
    """Return the counts as Delta's history takes them."""
    jvm, context = active_jvm(), java_session(spark).sparkContext()
    counts = {f"numTargetRows{name}": count for name, count in rewritten_rows.counts.get.items()}
    metrics = jvm.java.util.HashMap()
    for name, count in {"operationNumSourceRows": rewritten_rows.source_rows, **counts}.items():
        metric = jvm.org.apache.spark.sql.execution.metric.SQLMetrics.createMetric(context, name)
        metric.set(count)
        metrics.put(name, metric)
    return jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(metrics)
