"""The metrics of a continuous run for Prometheus: off unless `[metrics] port` is set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server

from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.lake import reader
from lakehouse.lake.commit_log import TickCoverage, open_log
from lakehouse.lake.commit_metadata import TableCommit, app_id
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import state_place
from lakehouse.lake.record import late_records
from lakehouse.lake.record.behind import measure_behind
from lakehouse.lake.record.quarantine import count_refused
from lakehouse.lake.store import is_table
from lakehouse.plan.app import App
from lakehouse.plan.step import Map
from lakehouse.plan.stream import judges_of, streams_within
from lakehouse.plan.table import Table
from lakehouse.run.watch.event import JobEvent
from lakehouse.run.watch.lag import Lag
from lakehouse.semantics.failures import OF_ROWS
from lakehouse.settings.config import Settings

# From a batch of a few records to a catch-up of millions.
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 150.0, 600.0)
PARTS = {"tick": "ingest", "batch": "tables", "published": "publish", "upkeep": "upkeep"}
WATCHED_PARTS = ("lag", "rules", "bronze", "table", "quarantine")
FUNCTION_KINDS = ("reduce", "aggregate")  # of aggregations that call a user's functions


class RunMetrics:
    """The metrics of a run. From any thread, call `heard` with its events, and the other methods at each look.

    Counters begin at 0 with the run, with all labels that are known then: Prometheus sees no increase in a series that
    begins above 0. Gauges give the present state.
    """

    def __init__(self, app: App, layout: Layout) -> None:
        self._app, self._layout = app, layout
        self.registry = own_registry = CollectorRegistry()
        ProcessCollector(registry=own_registry)
        self._records = Counter("lakehouse_records", "Records taken from Kafka into bronze.", registry=own_registry)
        self._ticks = Counter("lakehouse_ticks", "Ticks that bronze has got.", registry=own_registry)
        self._published = Counter(
            "lakehouse_published_records", "Records written to a changelog's topic.", ["topic"], registry=own_registry
        )
        self._failed = Counter(
            "lakehouse_function_failures", "Records on which a user's function failed.", ["table", "function"],
            registry=own_registry,
        )  # fmt: skip
        self._unmet = Counter(
            "lakehouse_expectation_warnings", "Records that did not meet an expectation that warns.",
            ["table", "expectation"], registry=own_registry,
        )  # fmt: skip
        self._upkeep_failed = Counter("lakehouse_upkeep_failures", "Upkeeps that failed.", registry=own_registry)
        self._seconds = Histogram(
            "lakehouse_batch_seconds", "Seconds of a batch, by its part: ingest, tables, publish, upkeep.", ["part"],
            buckets=BUCKETS, registry=own_registry,
        )  # fmt: skip
        # Shown from the first look on: before it, nobody knows.
        self._up: Gauge | None = None
        self._lag = Gauge(
            "lakehouse_lag_records", "Records of Kafka that bronze does not have.", ["topic", "partition"],
            registry=own_registry,
        )  # fmt: skip
        self._tick = Gauge("lakehouse_bronze_tick", "Bronze's last tick.", registry=own_registry)
        self._table_tick = Gauge("lakehouse_table_tick", "A table's last tick.", ["table"], registry=own_registry)
        self._behind_records = Gauge(
            "lakehouse_table_behind_records", "Records of bronze that a table has not taken in.", ["table"],
            registry=own_registry,
        )  # fmt: skip
        self._behind_seconds = Gauge(
            "lakehouse_table_behind_seconds",
            "For how long bronze has had the first of them.",
            ["table"],
            registry=own_registry,
        )
        self._rows = Gauge("lakehouse_table_rows", "Rows of a table.", ["table"], registry=own_registry)
        self._commit = Gauge(
            "lakehouse_last_commit_timestamp_seconds", "When a table was last committed, since 1970.", ["table"],
            registry=own_registry,
        )  # fmt: skip
        self._quarantined = Gauge(
            "lakehouse_quarantined_records", "Records in the quarantine of a stream.", ["stream"], registry=own_registry
        )
        self._refused = Gauge(
            "lakehouse_expectation_refused_records", "Records in the quarantine that did not meet an expectation.",
            ["stream", "expectation"], registry=own_registry,
        )  # fmt: skip
        self._late = Gauge(
            "lakehouse_late_records",
            "Records that came too late for a table, and are kept.",
            ["table"],
            registry=own_registry,
        )
        self._table_records = Counter(
            "lakehouse_table_records", "Records that a table took in.", ["table"], registry=own_registry
        )
        self._null_keys = Counter(
            "lakehouse_null_keys", "Records with a null key, which a table ignored.", ["table"], registry=own_registry
        )
        self._rules = Gauge(
            "lakehouse_rule_unmet", "1 if a rule about a table as a whole does not hold, else 0.",
            ["table", "expectation"], registry=own_registry,
        )  # fmt: skip
        self._watch_failures = Counter(
            "lakehouse_watch_failures", "Parts of the lake, or Kafka, that could not be looked at.", ["part"],
            registry=own_registry,
        )  # fmt: skip
        self._looked_at = Gauge(
            "lakehouse_last_look_timestamp_seconds", "When the run last looked at Kafka and its tables, since 1970.",
            registry=own_registry,
        )  # fmt: skip
        self._waiting: set[tuple[str, int]] = set()
        self._coverage: TickCoverage | None = None
        self._begin_series()
        self._read_to = {table.name: self._newest(table) for table in app.tables}
        with suppress(LakehouseError, OSError):  # the first look tells it
            self._read_quarantines()

    def _begin_series(self) -> None:
        for batch_part in PARTS.values():
            self._seconds.labels(batch_part)
        for watched_part in WATCHED_PARTS:
            self._watch_failures.labels(watched_part)
        for sink in self._app.sinks:
            self._published.labels(sink.topic)
        for table in self._app.tables:
            self._table_records.labels(table.name)
            self._null_keys.labels(table.name)
            for function in _functions_of(table):
                self._failed.labels(table.name, function)
            for expectation in _warnings_of(table):
                self._unmet.labels(table.name, expectation)
        self._looked_at.set_to_current_time()

    def count_event(self, event: JobEvent) -> None:
        """Count an event of the run."""
        details = event.details
        match event.kind:
            case "tick":
                self._records.inc(event.records)
                self._ticks.inc()
                self._tick.set(event.tick)
            case "published":
                self._published.labels(details["topic"]).inc(event.records)
            case "function failed":
                self._failed.labels(details["table"], details["function"]).inc(event.records)
            case "expectation unmet":
                self._unmet.labels(details["table"], details["expectation"]).inc(event.records)
            case "upkeep failed":
                self._upkeep_failed.inc()
        if event.kind in PARTS and "took" in details:
            self._seconds.labels(PARTS[event.kind]).observe(details["took"])

    def note_kafka(self, *, is_up: bool) -> None:
        """Note whether Kafka answers."""
        if self._up is None:
            self._up = Gauge(
                "lakehouse_kafka_up", "1 if Kafka has answered the last time, else 0.", registry=self.registry
            )
        self._up.set(is_up)

    def note_lag(self, waiting: Lag) -> None:
        """Note how many records wait in Kafka, by topic and partition."""
        for topic, partition in self._waiting - waiting.keys():
            self._lag.remove(topic, str(partition))  # the topic is gone
        for (topic, partition), records in waiting.items():
            self._lag.labels(topic, str(partition)).set(records)
        self._waiting = set(waiting)

    def note_failure(self, part: str) -> None:
        """Count a part, one of `WATCHED_PARTS`, that could not be looked at."""
        self._watch_failures.labels(part).inc()

    def note_look(self) -> None:
        """Note the end of a look, whether or not all of it could be read."""
        self._looked_at.set_to_current_time()

    def parts(self) -> Iterator[tuple[str, str, Callable[[], None]]]:
        """Yield what is read of the lake at a look: its part, its name there, and the function that reads it.

        Each function may raise StorageError, and what a store raises; the others can be called all the same.
        """
        yield "bronze", "", self._read_bronze
        for table in self._app.tables:
            yield "table", table.name, partial(self._read_table, table)
        yield "quarantine", "", self._read_quarantines

    def set_rules(self, unmet_by_place: Mapping[tuple[str, str], bool]) -> None:
        """Note which rules about tables as a whole do not hold, by table and name."""
        for (table, rule), is_unmet in unmet_by_place.items():
            self._rules.labels(table, rule).set(is_unmet)

    def _read_bronze(self) -> None:
        self._coverage = None
        self._coverage = reader.read_bronze_coverage(self._layout)
        self._tick.set(self._coverage.tick)

    def _read_table(self, table: Table) -> None:
        late_counts = late_records.count_late_records(self._layout, [table.name])
        self._late.labels(table.name).set(late_counts[table.name])
        if not is_table(self._layout.silver(table.name)):
            return
        table_facts = reader.read_table_facts(self._layout, "silver", table.name)
        self._rows.labels(table.name).set(table_facts.rows)
        self._table_tick.labels(table.name).set(table_facts.tick or 0)
        self._commit.labels(table.name).set((table_facts.last_commit_ms or 0) / 1000)
        place, newest = state_place(self._layout, table), self._newest(table)
        log = open_log(place.path, newest)
        for log_version in range(self._read_to[table.name] + 1, newest + 1):
            metadata = commit.metadata if (commit := log.commit_at(log_version)) is not None else None
            if metadata and metadata.app == app_id(place.name) and isinstance(metadata.content, TableCommit):
                self._table_records.labels(table.name).inc(metadata.content.counts.records)
                self._null_keys.labels(table.name).inc(metadata.content.counts.null_keys)
            self._read_to[table.name] = log_version  # if a later version can't be read, this one counts once
        if self._coverage is None:
            return  # bronze could not be read
        behind = measure_behind(self._layout, self._coverage, table.name, table.stream.topics, table_facts.tick or 0)
        self._behind_records.labels(table.name).set(behind.records)
        self._behind_seconds.labels(table.name).set(behind.seconds(time.time() * 1000))

    def _read_quarantines(self) -> None:
        """Read how many records are in the quarantine of each stream: 0 where there is no quarantine yet."""
        streams = {source.name for source in self._app.sources}
        present_streams = streams & set(reader.table_names(self._layout, "quarantine"))
        record_counts = dict.fromkeys(streams, 0) | reader.count_quarantined(self._layout, present_streams)
        for stream, record_count in record_counts.items():
            self._quarantined.labels(stream).set(record_count)
        judging = {source.name: source.judged_expectations for source in self._app.sources}
        refused_counts = {(name, item.name): 0 for name, items in judging.items() for item in items}
        judged_streams = {name for name, items in judging.items() if items} & present_streams
        refused_counts |= {
            (refused.stream, refused.expectation): refused.records
            for refused in count_refused(self._layout, judged_streams)
        }
        for (stream, expectation), record_count in refused_counts.items():
            self._refused.labels(stream, expectation).set(record_count)

    def _newest(self, table: Table) -> int:
        """Return the newest version of a table's state; -1 if there is none yet."""
        path = state_place(self._layout, table).path
        if not is_table(path):
            return -1
        return reader.open_table(path, f"table {table.name!r}").version()


