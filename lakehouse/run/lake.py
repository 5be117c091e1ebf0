"""The lake: what an application runs on, and what its tables are read from. Spark starts when something needs it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lakehouse.config import PREFIX, Settings, load
from lakehouse.errors import ConfigError, NotFound
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import At, Clock
from lakehouse.semantics.moment import at as moment_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.delta.content import Content
    from lakehouse.delta.layout import Layout
    from lakehouse.run.backfill import Backfilled, Progress, Range
    from lakehouse.run.correct import Corrected
    from lakehouse.run.explained import Explained
    from lakehouse.run.job import Listen, Part
    from lakehouse.run.rebuild import Backtested, Origin, Proof
    from lakehouse.run.rehydrate import Rehydrated

CAUGHT_UP = ("caught_up", "caught-up")


class Lake:
    """A lake, by its settings: a file, lakehouse.toml of the current folder, or defaults with another path.

    Raises ConfigError for settings that can't be used.
    """

    def __init__(
        self, path: str | Path | None = None, *, config: str | Path | None = None, settings: Settings | None = None
    ) -> None:
        if settings is None:
            environ = dict(os.environ)
            if path is not None:
                # As a variable, so that what lies beside the lake by default (the broker's folder) follows it.
                environ[f"{PREFIX}LAKE_PATH"] = (
                    str(path) if "://" in str(path) else str(Path(path).expanduser().resolve())
                )
            settings = load(Path(config) if config is not None else None, environ)
        elif path is not None or config is not None:
            raise ConfigError("Lake: found settings beside a path or a config; expected either.")
        self.settings = settings

    @property
    def spark(self) -> SparkSession:
        """The Spark session; started on the first use."""
        from lakehouse.delta.session import open_session

        return open_session(self.settings)

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

        parts: ("ingest",), ("silver",), or both, which is the default. listen: is told of every tick, batch and
        publication. Raises PlanError, before anything runs, for tables that can't go on as they are declared now; later
        what stopped it: DataLoss, LeaseHeld, Fenced, NotFound, KafkaUnavailable, JobFailed.
        """
        from lakehouse.run import changing, leases
        from lakehouse.run.job import PARTS, Job
        from lakehouse.run.kafka import kafka

        if until is not None and until not in CAUGHT_UP:
            raise ConfigError(f'until={until!r}: expected "caught_up", or nothing to keep running.')
        changing.check(self.settings, app, parts)
        leases.check(self.settings, app, parts or PARTS)
        with kafka(self.settings) as servers:
            job = Job(self.spark, self.settings, app, servers, listen)
            if until is not None:
                job.until_caught_up(parts or PARTS)
            else:
                job.until_stopped(stop or threading.Event(), parts or PARTS)

    def read(
        self,
        table: Table,
        *,
        at: At | str | datetime | date | None = None,
        clock: Clock = "event",
        version: int | None = None,
        tick: int | None = None,
        offsets: str | Mapping[str, Mapping[int, int]] | None = None,
        hidden: bool = False,
    ) -> DataFrame:
        """Return a table's rows now, or at a moment; `hidden` adds lakehouse's own columns.

        at: an event time ("the world then"), or a commit time ("what we knew then") with clock="commit"; or a moment of
        `lakehouse.semantics.moment`. version: of the Delta table. tick: all tables read at one tick are consistent with
        each other, see `tick`. offsets: the first that do not count, {topic: {partition: offset}} or
        "topic/partition=offset,...". Raises NotFound for a moment that can't be had, ConfigError for one that is none.
        """
        from lakehouse.delta import reading

        meant = at if isinstance(at, At) else moment_of(at, clock=clock, version=version, tick=tick, offsets=offsets)
        frame = reading.read(self.spark, self._layout, table, meant)
        return frame if hidden else frame.select(*[name for name in frame.columns if not name.startswith("_")])

    def tick(self, *tables: Table) -> int:
        """Return the last tick that all of these tables have taken in."""
        from lakehouse.delta import travel

        return travel.common_tick(self.spark, self._layout, tables)

    def changes(
        self, table: Table, *, after: int = 0, to: int | None = None, net: bool = False, key: str | None = None
    ) -> DataFrame:
        """Return a table's changelog of the ticks in (after, to], in order: per event, or net per commit.

        key: one key's changes only, by its text; columns of a key of several are joined by commas. Columns: the
        table's, and `_tombstone`, `_event_time_ms`, `_position` of the record that caused the change.
        """
        from lakehouse.delta import changefeed

        layout = self._layout
        last = self.tick(table)
        if to is not None and to > last:
            raise NotFound(
                f"changes: to={to}, but table {table.name!r} has taken in tick {last}, no more. Run its application."
            )
        to = last if to is None else to
        if net:
            frame = changefeed.net(self.spark, layout, table, after, to)
        else:
            frame = changefeed.per_event(self.spark, layout, table, after, to)
        return frame if key is None else changefeed.of_key(frame, table, key)

    def explain(
        self,
        table: Table,
        key: str,
        at: At | str | datetime | date | None = None,
        *,
        listen: Callable[[int], None] = lambda records: None,
    ) -> list[Explained]:
        """Return the records behind a key's row (a windowed key: behind each of its rows), folded step by step.

        key: its text; columns of a key of several are joined by commas, the window is left out. at: a moment of
        `lakehouse.semantics.moment`, or an event time; now if left out. listen: is told how many records of
        bronze were read. See `lakehouse.run.explain`. Raises NotFound, ConfigError.
        """
        from lakehouse.run.explain import explain

        return explain(self, self._layout, table, key, at if isinstance(at, At) else moment_of(at), listen)

    def correct(
        self,
        app: App,
        table: Table,
        *,
        key: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> Corrected:
        """Take late records of a windowed table in after all: of one key, of windows that begin in [start, end).

        The windows are refolded with them, as an intervention at a tick of its own; the next run publishes the changes.
        See `lakehouse.run.correct`. Raises PlanError, NotFound, LeaseHeld.
        """
        from lakehouse.run.correct import correct

        return correct(
            self.spark, self._layout, app, table,
            key=key, start=start, end=end, reason=reason, dry_run=dry_run,
        )  # fmt: skip

    def backfill(
        self,
        app: App,
        table: Table,
        *,
        of: Range | None = None,
        reason: str = "",
        dry_run: bool = False,
        listen: Progress | None = None,
    ) -> Backfilled:
        """Make a table's rows anew from bronze: those that a range of records touches, or all, with new logic too.

        The live job goes on. dry_run: only say what would change. listen: is told of the phase, and of the records done
        of all. See `lakehouse.run.backfill`. Raises PlanError for a declaration that the table can't take, LeaseHeld
        where another backfill, or a job with another declaration, holds it.
        """
        from lakehouse.run import backfill

        if of is not None:
            return backfill.backfill_range(self.spark, self._layout, app, table, of, reason=reason, dry_run=dry_run)
        return backfill.backfill(
            self.spark, self._layout, app, table,
            reason=reason, dry_run=dry_run, listen=listen or backfill.silent,
        )  # fmt: skip

    def revert(self, app: App, table: Table, at: At, *, reason: str = "", dry_run: bool = False) -> Backfilled:
        """Make the live table what it was at a moment; its job goes on from there. Raises NotFound, ConfigError."""
        from lakehouse.delta import reading
        from lakehouse.run.backfill import revert

        cut = reading.cut(self.spark, self._layout, table, at)
        version = reading.version_meant(self.spark, self._layout, table, at)
        return revert(self.spark, self._layout, app, table, cut, version=version, reason=reason, dry_run=dry_run)

    def checkout(self, table: Table, name: str, at: At | None = None) -> Content:
        """Make a new table of what people see of a table at a moment; return its row count and hash."""
        from lakehouse.run.rebuild import checkout

        return checkout(self.spark, self._layout, table, name, at)

    def rebuild(
        self, table: Table, name: str, origin: Origin, at: At | None = None, *, topic: str | None = None
    ) -> Content:
        """Make a new table of a table at a moment from one origin: "version", "bronze" or "changelog" (of `topic`)."""
        from lakehouse.run.kafka import kafka
        from lakehouse.run.rebuild import rebuild

        if topic is None:
            return rebuild(self.spark, self._layout, table, name, origin, at)
        with kafka(self.settings) as servers:
            return rebuild(
                self.spark, self._layout, table, name, origin, at, topic, (servers, self.settings.kafka.options)
            )

    def prove(self, table: Table, at: At | None = None, *, topic: str | None = None) -> list[Proof]:
        """Rebuild a table at a moment in every way that there is, into tables that are removed: are they equal?"""
        from lakehouse.run.kafka import kafka
        from lakehouse.run.rebuild import prove

        if topic is None:
            return prove(self.spark, self._layout, table, at)
        with kafka(self.settings) as servers:
            return prove(self.spark, self._layout, table, at, topic, (servers, self.settings.kafka.options))

    def backtest(
        self, table: Table, other: Table, *, to: int | None = None, listen: Progress | None = None
    ) -> Backtested:
        """Fold the same records under two declarations of a table, up to a tick; the live table is not touched."""
        from lakehouse.run import backfill
        from lakehouse.run.rebuild import backtest

        return backtest(self.spark, self._layout, table, other, to=to, listen=listen or backfill.silent)

    @property
    def _layout(self) -> Layout:
        from lakehouse.delta.layout import Layout

        return Layout(self.settings.lake.path)

    def restore(self, table: Table, topic: str) -> int:
        """Make a table from its published changelog; return its rows. Running its application goes on from there."""
        from lakehouse.run.kafka import kafka
        from lakehouse.run.restore import restore

        with kafka(self.settings) as servers:
            return restore(self.spark, self._layout, servers, self.settings.kafka.options, table, topic)

    def rehydrate(
        self,
        topic: str,
        to: str,
        *,
        at: str | datetime | date | None = None,
        clock: Clock = "event",
        tick: int | None = None,
        offsets: str | Mapping[str, Mapping[int, int]] | None = None,
        from_tick: int | None = None,
        partitions: int | None = None,
        append: bool = False,
        positions: bool = False,
        listen: Callable[[int, int], None] = lambda done, total: None,
    ) -> Rehydrated:
        """Write a topic's records in bronze back into a Kafka topic, up to a moment; without Spark.

        at, clock, tick, offsets: the moment, see `lakehouse.semantics.moment.at`. from_tick: records from this tick on.
        The rest: see `lakehouse.run.rehydrate`. Run again, it goes on where it ended. Raises ConfigError, NotFound,
        LeaseHeld, KafkaUnavailable.
        """
        from lakehouse.delta.bronze_rows import BronzeRows
        from lakehouse.plan.schema import check_topic
        from lakehouse.run.kafka import kafka
        from lakehouse.run.rehydrate import rehydrate

        when = moment_of(at, clock=clock, tick=tick, offsets=offsets)
        check_topic(to)
        source = BronzeRows(self._layout, check_topic(topic), when, from_tick)
        with kafka(self.settings) as servers:
            return rehydrate(
                self._layout, servers, self.settings.kafka.options, source, to, partitions=partitions, append=append,
                positions=positions, listen=listen,
            )  # fmt: skip
