"""Running an application: ingest, silver and publishing in one process, on one Spark session.

It runs in one of two ways, with equal results: until it has caught up with what Kafka has at the start, or for good.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.errors import JobFailed, LeaseHeld
from lakehouse.kafka.options import java_options
from lakehouse.kafka.ranges import read_ranges
from lakehouse.kafka.snapshot_topic import Differences
from lakehouse.kafka.topics import Cluster
from lakehouse.lake import store
from lakehouse.lake.control import note
from lakehouse.lake.control.writer_leases import quarantine_lease
from lakehouse.lake.layout import Layout
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.plan.origin import Source
from lakehouse.run.job import function_sinks
from lakehouse.run.job.function_sinks import FunctionCalls
from lakehouse.run.job.publishing import Publishing
from lakehouse.run.job.standstill import Standstill
from lakehouse.run.job.turns import Turns
from lakehouse.run.job.upkeep import Upkeeping, upkeep_tables
from lakehouse.run.repair import intervene
from lakehouse.run.snapshots.files import SourceSnapshot, time_text
from lakehouse.run.snapshots.taking import Snapshotting, keep_looking
from lakehouse.run.start.registry import SchemaLookUp
from lakehouse.run.watch.event import JobEvent, Listen
from lakehouse.settings.config import Settings
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.feed import Feed
from lakehouse.spark.bronze.gaps import KafkaTopic
from lakehouse.spark.bronze.ingest import Ingest
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.jvm.failure import stop_query
from lakehouse.spark.silver.leftovers import upkeep_control
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.silver.upkeep import UpkeepPolicy, UpkeepResult, upkeep_bronze, upkeep_quarantine
from lakehouse.spark.table import checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


Part = Literal["ingest", "silver"]
PARTS: tuple[Part, ...] = ("ingest", "silver")
POLL_SECONDS = 0.5
WAITING_TOLD_SECONDS = 10.0  # a batch of another application takes seconds: nobody need know
TICKS_REMEMBERED = 1_000
STORE_POLL_SECONDS = 5.0  # a store wants to be paid for each answer


class Job:
    """One application on one lake. `listen` gets every tick, batch and publication, from the queries' threads."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        app: App,
        bootstrap_servers: str,
        listen: Listen = lambda event: None,
    ) -> None:
        self._spark, self._settings, self._app, self._listen = spark, settings, app, listen
        self._layout = Layout(settings.lake.path)
        self._poll_seconds = STORE_POLL_SECONDS if store.is_remote(self._layout.root) else 0.0
        self._next_look = 0.0  # for requests and tables of other applications, by the clock of time.monotonic
        self._standstill = Standstill(self._layout)
        self._may_wait = bool(app.upstream) or any(source.is_registered for source in app.sources)
        function_sinks.check_functions(self._layout, app)
        self._lake = open_lake(spark, self._layout, look_up_schema=SchemaLookUp(settings))
        self._bootstrap = bootstrap_servers
        self._cluster = Cluster(bootstrap_servers, settings.kafka.options)
        self._snapshots = Snapshotting(settings, app, self._cluster, self._say_snapshot, self._warn_of_snapshots)
        self._turns = Turns(None)
        self._began = time.monotonic()
        self._tick_records: deque[tuple[int, int]] = deque(maxlen=TICKS_REMEMBERED)  # the last ticks of this run

    def until_caught_up(self, parts: tuple[Part, ...] = PARTS) -> None:
        """Ingest what Kafka has now, then bring every table and sink up to date. Raises the error that stopped it."""
        checked.check_application(self._spark, self._app)
        with ExitStack() as stack:
            silver: Silver | None = None
            if "ingest" in parts:
                with self._ingest() as ingest:
                    with phase("reading snapshots"):
                        self._snapshots.look()
                    ingest_query = self._start_in_pool("ingest", partial(ingest.start_query, available_now=True))
                    try:
                        # Open the tables while Kafka is read: each takes a second in a cold process.
                        silver = stack.enter_context(self._silver()) if "silver" in parts else None
                    except BaseException:
                        ingest.stop_query(ingest_query)
                        raise
                    with phase("reading Kafka"):
                        _await_query(ingest_query, ingest.check_query)
            elif "silver" in parts:
                silver = stack.enter_context(self._silver())
            if silver is not None:
                with phase("looking for new ticks"):
                    _await_query(silver.start_query(available_now=True), silver.check_query)
                silver.catch_up_with_upstream()
                self._tell_waiting(silver, patience_seconds=0)
                silver.check_schemas()

    def until_stopped(self, stop: threading.Event, parts: tuple[Part, ...] = PARTS) -> None:
        """Keep running until `stop` is set. Raises the error that stopped it otherwise."""
        checked.check_application(self._spark, self._app)
        with ExitStack() as stack:
            running_queries: list[tuple[StreamingQuery, Ingest | Silver]] = []
            ingest: Ingest | None = None
            silver: Silver | None = None
            self._turns = Turns(self._spark.sparkContext.defaultParallelism if len(parts) == len(PARTS) else None)
            trigger_seconds = self._settings.run.trigger_seconds
            if "ingest" in parts:
                ingest = stack.enter_context(self._ingest())
                stack.enter_context(keep_looking(self._snapshots))
                start_ingest = partial(ingest.start_query, available_now=False, trigger_seconds=trigger_seconds)
                running_queries.append((self._start_in_pool("ingest", start_ingest), ingest))
            if "silver" in parts:
                silver = stack.enter_context(self._silver())
                running_queries.append(
                    (self._start_in_pool("silver", partial(silver.start_query, available_now=False)), silver)
                )
            first_look, has_looked = ExitStack(), False
            try:
                first_look.enter_context(phase("looking for new records"))
                while not stop.wait(POLL_SECONDS) and all(query.isActive for query, _ in running_queries):
                    if has_looked := has_looked or all(_is_waiting(query) for query, _ in running_queries):
                        first_look.close()
                    self._take_up(ingest, silver)
            except Exception:
                # A batch's own error says more than the error that a query, or Spark, no longer answers.
                for query, owner in running_queries:
                    owner.check_query(query)
                raise
            finally:
                first_look.close()
                self._turns.end()
                for query, owner in running_queries:
                    owner.stop_query(query)
            for query, owner in running_queries:
                try:
                    owner.check_query(query)
                except JobFailed as error:
                    if not stop.is_set():
                        raise
                    # The signal may have ended Spark's processes, too: the batch under way is done at the next start.
                    self._say("cut off", 0, 0, message=str(error))

    def _take_up(self, ingest: Ingest | None, silver: Silver | None) -> None:
        """Take up what wakes no query: requested interventions, and what other applications did to their tables."""
        is_due = time.monotonic() >= self._next_look
        if is_due:
            self._next_look = time.monotonic() + self._poll_seconds
        if ingest is not None and is_due:
            for path, request in intervene.pending_requests(self._layout):
                if interventions.intervention_tick(self._lake, request.id) is None:
                    ingest.record_intervention(request)
                note.remove(path)
        if silver is None:
            return
        if interventions.last_intervention_tick(self._lake) > silver.tick:
            silver.catch_up()
        if self._may_wait and is_due:
            silver.catch_up_with_upstream()
            self._tell_waiting(silver, WAITING_TOLD_SECONDS)

    def _tell_waiting(self, silver: Silver, patience_seconds: float) -> None:
        """Tell which tables of other applications, or schemas, something has waited for, for some seconds."""
        for details in self._standstill.look(silver.find_waiting(), patience_seconds):
            self._say("waiting", details.pop("tick"), 0, **details)

    def _start_in_pool(self, pool: str, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        """Start a query in a scheduler pool of its own, so that neither waits for the other's jobs."""
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", pool)
        try:
            return start()
        finally:
            context.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type, unused-ignore]

    def _ingest(self) -> Ingest:
        run_settings = self._settings.run
        feed = Feed(
            self._bootstrap,
            java_options(self._settings.kafka.options),
            tuple(dict.fromkeys((*self._app.topics, *self._settings.kafka.topics))),
            self._look,
            partial(read_ranges, self._bootstrap, self._settings.kafka.options),
            pattern=self._settings.kafka.topic_pattern,
            own_topics=tuple(sorted(self._app.own_topics)),
            max_records_per_tick=run_settings.max_records_per_tick,
            max_bytes_per_tick=run_settings.max_bytes_per_tick,
            max_record_bytes=run_settings.max_record_bytes,
            on_data_loss=run_settings.on_data_loss,
        )
        owned_topics = self._app.own_topics

        def keep_up(policy: UpkeepPolicy) -> list[UpkeepResult]:
            upkeep_steps = upkeep_bronze(self._lake, owned_topics, policy)
            return upkeep_steps + upkeep_control(self._layout, policy, datetime.now(UTC))

        upkeeping = self._upkeeping("bronze", keep_up)

        def after_tick(tick: int, rows: int) -> None:
            self._tick_records.append((tick, rows))
            self._say("tick", tick, rows, took=round(ingest.tick_seconds, 3))
            upkeeping.run_if_due(tick)
            self._turns.wait_for(tick)

        ingest = Ingest(self._lake, feed, after_tick)
        return ingest

    def _upkeeping(self, part: str, work: Callable[[UpkeepPolicy], list[UpkeepResult]]) -> Upkeeping:
        """Return the upkeep of the tables that a query of this job writes; it reports events."""

        def report_done(upkeep_steps: list[UpkeepResult], seconds: float) -> None:
            files_before = sum(step.files_before for step in upkeep_steps)
            files_after = sum(step.files_after for step in upkeep_steps)
            details = {"part": part, "took": round(seconds, 3)}
            self._say("upkeep", 0, 0, **details, files_before=files_before, files_after=files_after)

        def report_failure(message: str) -> None:
            self._say("upkeep failed", 0, 0, part=part, message=message)

        return Upkeeping(self._layout, self._settings.upkeep, part, work, report_done, report_failure)

    def _keep_up(self, policy: UpkeepPolicy) -> list[UpkeepResult]:
        upkeep_steps = upkeep_tables(self._lake, self._app, policy, self._app.tables)
        for source in self._app.sources:
            # Another process of the application may write there, or do the upkeep: then it is done at another time.
            with suppress(LeaseHeld), quarantine_lease(self._layout, source.name):
                upkeep_steps += upkeep_quarantine(self._lake, [source], policy)
        return upkeep_steps

    def _look(self, known_topics: Iterable[str]) -> dict[str, KafkaTopic]:
        """Return what Kafka has now of the ingested topics, without topics that do not exist.

        known_topics: those that bronze has. A list of all topics that lacks one does not say that it was deleted: Kafka
        is asked for it by its name.
        """
        topic_names = set(self._cluster.names())
        wanted_topics = {*self._app.topics, *self._settings.kafka.topics}
        topic_facts = self._cluster.topics(sorted(wanted_topics & topic_names))
        if (pattern := self._settings.kafka.topic_pattern) is not None:
            topic_facts |= self._cluster.topics(pattern)
        topic_facts |= self._cluster.existing_topics(sorted(set(known_topics) - topic_facts.keys()))
        topic_offsets = self._cluster.offsets(
            (name, p) for name, fact in topic_facts.items() for p in range(fact.partitions)
        )
        return {
            name: KafkaTopic(fact.id, {p: topic_offsets[name, p] for p in range(fact.partitions)})
            for name, fact in topic_facts.items()
        }

    @contextmanager
    def _silver(self) -> Iterator[Silver]:
        with (
            Publishing(self._lake, self._settings, self._app, self._cluster) as publishing,
            FunctionCalls(self._lake, self._app) as functions,
        ):

            def publish(tick: int) -> None:
                started = time.monotonic()
                with phase("publishing", f"publishing up to tick {tick:,}"):
                    for topic, count in publishing.publish(tick, silver.tick_limit):
                        self._say("published", tick, count, topic=topic, took=round(time.monotonic() - started, 3))
                        started = time.monotonic()
                    for name, count in functions.call_functions(tick, silver.tick_limit):
                        self._say("told", tick, count, function=name, took=round(time.monotonic() - started, 3))
                        started = time.monotonic()

            name_hash = hashlib.sha256(",".join(sorted(table.name for table in self._app.tables)).encode())
            upkeeping = self._upkeeping(f"silver-{name_hash.hexdigest()[:12]}", self._keep_up)

            def after_batch(tick: int, records: int) -> None:
                self._say("batch", tick, records, took=round(silver.batch_seconds, 3))
                for table, failure in silver.take_failures():
                    kind, subject, reason = "function failed", {"function": failure.function}, {"error": failure.error}
                    if failure.expectation:
                        kind, subject = "expectation unmet", {"expectation": failure.expectation}
                        reason = {"reason": failure.error}
                    self._say(kind, tick, failure.records, table=table, **subject, first=failure.first, **reason)
                publish(tick)
                upkeeping.run_if_due(tick)
                self._turns.note_tick(tick)

            def count_records(after: int, to: int) -> int:
                ticks = list(self._tick_records)  # ingest goes on
                is_known = bool(ticks) and ticks[0][0] <= after + 1
                return sum(records for tick, records in ticks if after < tick <= to) if is_known else 0

            with Silver(self._lake, self._app, after_batch, count_records) as silver:
                # Publish commits that a crash left unpublished, and the whole history of a new sink.
                publish(silver.tick)
                yield silver

    def _say_snapshot(self, source: Source, snapshot: SourceSnapshot, differences: Differences, seconds: float) -> None:
        details = {"topic": source.topic, "at": time_text(snapshot.time_ms), **differences._asdict()}
        self._say("snapshot", 0, differences.total, **details, took=round(seconds, 3))

    def _warn_of_snapshots(self, kind: str, message: str) -> None:
        self._say(kind, 0, 0, message=message)

    def _say(self, kind: str, tick: int, records: int, **details: Any) -> None:
        self._listen(JobEvent(kind, tick, records, time.monotonic() - self._began, details))


def _is_waiting(query: StreamingQuery) -> bool:
    """Say whether a query has looked once, and has nothing more to do."""
    return query.lastProgress is not None or str(query.status["message"]).startswith("Waiting")


def _await_query(query: StreamingQuery, check: Callable[[StreamingQuery], None]) -> None:
    try:
        while not query.awaitTermination(1):
            pass
    except Exception:
        check(query)
        raise
    finally:
        stop_query(query)
    check(query)