def _functions_of(table: Table) -> list[str]:
    """Return the names that the user's functions of a table have if they fail on records."""
    maps = [
        f"map {step.name}" for stream in streams_within(table.stream) for step in stream.steps if isinstance(step, Map)
    ]
    folded = [f"{item.kind} {item.name}" for item in table.fold.aggregations if item.kind in FUNCTION_KINDS]
    return list(dict.fromkeys([*maps, *folded]))


def _warnings_of(table: Table) -> list[str]:
    """Return the names of the expectations that only warn: of the records that a table takes in, and of its rows."""
    of_records = [source.counted_name(item) for source in table.stream.decodes for item in source.warning_expectations]
    of_records += [judge.name for judge in judges_of(table.stream) if judge.expectation.otherwise == "warn"]
    of_rows = [f"{table.name}.{item.name}{OF_ROWS}" for item in table.expectations if item.otherwise == "warn"]
    return of_records + of_rows


@contextmanager
def serve_metrics(settings: Settings, app: App, port: int) -> Iterator[RunMetrics]:
    """Serve metrics of a run at a port while it lasts. Raises ConfigError if the port can't be used."""
    host = settings.metrics.host
    metrics = RunMetrics(app, Layout(settings.lake.path))
    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as error:
        raise ConfigError(
            f"metrics.port: {host}:{port} can't be listened on: {error.strerror}. Set another port, for example in "
            "the environment: LAKEHOUSE_METRICS_PORT."
        ) from error
    try:
        yield metrics
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
