"""The lake: it runs applications, and reads their tables. Spark starts when something needs it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING, Literal

from lakehouse.errors import ConfigError, NotFound
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.erase.erasures import Erasures
from lakehouse.semantics.difference import Difference
from lakehouse.semantics.moment import At, AtOffsets, Offsets
from lakehouse.semantics.time.named_moment import ClockName, FindSource, as_moment, moment_of, refuse_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.lake.moment.answer import QueryAnswer
    from lakehouse.lake.moment.rows_at import FoldRows
    from lakehouse.run.audit.finding import Audit
    from lakehouse.run.explain.explanation import Explained
    from lakehouse.run.job.job import Part
    from lakehouse.run.watch.event import Listen

CAUGHT_UP = ("caught_up", "caught-up")


class Lake(Erasures):
    """A lake, by its settings: a file, lakehouse.toml of the current folder, or defaults with another path.

    Raises ConfigError for settings that can't be used.
    """

    def run(
        self,
        app: App,
        *,
        until: Literal["caught_up"] | None = None,
        parts: tuple[Part, ...] | None = None,
        stop: threading.Event | None = None,
        listen: Listen = lambda event: None,
    ) -> None:
        """Run an application: until="caught_up" with what Kafka has now, or until `stop` is set.

        parts: ("ingest",), ("silver",), or both, which is the default. listen: called with every tick, batch and
        publication; without `until` also with the records that wait in Kafka, and then `[metrics] port` serves
        metrics. With `until` a notebook shows a bar. Raises PlanError, before anything runs, for tables that can't go
        on as they are declared now; also ConfigError for folders that can't be written, LeaseHeld, KafkaUnavailable,
        NotFound for a topic; later the error that stopped it: DataLoss, Fenced, JobFailed.
        """
        from lakehouse.run.job.job import PARTS, Job
        from lakehouse.run.start import cheap_checks, topics
        from lakehouse.run.start.kafka import open_kafka
        from lakehouse.run.watch.lineage import report_lineage
        from lakehouse.run.watch.progress import show_in_notebook
        from lakehouse.run.watch.watching import watch_run
        from lakehouse.spark.jvm.failure import explain_ended_spark

        if until is not None and until not in CAUGHT_UP:
            raise ConfigError(f'until={until!r}: expected "caught_up", or nothing to keep running.')
        cheap_checks.check_before_run(self.settings, app, parts)
        with open_kafka(self.settings) as servers:
            if parts is None or "ingest" in parts:
                topics.check_topics(self.settings, app, servers)
            lineage_app = app if parts is None or "silver" in parts else App((), ())
            with (
                report_lineage(self.settings, lineage_app, servers, listen, streaming=until is None),
                explain_ended_spark(),
            ):
                if until is not None:
                    with show_in_notebook(self.settings, app, servers, listen) as listener:
                        Job(self.spark, self.settings, app, servers, listener).until_caught_up(parts or PARTS)
                    return
                with watch_run(self.settings, app, servers, listen) as listener:
                    job = Job(self.spark, self.settings, app, servers, listener)
                    job.until_stopped(stop or threading.Event(), parts or PARTS)

    def read(
        self,
        table: Table,
        *,
        at: At | str | datetime | date | None = None,
        clock: ClockName = "event",
        version: int | None = None,
        tick: int | None = None,
        offsets: str | Offsets | None = None,
        hidden: bool = False,
    ) -> DataFrame:
        """Return a table's rows now, or at a moment; `hidden` adds lakehouse's own columns.

        at: an event time ("the world then"), or a commit time ("what we knew then") with clock="commit"; a position of
        the database behind the table, "source:16/B374D848", see `source_moment`; or a moment of
        `lakehouse.semantics.moment`. version: of the Delta table. tick: all tables read at one tick are consistent
        with each other, see `tick`. offsets: the first offsets that do not count, {topic: {partition: offset}} or
        "topic/partition=offset,...". Raises NotFound for a moment that is not available, ConfigError for an invalid
        one.
        """
        self._check_is_table(table)
        moment = (
            at
            if isinstance(at, At)
            else moment_of(
                at,
                clock=clock,
                version=version,
                tick=tick,
                offsets=offsets,
                find_source=self._find_source(table),
            )
        )
        if moment is None:
            self._check(table)
        from lakehouse.lake.erasure.erased_past import erased_since
        from lakehouse.spark.history import reading

        table_rows = reading.read_rows(self._lake.open(table), moment)
        if sentence := erased_since(self._layout, moment, table.name):
            warnings.warn(sentence, stacklevel=2)
        return (
            table_rows
            if hidden
            else table_rows.select(*[name for name in table_rows.columns if not name.startswith("_")])
        )

    def query(
        self,
        sql: str,
        *,
        at: At | str | datetime | date | None = None,
        clock: ClockName = "event",
        tick: int | None = None,
        app: App | None = None,
    ) -> QueryAnswer:
        """Answer one SELECT of DuckDB's SQL over the lake, now or at a moment, without Spark.

        Tables are named as `lakehouse query` names them: totals, bronze.orders, quarantine.orders. at, clock, tick: see
        `read`. app: with it, Spark folds tables at moments between their versions, and finds positions of databases.
        Raises ConfigError for SQL that can't be answered, NotFound for a table, or a moment, that is not available.
        """
        from lakehouse.lake.erasure.erased_past import erased_since
        from lakehouse.lake.moment.answer import answer_query

        moment = at if isinstance(at, At) else moment_of(at, clock=clock, tick=tick, find_source=self._find_source(app))
        answer = answer_query(self._layout, sql, moment, None if app is None else self.fold_rows(app.table))
        if sentence := erased_since(self._layout, moment):
            warnings.warn(sentence, stacklevel=2)
        return answer

    def diff(
        self, table: Table, before: At | str, after: At | str = "now", *, key: str | None = None, limit: int = 100
    ) -> Difference:
        """Compare a table at two moments: return the keys added, removed and changed, the first `limit` of them.

        before, after: a moment, or its text as `lakehouse past diff` takes it: "tick:7", a version, a time, "now". key:
        compares this key alone. Spark starts only for a moment between versions. Raises NotFound, ConfigError.
        """
        from lakehouse.lake.moment.rows_at import snapshot
        from lakehouse.lake.row.difference import difference

        self._check(table)
        find_source = self._find_source(table)
        sides = (as_moment(moment, find_source) for moment in (before, after))
        rows_before, rows_after = (
            snapshot(self._layout, table.name, moment, self.fold_rows(lambda name: table)) for moment in sides
        )
        return difference(rows_before, rows_after, key=key, limit=limit)

    def fold_rows(self, find_table: Callable[[str], Table]) -> FoldRows:
        """Return the function by which Spark folds a table at a moment between its versions."""
        from lakehouse.spark.history import reading

        return lambda name, moment: reading.read_rows(self._lake.open(find_table(name)), moment).toArrow()

    def source_moment(self, position: str, *tables: Table) -> AtOffsets:
        """Return the offsets at which tables are as their database was at a position of its log.

        position: as the database shows it, "16/B374D848" of PostgreSQL, see `lakehouse.plan.databases.log_position`.
        tables: of change logs of Debezium; read at the moment, all of them are consistent with each other. The more
        tables, the more is known about commits. Raises NotFound for a position that the lake can't tell, ConfigError
        for an impossible one, for tables of several databases, and for those without one.
        """
        from lakehouse.plan.databases.debezium import list_change_logs
        from lakehouse.spark.history.database_position import offsets_at_position
        from lakehouse.spark.table import timelines

        change_logs, open_lake = list_change_logs(tables), self._lake
        existing_tables = [table for table in tables if open_lake.exists(open_lake.layout.silver(table.name))]
        return offsets_at_position(open_lake, change_logs, position, timelines.common_tick(open_lake, existing_tables))

    def _find_source(self, reader: App | Table | None) -> FindSource:
        """Return the function that finds positions of the database behind an application, or a table."""
        if reader is None:
            return refuse_source
        tables = reader.tables if isinstance(reader, App) else (reader,)
        return lambda position: self.source_moment(position, *tables)

    def tick(self, *tables: Table) -> int:
        """Return the last tick that all of these tables have taken in."""
        self._check_is_table(*tables)
        from lakehouse.spark.table import timelines

        return timelines.common_tick(self._lake, tables)

    def changes(
        self, table: Table, *, after: int = 0, to: int | None = None, net: bool = False, key: str | None = None
    ) -> DataFrame:
        """Return a table's changelog of the ticks in (after, to], in order: per event, or net per commit.

        key: only the changes of this key, by its text, see `lakehouse.formats.key_text`. Columns: the table's, and
        `_tombstone`, `_event_time_ms`, `_position` of the record that caused the change.
        """
        self._check(table)
        from lakehouse.spark.changelog import changefeed
        from lakehouse.spark.changelog.net import net_changes

        open_table = self._lake.open(table)
        last_tick = self.tick(table)
        if to is not None and to > last_tick:
            raise NotFound(
                f"changes: to={to}, but table {table.name!r} has taken in ticks up to {last_tick} only. Run its "
                "application."
            )
        to = last_tick if to is None else to
        changelog_frame = net_changes(open_table, after, to) if net else changefeed.per_event(open_table, after, to)
        return changelog_frame if key is None else changefeed.changes_of_key(changelog_frame, table, key)

    def explain(
        self,
        table: Table,
        key: str,
        at: At | str | datetime | date | None = None,
        *,
        listen: Callable[[int], None] = lambda records: None,
    ) -> list[Explained]:
        """Return the records behind a key's row (for a windowed key: behind each of its rows), folded step by step.

        key: its text without the window, see `lakehouse.formats.key_text`. at: a moment of
        `lakehouse.semantics.moment`, or an event time; now if left out. listen: called with the number of bronze
        records read so far. See `lakehouse.run.explain.explain`. Raises NotFound, ConfigError.
        """
        self._check_is_table(table)
        from lakehouse.run.explain.explain import explain
        from lakehouse.run.explain.explanation import ExplainedRows

        find_source = self._find_source(table)
        moment = at if isinstance(at, At) else moment_of(at, find_source=find_source)
        return ExplainedRows(explain(lambda: self._lake, self._layout, table, key, moment, listen))

    def audit(
        self, app: App, table: Table, *, deep: bool = False, listen: Callable[[str], None] = lambda part: None
    ) -> Audit:
        """Account for every offset that a table has taken in; `ok` says whether all is as it must be.

        deep: refold the table from bronze and compare its rows, too. Kafka, if it runs, explains the offsets that
        bronze lacks. listen: called with the name of each part of the audit. See `lakehouse.run.audit.audit`. Raises
        NotFound, PlanError.
        """
        self._check(table)
        from lakehouse.run.audit.audit import audit
        from lakehouse.run.audit.missing import KafkaAccess
        from lakehouse.run.start.kafka import running_servers

        servers = running_servers(self.settings)
        kafka = KafkaAccess(
            servers, self.settings.kafka.options, "the embedded Kafka does not run (lakehouse kafka up)"
        )
        return audit(self._lake.open(table), app, kafka, deep=deep, listen=listen)
