"""The writer of an application's quarantines: leases, epochs, and one numbered commit a batch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from lakehouse.lake.commit_metadata import QuarantineCommit
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import quarantine_place
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK, Progress
from lakehouse.spark.batch_cache import NO_BATCH, BatchCache
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.decoded import decode_records
from lakehouse.spark.table import quarantine
from lakehouse.spark.transaction import append, open_epoch


class QuarantineReader(Protocol):
    """The writer of a table, as the quarantines of its streams see it. applied: the last tick that it has taken in."""

    table: Table
    applied: int

    def prove(self) -> None:
        """Raise Fenced when another writer has taken the table over."""


class Quarantine:
    """Writes the bad records of the streams, once for all tables and sinks that read a stream. A context manager.

    A stream's name belongs to one running application: its quarantine has a lease, as a table has.
    """

    def __init__(self, lake: OpenLake, app: App, writers: Sequence[QuarantineReader]) -> None:
        self._lake = lake.own_session()
        self._own_topics = {source.topic for source in app.sources if source.own_table}
        self._writers = writers
        self._sources = app.sources
        read_sources = {source for writer in writers for source in writer.table.stream.sources}
        self._unread_sources = [source for source in app.sources if source not in read_sources]
        self._lock = threading.Lock()
        self._leases = ExitStack()
        self._epochs: dict[str, int] = {}

    def __enter__(self) -> Quarantine:
        with ExitStack() as stack:
            for source in self._sources:
                stack.enter_context(
                    Lease(self._lake.layout.lease(f"stream-{source.name}"), f"the quarantine of stream {source.name!r}")
                )
                quarantine.create_quarantine(self._lake, source)
            self._leases = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leases.close()

    def write(self, source: Source, to_tick: int, cache: BatchCache = NO_BATCH) -> None:
        """Append the stream's bad records up to `to_tick` that the quarantine lacks.

        Called before a table takes these ticks in, so a table that has a tick never lacks its quarantine. Ticks that
        all of the stream's tables have were looked through before. cache: the records that this batch's tables read.
        """
        reading_writers = [reader for reader in self._writers if source in reader.table.stream.decodes]
        bronze_rows = bronze.read_topic_records(self._lake, [source.topic], self._own_topics)
        with self._lock:
            epoch = self._epoch(source, reading_writers)
            table_place = quarantine_place(self._lake.layout, source.name)
            written_tick = self._lake.progress(table_place).tick
            if written_tick >= to_tick:
                return
            after_tick = max(written_tick, min((writer.applied for writer in reading_writers), default=NO_TICK))
            new_rows = bronze.between_ticks(bronze_rows, after_tick, to_tick)
            make_records = partial(decode_records, source, new_rows)
            decoded_records = cache.make_once(self._lake.spark, source, after_tick, to_tick, make_records)
            new_bad_records = quarantine.bad_records(source, new_rows, decoded_records)
            content = QuarantineCommit(from_tick=after_tick)
            append(new_bad_records, table_place, Progress(epoch, to_tick), content)

    def write_unread(self, to_tick: int) -> None:
        """Write the bad records of streams that no table reads, such as one only published, up to `to_tick`."""
        for source in self._unread_sources:
            self.write(source, to_tick)

    def swap(self, source: Source, built_layout: Layout, to_tick: int) -> None:
        """Replace a stream's quarantine with that of a table that is swapped in, up to `to_tick`."""
        bronze_rows = bronze.read_topic_records(self._lake, [source.topic], self._own_topics)
        with self._lock:
            epoch = self._epoch(source, [reader for reader in self._writers if source in reader.table.stream.decodes])
            self._epochs[source.name] = quarantine.swap_quarantine(
                self._lake, built_layout, source, bronze_rows, epoch, to_tick
            )

    def _epoch(self, source: Source, writers: Sequence[QuarantineReader]) -> int:
        if source.name not in self._epochs:
            for writer in writers:
                writer.prove()
            table_place = quarantine_place(self._lake.layout, source.name)
            self._epochs[source.name] = open_epoch(self._lake.spark, table_place).epoch
        return self._epochs[source.name]
