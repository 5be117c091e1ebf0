"""The writer of an application's quarantines: leases, epochs, and one numbered commit a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from lakehouse.lake.commit_metadata import QuarantineCommit
from lakehouse.lake.control.stream_declaration import declare_stream
from lakehouse.lake.control.writer_leases import quarantine_lease
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import quarantine_place
from lakehouse.lake.record.quarantine import QuarantineChoice, read_quarantined
from lakehouse.plan.app import App
from lakehouse.plan.expectation import failure
from lakehouse.plan.origin import Source
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK, Progress
from lakehouse.spark.batch_cache import NO_BATCH, BatchCache
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.schema_ids import check_schemas
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.decoded import decode_records
from lakehouse.spark.table import quarantine
from lakehouse.spark.transaction import append, open_epoch

PATIENCE_SECONDS = 600.0  # another process decodes many records, or does the upkeep of a large quarantine


class TableWriter(Protocol):
    """The writer of a table, as the quarantines of its streams see it."""

    table: Table
    applied_tick: int  # the last tick that the table has taken in

    @property
    def seen_tick(self) -> int:
        """The last tick up to which the table has seen all records of its streams: their bad records are written."""

    def check_ownership(self) -> None:
        """Raise Fenced when another writer has taken the table over."""


class QuarantineWriter:
    """Writes the bad records of the streams, once for all tables and sinks that read a stream.

    Several processes may write one quarantine, in turns: who writes holds its lease for that one commit, and opens an
    epoch where another process has opened one since. They have to declare the stream alike: `declare_streams` is called
    before the first write, and raises LeaseHeld while another process has another declaration.
    """

    def __init__(self, lake: OpenLake, app: App, writers: Sequence[TableWriter], *, stops_run: bool = True) -> None:
        """stops_run: whether a record can stop the run; not where a table is built beside the live one."""
        self._lake, self._app, self.stops_run = lake.own_session(), app, stops_run
        self._own_topics = app.own_topics
        self._writers = writers
        read_sources = {source for writer in writers for source in writer.table.stream.sources}
        self._unread_sources = [source for source in app.sources if source not in read_sources]
        self._lock = threading.Lock()
        self._epochs: dict[str, int] = {}

    def declare_streams(self) -> None:
        """Note how the streams are declared, and create their quarantines. Raises LeaseHeld, see the class."""
        for source in self._app.sources:
            with self._hold_lease(source):
                declare_stream(self._lake.layout, self._app, source)
                quarantine.create_quarantine(self._lake, source)

    @contextmanager
    def _hold_lease(self, source: Source) -> Iterator[None]:
        """Keep the other threads, and the other processes, from writing to a stream's quarantine."""
        with self._lock, quarantine_lease(self._lake.layout, source.name).acquire_within(PATIENCE_SECONDS):
            yield

    def write(self, source: Source, to_tick: int, cache: BatchCache = NO_BATCH) -> None:
        """Append the stream's bad records up to `to_tick` that the quarantine lacks.

        Called before a table takes these ticks in, so a table that has a tick never lacks its quarantine. Ticks that
        all of the stream's tables have were looked through before. cache: the records that this batch's tables read.
        Raises ExpectationFailed for a record that stops the run, and that nobody has fixed.
        """
        self._append_bad_records(source, to_tick, cache)
        if self.stops_run:
            self._check_expectations(source, to_tick)

    def _append_bad_records(self, source: Source, to_tick: int, cache: BatchCache) -> None:
        reading_writers = self._readers_of(source)
        table_place = quarantine_place(self._lake.layout, source.name)
        with self._hold_lease(source):
            written_progress = self._lake.progress(table_place)
            if written_progress.tick >= to_tick:
                return
            epoch = self._current_epoch(source, written_progress.epoch)
            after_tick = max(
                written_progress.tick, min((writer.seen_tick for writer in reading_writers), default=NO_TICK)
            )
            new_rows = bronze.read_ticks(self._lake, [source.topic], after_tick, to_tick, self._own_topics)
            check_schemas(self._lake, source, to_tick)
            find_schemas = self._lake.schemas.find
            make_records = partial(decode_records, source, new_rows, find_schemas)
            decoded_records = cache.make_once(self._lake.spark, source, after_tick, to_tick, make_records)
            new_bad_records = quarantine.bad_records(source, new_rows, decoded_records, find_schemas)
            content = QuarantineCommit(from_tick=after_tick)
            append(new_bad_records, table_place, Progress(epoch, to_tick), content)

    def _check_expectations(self, source: Source, to_tick: int) -> None:
        layout = self._lake.layout
        # A tick that all tables have taken in, such as by a backfill under a new rule, has passed.
        passed_tick = min((reader.applied_tick for reader in self._readers_of(source)), default=NO_TICK)
        bad_records = [
            bad_record
            for item in source.expectations
            if item.otherwise == "fail"
            for bad_record in read_quarantined(
                layout, source.name, QuarantineChoice(reason=item.reason_start, open=True)
            )
            if passed_tick < bad_record.record.tick <= to_tick and bad_record.reason.startswith(item.reason_start)
        ]
        if bad_records:
            first = min(bad_records, key=lambda bad_record: bad_record.record.position)
            places = [str(first.place), *(str(record.place) for record in bad_records if record is not first)]
            raise failure(source.name, places, first.reason)

    def write_unread(self, last_tick: Callable[[Source], int]) -> None:
        """Write the bad records of streams that no table reads, such as one only published, up to their last tick."""
        for source in self._unread_sources:
            self.write(source, last_tick(source))

    def swap_in(self, source: Source, built_layout: Layout, to_tick: int) -> None:
        """Replace a stream's quarantine with that of a table that is swapped in, up to `to_tick`."""
        bronze_rows = bronze.read_topic_records(self._lake, [source.topic], self._own_topics)
        with self._hold_lease(source):
            written_epoch = self._lake.progress(quarantine_place(self._lake.layout, source.name)).epoch
            self._epochs[source.name] = quarantine.swap_quarantine(
                self._lake, built_layout, source, bronze_rows, self._current_epoch(source, written_epoch), to_tick
            )

    def _readers_of(self, source: Source) -> list[TableWriter]:
        return [reader for reader in self._writers if source in reader.table.stream.decodes]

    def _current_epoch(self, source: Source, written_epoch: int) -> int:
        """Return this process's epoch of a quarantine; open one if the last that was written is another's."""
        if self._epochs.get(source.name) != written_epoch:
            for writer in self._readers_of(source):
                writer.check_ownership()
            table_place = quarantine_place(self._lake.layout, source.name)
            self._epochs[source.name] = open_epoch(self._lake.spark, table_place).epoch
        return self._epochs[source.name]
