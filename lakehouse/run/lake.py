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
from lakehouse.semantics.moment import Clock
from lakehouse.semantics.moment import at as moment_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.run.correct import Corrected
    from lakehouse.run.job import Listen, Part
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
        self, table: Table, *, version: int | None = None, tick: int | None = None, hidden: bool = False
    ) -> DataFrame:
        """Return a table's rows now, at a version, or at a tick; `hidden` adds lakehouse's own columns.

        All tables read at one tick are consistent with each other: see `tick`. Raises NotFound for a moment that can't
        be had.
        """
        from lakehouse.delta import travel
        from lakehouse.delta.layout import Layout

        if version is not None and tick is not None:
            raise ConfigError(f"read: version={version} and tick={tick}; expected one of them.")
        layout = Layout(self.settings.lake.path)
        if tick is not None:
            version = travel.version_at_tick(self.spark, layout, table, tick)
        frame = travel.read_version(self.spark, layout.silver(table.name), version)
        return frame if hidden else frame.select(*[name for name in frame.columns if not name.startswith("_")])

    def tick(self, *tables: Table) -> int:
        """Return the last tick that all of these tables have taken in."""
        from lakehouse.delta import travel
        from lakehouse.delta.layout import Layout

        return travel.common_tick(self.spark, Layout(self.settings.lake.path), tables)

    def changes(
        self, table: Table, *, after: int = 0, to: int | None = None, net: bool = False, key: str | None = None
    ) -> DataFrame:
        """Return a table's changelog of the ticks in (after, to], in order: per event, or net per commit.

        key: one key's changes only, by its text; columns of a key of several are joined by commas. Columns: the
        table's, and `_tombstone`, `_event_time_ms`, `_position` of the record that caused the change.
        """
        from lakehouse.delta import changefeed
        from lakehouse.delta.layout import Layout

        layout = Layout(self.settings.lake.path)
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
        from lakehouse.delta.layout import Layout
        from lakehouse.run.correct import correct

        return correct(
            self.spark, Layout(self.settings.lake.path), app, table,
            key=key, start=start, end=end, reason=reason, dry_run=dry_run,
        )  # fmt: skip

    def restore(self, table: Table, topic: str) -> int:
        """Make a table from its published changelog; return its rows. Running its application goes on from there."""
        from lakehouse.delta.layout import Layout
        from lakehouse.run.kafka import kafka
        from lakehouse.run.restore import restore

        with kafka(self.settings) as servers:
            return restore(
                self.spark, Layout(self.settings.lake.path), servers, self.settings.kafka.options, table, topic
            )

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
        from lakehouse.delta.layout import Layout
        from lakehouse.plan.schema import check_topic
        from lakehouse.run.kafka import kafka
        from lakehouse.run.rehydrate import rehydrate

        layout = Layout(self.settings.lake.path)
        when = moment_of(at, clock=clock, tick=tick, offsets=offsets)
        check_topic(to)
        source = BronzeRows(layout, check_topic(topic), when, from_tick)
        with kafka(self.settings) as servers:
            return rehydrate(
                layout, servers, self.settings.kafka.options, source, to, partitions=partitions, append=append,
                positions=positions, listen=listen,
            )  # fmt: skip
