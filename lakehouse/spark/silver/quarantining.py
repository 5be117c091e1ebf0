"""The writer of an application's quarantines: leases, epochs, and one numbered commit a batch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Protocol

from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.lake.place import quarantine_of
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver.shared import Sharing
from lakehouse.spark.table import quarantine
from lakehouse.spark.transaction import open_epoch


class Reader(Protocol):
    """The writer of a table, as the quarantines of its streams see it. applied: the last tick that it has taken in."""

    table: Table
    applied: int

    def prove(self) -> None:
        """Raise Fenced when another writer has taken the table over."""


class Quarantine:
    """Writes the bad records of the streams, once for all tables and sinks that read a stream. A context manager.

    A stream's name belongs to one running application: its quarantine has a lease, as a table has.
    """

    def __init__(self, lake: OpenLake, app: App, writers: Sequence[Reader]) -> None:
        self._lake = lake.own_session()
        self._own = {source.topic for source in app.sources if source.own_table}
        self._writers = writers
        self._sources = app.sources
        read = {source for writer in writers for source in writer.table.stream.sources}
        self._unread = [source for source in app.sources if source not in read]
        self._lock = threading.Lock()
        self._leases = ExitStack()
        self._epochs: dict[str, int] = {}

    def __enter__(self) -> Quarantine:
        with ExitStack() as stack:
            for source in self._sources:
                stack.enter_context(
                    Lease(self._lake.layout.lease(f"stream-{source.name}"), f"the quarantine of stream {source.name!r}")
                )
                quarantine.create(self._lake, source)
            self._leases = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leases.close()

    def write(self, source: Source, to: int, shared: Sharing | None = None) -> None:
        """Write the stream's bad records up to tick `to`: from the first tick that one of its tables still lacks."""
        lagging = [w for w in self._writers if source in w.table.stream.decodes]
        after = min((writer.applied for writer in lagging), default=NO_TICK)
        rows = bronze.records(self._lake, [source.topic], self._own)
        records = shared.through(self._lake.spark).records(source, after, to) if shared is not None else None
        with self._lock:
            epoch = self._epoch(source, lagging)
            quarantine.write(self._lake, source, rows, epoch, after, to, records)

    def write_unread(self, to: int) -> None:
        """Write the bad records of the streams that no table reads, such as one that is only published, up to `to`."""
        for source in self._unread:
            self.write(source, to)

    def swap(self, source: Source, built: Layout, to: int) -> None:
        """Replace a stream's quarantine with that of a table that is swapped in, up to tick `to`."""
        rows = bronze.records(self._lake, [source.topic], self._own)
        with self._lock:
            epoch = self._epoch(source, [w for w in self._writers if source in w.table.stream.decodes])
            self._epochs[source.name] = quarantine.swap(self._lake, built, source, rows, epoch, to)

    def _epoch(self, source: Source, writers: Sequence[Reader]) -> int:
        if source.name not in self._epochs:
            for writer in writers:
                writer.prove()
            place = quarantine_of(self._lake.layout, source.name)
            self._epochs[source.name] = open_epoch(self._lake.spark, place).epoch
        return self._epochs[source.name]
