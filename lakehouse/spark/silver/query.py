"""The silver query: new ticks of bronze wake it up, and it brings every table of an application to the latest one.

Spark's frame and batch id serve only as a clock. A batch applies the ticks after a table's own last one.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from itertools import groupby
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakehouse.errors import NotFound
from lakehouse.file_faults import written_folders
from lakehouse.lake import store
from lakehouse.lake.commit_metadata import BronzeTick
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.record.topic_places import refuse_misplaced
from lakehouse.phases import phase
from lakehouse.plan.alert import FunctionSink
from lakehouse.plan.app import App, table_depth
from lakehouse.plan.table import Sink, Table
from lakehouse.semantics.commit_number import EVER
from lakehouse.semantics.failures import FunctionFailures
from lakehouse.spark.batch_cache import BatchCache
from lakehouse.spark.bronze import bronze
from lakehouse.spark.cluster.address import is_local
from lakehouse.spark.jvm import checkpoint
from lakehouse.spark.jvm.failure import BatchHandler, raise_failure
from lakehouse.spark.jvm.in_memory import plan_now
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver.quarantine_writer import QuarantineWriter
from lakehouse.spark.silver.schema_ticks import PATIENCE_SECONDS, SchemaTicks, SchemaWaiting
from lakehouse.spark.silver.upstream_ticks import UpstreamTicks, UpstreamWaiting
from lakehouse.spark.silver.writer import SilverWriter, latest_complete_tick
from lakehouse.spark.transaction import commit_log_of

QUERY = "silver"
RECORDS_PER_BATCH_MAX = 5_000_000
# So few ticks can't hold too much; the records of more ticks are counted before they become one batch.
TICKS_UNCOUNTED = 4
TABLES_AT_ONCE = 2  # on this machine
_first_read_planned = threading.Event()


class Silver:
    """The one writer of an application's tables. A context manager: entering takes the leases and opens epochs.

    `on_batch(tick, records)` is called after each batch, when all tables have reached its last tick, or else the
    `tick_limit` that the tables of other applications, and the schemas of records, set them. count_records: gives the
    number of records in ticks (after, to] to those who wait; 0 if it is not known.
    """

    def __init__(
        self,
        lake: OpenLake,
        app: App,
        on_batch: Callable[[int, int], None],
        count_records: Callable[[int, int], int] = lambda after_tick, to_tick: 0,
        *,
        stops_run: bool = True,
    ) -> None:
        """stops_run: see `QuarantineWriter`."""
        self._lake, self._app, self._on_batch, self._count_records = lake, app, on_batch, count_records
        self._spark, self._layout = lake.spark, lake.layout
        run_id = uuid.uuid4().hex
        self.writers = [SilverWriter(lake.open(table), run_id) for table in app.tables]
        # A table takes a batch in after the tables that it reads.
        self._levels = [list(level) for _, level in groupby(sorted(self.writers, key=_table_depth), key=_table_depth)]
        self._quarantine = QuarantineWriter(lake, app, self.writers, stops_run=stops_run)
        self._stack = ExitStack()
        self._done_tick = 0
        self._upstream = UpstreamTicks(lake, app)
        self._schemas = SchemaTicks(lake, app)
        self.batch_seconds = 0.0  # the seconds of the last batch
        self._seconds_per_record: float | None = None  # in the last batch with counted records
        # Applications may share a lake, but never a table or a sink: their checkpoints are named after what they write.
        written_names = ",".join(sorted([*(table.name for table in app.tables), *(sink.topic for sink in app.sinks)]))
        self._checkpoint = lake.layout.checkpoints(f"{QUERY}-{hashlib.sha256(written_names.encode()).hexdigest()[:12]}")
        self._batch_handler = BatchHandler(lambda frame, batch_id: self.catch_up())
        self._lock = threading.Lock()  # for the query, and for interventions, which bring no rows to wake it

    def __enter__(self) -> Silver:
        with ExitStack() as stack:
            refuse_misplaced(self._layout, self._app.topics, self._app.own_topics)
            bronze.create_tables(self._lake, self._app.own_topics)
            with phase("opening the tables", total=len(self.writers), unit="tables") as opening:
                for writer in self.writers:
                    stack.enter_context(writer)
                    opening.done += 1
            self._quarantine.declare_streams()
            self._upstream.refresh()
            self._schemas.refresh(latest_complete_tick(self._lake))
            self._done_tick = self.tick
            self._plan_first_read()
            self._pool = stack.enter_context(ThreadPoolExecutor(_tables_at_once(self._spark), "silver"))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _plan_first_read(self) -> None:
        """Plan a read of bronze, once a process: the first plan takes four seconds, while ingest waits for Kafka."""
        if not _first_read_planned.is_set() and latest_complete_tick(self._lake):
            _first_read_planned.set()
            unread_rows = bronze.between_ticks(self._lake.read(self._layout.records), self.tick, EVER)
            plan_now(unread_rows)

    def tick_limit(self, declaration: Table | Sink | FunctionSink, tick: int) -> int:
        """Return the last tick, up to this one, that a table can have, or that can be published."""
        return self._schemas.tick_limit(declaration, self._upstream.tick_limit(declaration, tick))

    @property
    def tick(self) -> int:
        """The last tick that every table has taken in; without tables, that of the last batch."""
        return min((writer.applied_tick for writer in self.writers), default=self._done_tick)

    def take_failures(self) -> Iterator[tuple[str, FunctionFailures]]:
        """Yield the functions that failed on records since the last call, each with its table's name."""
        for writer in self.writers:
            failures, writer.new_failures = writer.new_failures, ()
            yield from ((writer.table.name, function) for function in failures)

    def start_query(self, *, available_now: bool) -> StreamingQuery:
        """Start the query: until the ticks that are complete now are applied, or for good."""
        checkpoint_name = self._checkpoint.rsplit("/", 1)[1]  # leased while it is in use: upkeep removes old ones
        self._stack.enter_context(
            Lease(self._layout.lease(f"checkpoint-{checkpoint_name}"), f"checkpoint {checkpoint_name}")
        )
        reader = (
            self._spark.readStream.format("delta")
            .option("startingVersion", str(self._start_version()))
            .option("skipChangeCommits", "true")
        )
        stream = reader.load(self._layout.records)
        writer = stream.writeStream.queryName(f"{QUERY}-{uuid.uuid4().hex[:8]}").foreachBatch(self._batch_handler)
        writer = writer.option("checkpointLocation", checkpoint.fresh_checkpoint(self._spark, self._checkpoint))
        return (
            writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
        ).start()

    def _start_version(self) -> int:
        """Return the version of bronze from which the query reads.

        It is the last commit with records: so the first batch comes at once, and brings all tables up to date. Where
        older versions were removed, that commit may be gone, or files that it added. Then the tables are brought up to
        date here, and the query reads from the commit that was the newest before: a tick that comes meanwhile is later.
        """
        path = self._layout.records
        log = commit_log_of(self._spark, path)
        for commit in log.walk_back():
            content = commit.metadata.content if commit.metadata else None
            if isinstance(content, BronzeTick) and content.operation is None:
                actions = map(json.loads, log.lines(commit.version) or ())
                added_files = [f"{path}/{unquote(action['add']['path'])}" for action in actions if "add" in action]
                if store.all_exist(added_files):
                    return commit.version
                break
        else:
            if log.commit_at(0) is not None:
                return 0  # there never was a record
        self.catch_up()
        return log.newest

    def stop_query(self, query: StreamingQuery) -> None:
        """Stop the query after the batch that is under way."""
        self._batch_handler.stop(query)

    def check_query(self, query: StreamingQuery) -> None:
        """Raise the error that ended the query, if one did."""
        raise_failure(query, self._batch_handler, written_folders(self._lake.layout.root))

    def catch_up(self, to_tick: int | None = None) -> None:
        """Bring all tables to a tick, the latest complete one if left out, in batches of bounded size."""
        with self._lock:
            latest_tick = latest_complete_tick(self._lake)
            if any(writer.must_wait(latest_tick) for writer in self.writers):
                return
            last_tick = latest_tick if to_tick is None else min(to_tick, latest_tick)
            has_more_schemas = self._schemas.refresh(last_tick)
            has_advanced = self._upstream.refresh() or has_more_schemas
            for tick in self._batch_ticks(last_tick):
                self._take_in(tick)
                has_advanced = False
            if has_advanced and last_tick:
                self._take_in(last_tick)  # what is published of streams may go on, though no table does

    def catch_up_with_upstream(self) -> None:
        """Go on where tables of other applications, or the registry, have come further: no rows wake the query then."""
        if self.find_waiting():
            self.catch_up()

    def find_waiting(self) -> list[UpstreamWaiting | SchemaWaiting]:
        """Return what waited for tables of other applications, or for schemas, when the tables last caught up."""
        with self._lock:
            tick = latest_complete_tick(self._lake)
            return [*self._upstream.find_waiting(tick), *self._schemas.find_waiting(tick)]

    def check_schemas(self) -> None:
        """Wait for the schemas that the latest complete tick needs, but not for good. Raises RegistryUnavailable."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._schemas.find_waiting(latest_complete_tick(self._lake)) and time.monotonic() < deadline:
            time.sleep(1)
            self.catch_up()
        self._schemas.check_known(latest_complete_tick(self._lake))

    def _take_in(self, tick: int) -> None:
        """Bring all tables to a tick, in one batch."""
        start_seconds, records = time.monotonic(), 0
        limits = {writer: self.tick_limit(writer.table, tick) for writer in self.writers}
        readers = [
            (writer.table, writer.applied_tick)
            for writer in self.writers
            if limits[writer] == tick and writer.takes_all_at_once(tick)
        ]
        waiting = self._count_records(self.tick, tick)
        counted_text = f"{waiting:,} records to tables" if waiting else f"tables to tick {tick:,}"
        with (
            phase("tables", counted_text, total=len(self.writers), unit="tables") as batch_phase,
            BatchCache(readers, tick) as cache,
        ):
            if waiting and self._seconds_per_record is not None:
                batch_phase.expected_seconds = waiting * self._seconds_per_record
            for level in self._levels:
                jobs = [self._pool.submit(writer.apply, limits[writer], self._quarantine, cache) for writer in level]
                for _ in as_completed(jobs):  # for all, even if one fails: the others still read the cached frames
                    batch_phase.done += 1
                try:
                    records += sum(job.result() for job in jobs)
                except NotFound as error:
                    raise self._upstream.explain_missing_past(error) from error
        self._quarantine.write_unread(lambda source: self._schemas.tick_limit_of([source], tick))
        self.batch_seconds = time.monotonic() - start_seconds
        if waiting:
            self._seconds_per_record = self.batch_seconds / waiting
        self._on_batch(tick, records)
        self._done_tick = tick

    def _batch_ticks(self, latest_tick: int) -> Iterator[int]:
        """Yield the last tick of each batch up to `latest_tick`."""
        ticks = [
            writer.applied_tick
            for writer in self.writers
            if writer.applied_tick < self.tick_limit(writer.table, latest_tick)
        ]
        applied_tick = min(ticks, default=self._done_tick)
        if latest_tick - applied_tick > TICKS_UNCOUNTED:
            app = self._app
            new_rows = bronze.read_ticks(self._lake, app.topics, applied_tick, latest_tick, app.own_topics)
            tick_counts = new_rows.groupBy("tick").count()
            records = 0
            for tick, count in sorted(map(tuple, tick_counts.collect())):
                if records and records + count > RECORDS_PER_BATCH_MAX:
                    yield tick - 1
                    records = 0
                records += count
        if latest_tick > applied_tick:
            yield latest_tick


def _table_depth(writer: SilverWriter) -> int:
    """Return the length of the chain of tables that a table reads."""
    return table_depth(writer.table)


def _tables_at_once(spark: SparkSession) -> int:
    """Return how many tables are folded at a time: on a cluster the driver only plans them, with all of its cores."""
    return TABLES_AT_ONCE if is_local(str(spark.sparkContext.master)) else max(TABLES_AT_ONCE, os.cpu_count() or 1)
