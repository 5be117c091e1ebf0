"""The metrics of a continuous run for Prometheus: off unless `[metrics] port` is set."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, start_http_server

from lakehouse.errors import ConfigError
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
from lakehouse.plan.table import Table
from lakehouse.run.watch.event import JobEvent
from lakehouse.run.watch.lag import Lag
from lakehouse.settings.config import Settings

# From a batch of a few records to a catch-up of millions.
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 150.0, 600.0)
PARTS = {"tick": "ingest", "batch": "tables", "published": "publish", "upkeep": "upkeep"}


class RunMetrics:
    """The metrics of a run. Call `heard` with its events, `look` with the records that wait; both from any thread.

    Counters begin at 0 with the run; gauges give the present state.
    """

    def __init__(self, app: App, layout: Layout) -> None:
        self._app, self._layout = app, layout
        self.registry = own = CollectorRegistry()
        ProcessCollector(registry=own)
        self._records = Counter("lakehouse_records", "Records taken from Kafka into bronze.", registry=own)
        self._ticks = Counter("lakehouse_ticks", "Ticks that bronze has got.", registry=own)
        self._published = Counter(
            "lakehouse_published_records", "Records written to a changelog's topic.", ["topic"], registry=own
        )
        self._failed = Counter(
            "lakehouse_function_failures", "Records on which a user's function failed.", ["table", "function"],
            registry=own,
        )  # fmt: skip
        self._unmet = Counter(
            "lakehouse_expectation_warnings", "Records that did not meet an expectation that warns.",
            ["table", "expectation"], registry=own,
        )  # fmt: skip
        self._upkeep_failed = Counter("lakehouse_upkeep_failures", "Upkeeps that failed.", registry=own)
        self._seconds = Histogram(
            "lakehouse_batch_seconds", "Seconds of a batch, by its part: ingest, tables, publish, upkeep.", ["part"],
            buckets=BUCKETS, registry=own,
        )  # fmt: skip
        self._up = Gauge("lakehouse_kafka_up", "1 if Kafka has answered the last time, else 0.", registry=own)
        self._lag = Gauge(
            "lakehouse_lag_records", "Records of Kafka that bronze does not have.", ["topic", "partition"],
            registry=own,
        )  # fmt: skip
        self._tick = Gauge("lakehouse_bronze_tick", "Bronze's last tick.", registry=own)
        self._table_tick = Gauge("lakehouse_table_tick", "A table's last tick.", ["table"], registry=own)
        self._behind_records = Gauge(
            "lakehouse_table_behind_records", "Records of bronze that a table has not taken in.", ["table"],
            registry=own,
        )  # fmt: skip
        self._behind_seconds = Gauge(
            "lakehouse_table_behind_seconds", "For how long bronze has had the first of them.", ["table"], registry=own
        )
        self._rows = Gauge("lakehouse_table_rows", "Rows of a table.", ["table"], registry=own)
        self._commit = Gauge(
            "lakehouse_last_commit_timestamp_seconds", "When a table was last committed, since 1970.", ["table"],
            registry=own,
        )  # fmt: skip
        self._quarantined = Gauge(
            "lakehouse_quarantined_records", "Records in the quarantine of a stream.", ["stream"], registry=own
        )
        self._refused = Gauge(
            "lakehouse_expectation_refused_records", "Records in the quarantine that did not meet an expectation.",
            ["stream", "expectation"], registry=own,
        )  # fmt: skip
        self._late = Gauge(
            "lakehouse_late_records", "Records that came too late for a table, and are kept.", ["table"], registry=own
        )
        self._table_records = Counter(
            "lakehouse_table_records", "Records that a table took in.", ["table"], registry=own
        )
        self._null_keys = Counter(
            "lakehouse_null_keys", "Records with a null key, which a table ignored.", ["table"], registry=own
        )
        self._rules = Gauge(
            "lakehouse_rule_unmet", "1 if a rule about a table as a whole does not hold, else 0.",
            ["table", "expectation"], registry=own,
        )  # fmt: skip
        for part in PARTS.values():
            self._seconds.labels(part)
        self._waiting: set[tuple[str, int]] = set()
        self._read_to = {table.name: self._newest(table) for table in app.tables}

    def heard(self, event: JobEvent) -> None:
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

    def look(self, waiting: Lag | None) -> None:
        """Note how many records wait in Kafka, None if it does not answer; and read the tables."""
        self._up.set(waiting is not None)
        if waiting is not None:
            self._wait(waiting)
        coverage = reader.read_bronze_coverage(self._layout)
        self._tick.set(coverage.tick)
        for table in self._app.tables:
            if is_table(self._layout.silver(table.name)):
                self._read_table(table, coverage)
        streams = {source.name for source in self._app.sources} & set(reader.table_names(self._layout, "quarantine"))
        for stream, record_count in reader.count_quarantined(self._layout, streams).items():
            self._quarantined.labels(stream).set(record_count)
        judged_streams = {source.name for source in self._app.sources if source.expectations} & streams
        for refused in count_refused(self._layout, judged_streams):
            self._refused.labels(refused.stream, refused.expectation).set(refused.records)
        for name, record_count in late_records.count_late_records(
            self._layout, [table.name for table in self._app.tables]
        ).items():
            self._late.labels(name).set(record_count)

    def set_rules(self, unmet_by_place: Mapping[tuple[str, str], bool]) -> None:
        """Note which rules about tables as a whole do not hold, by table and name."""
        for (table, rule), is_unmet in unmet_by_place.items():
            self._rules.labels(table, rule).set(is_unmet)

    def _wait(self, waiting: Lag) -> None:
        for topic, partition in self._waiting - waiting.keys():
            self._lag.remove(topic, str(partition))  # the topic is gone
        for (topic, partition), records in waiting.items():
            self._lag.labels(topic, str(partition)).set(records)
        self._waiting = set(waiting)

    def _read_table(self, table: Table, coverage: TickCoverage) -> None:
        table_facts = reader.read_table_facts(self._layout, "silver", table.name)
        self._rows.labels(table.name).set(table_facts.rows)
        self._table_tick.labels(table.name).set(table_facts.tick or 0)
        behind = measure_behind(self._layout, coverage, table.name, table.stream.topics, table_facts.tick or 0)
        self._behind_records.labels(table.name).set(behind.records)
        self._behind_seconds.labels(table.name).set(behind.seconds(time.time() * 1000))
        self._commit.labels(table.name).set((table_facts.last_commit_ms or 0) / 1000)
        place, newest = state_place(self._layout, table), self._newest(table)
        log = open_log(place.path, newest)
        for log_version in range(self._read_to[table.name] + 1, newest + 1):
            metadata = commit.metadata if (commit := log.at(log_version)) is not None else None
            if metadata and metadata.app == app_id(place.name) and isinstance(metadata.content, TableCommit):
                self._table_records.labels(table.name).inc(metadata.content.counts.records)
                self._null_keys.labels(table.name).inc(metadata.content.counts.null_keys)
        self._read_to[table.name] = newest

    def _newest(self, table: Table) -> int:
        """Return the newest version of a table's state; -1 if there is none yet."""
        path = state_place(self._layout, table).path
        if not is_table(path):
            return -1
        return reader.open_table(path, f"table {table.name!r}").version()


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
