"""The writer of one silver table: lease, epoch, and one numbered commit a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta import bronze, fold, quarantine, tables
from lakehouse.delta.layout import Layout
from lakehouse.delta.lease import Lease
from lakehouse.delta.transaction import Numbered, append_nothing, open_epoch, read_progress
from lakehouse.plan.declare import App, Source, Table
from lakehouse.semantics.epoch import Progress


def own_topics(app: App) -> list[str]:
    """Return the topics that the application gives a physical bronze table of their own."""
    return sorted({source.topic for source in app.sources if source.own_table})


class SilverWriter:
    """Keeps one table. Use as a context manager: entering takes the lease and opens an epoch.

    `progress` is the last commit; `applied` may be ahead of it, over ticks that held nothing for this table.
    """

    def __init__(self, spark: SparkSession, layout: Layout, table: Table, own: list[str], run: str) -> None:
        # A session of its own: the number of a commit is a setting of the session that writes it.
        self._spark = spark.newSession()
        self._layout, self._own, self._run = layout, own, run
        self.table = table
        self.path = layout.silver(table.name)
        self._lease = Lease(layout.lease(f"silver-{table.name}"), f"table {table.name!r}")
        self.applied = 0

    def __enter__(self) -> SilverWriter:
        self._lease.acquire()
        try:
            tables.create(self._spark, self._layout, self.table)
            self.progress = open_epoch(self._spark, self.path, self.table.name)
            self.applied = self.progress.tick
            self._forms = fold.forms_of(self._spark, self.table)
            self._skip = tables.skipped_offsets(self._spark, self._layout, self.table)
        except BaseException:
            self._lease.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lease.release()

    def rows(self, after: int, to: int) -> DataFrame:
        """Return the bronze rows of the table's topic with tick in (after, to]."""
        source = self.table.stream.source
        rows = bronze.records(self._spark, self._layout, [source.topic], self._own)
        return fold.not_skipped(bronze.between(rows, after, to), self._skip)

    def apply(self, to: int, quarantine_bad: Callable[[Source, int], None]) -> int:
        """Take in the ticks up to `to`; return the number of records seen. `quarantine_bad(source, to)` comes first."""
        if to <= self.applied:
            return 0
        folded = fold.fold(self.table, self._forms, self.rows(self.applied, to))
        try:
            if folded.bad:
                quarantine_bad(self.table.stream.source, to)
            if folded.records:
                self._commit(folded, to)
        finally:
            folded.frame.unpersist()
        self.applied = to
        return folded.records

    def _commit(self, folded: fold.Folded, to: int) -> None:
        target = Progress(self.progress.epoch, to)
        metadata = {"from_tick": self.applied, "run": self._run, **fold.counts(folded)}
        if folded.keys == 0:
            # Records came and none touched a row: the table still says how far it is.
            append_nothing(self._spark, self.path, self.table.name, target, metadata)
        else:
            with Numbered(self._spark, self.path, self.table.name, target, metadata):
                fold.merge(self._spark, self.path, self.table, self._forms, folded.frame)
        self.progress = target


class Quarantine:
    """Writes the bad records of the streams, once for all tables that read a stream. A context manager.

    A stream's name belongs to one running application: its quarantine has a lease, as a table has.
    """

    def __init__(self, spark: SparkSession, layout: Layout, app: App, writers: list[SilverWriter]) -> None:
        self._spark = spark.newSession()
        self._layout, self._own = layout, own_topics(app)
        self._writers = writers
        self._sources = app.sources
        self._lock = threading.Lock()
        self._leases = ExitStack()

    def __enter__(self) -> Quarantine:
        with ExitStack() as stack:
            for source in self._sources:
                stack.enter_context(
                    Lease(self._layout.lease(f"stream-{source.name}"), f"the quarantine of stream {source.name!r}")
                )
                quarantine.create(self._spark, self._layout, source)
            self._leases = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leases.close()

    def write(self, source: Source, to: int) -> None:
        """Write the stream's bad records up to tick `to`: from the first that one of its tables still lacks."""
        lagging = [w for w in self._writers if w.table.stream.source == source]
        after = min(writer.applied for writer in lagging)
        rows = bronze.records(self._spark, self._layout, [source.topic], self._own)
        with self._lock:
            quarantine.write(self._spark, self._layout, source, rows, after, to)


def latest_complete_tick(spark: SparkSession, layout: Layout) -> int:
    """Return bronze's last complete tick."""
    return read_progress(spark, layout.records, bronze.NAME).tick
