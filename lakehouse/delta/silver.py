"""The writer of one silver table: lease, epoch, and one numbered commit a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.delta import bronze, fold, interventions, late, past, quarantine, tables, travel, visible
from lakehouse.delta.aggregates import Form, in_sql
from lakehouse.delta.bounds import Held, held
from lakehouse.delta.interventions import Decision
from lakehouse.delta.layout import Layout
from lakehouse.delta.lease import Lease
from lakehouse.delta.merge import merge
from lakehouse.delta.moments import Past, built
from lakehouse.delta.transaction import Numbered, append_nothing, open_epoch, read_progress
from lakehouse.errors import PlanError
from lakehouse.plan.app import App
from lakehouse.plan.change import DECLARATION, declared
from lakehouse.plan.step import Source
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import Progress


def own_topics(app: App) -> list[str]:
    """Return the topics that the application gives a physical bronze table of their own."""
    return sorted({source.topic for source in app.sources if source.own_table})


class SilverWriter:
    """Keeps one table. Use as a context manager: entering takes the lease and opens an epoch.

    `applied` may be ahead of the last commit, over ticks that held nothing for this table.
    """

    def __init__(self, spark: SparkSession, layout: Layout, table: Table, run: str) -> None:
        # A session of its own: the number of a commit is a setting of the session that writes it.
        self._spark = spark.newSession()
        self._layout, self._run = layout, run
        self.table = table
        self._seen, self._kept = tables.visible(layout, table), tables.state(layout, table)
        self._lease = Lease(layout.lease(f"silver-{table.name}"), f"table {table.name!r}")
        self.applied = 0

    def __enter__(self) -> SilverWriter:
        self._lease.acquire()
        try:
            self._decisions = interventions.of(self._spark, self._layout, self.table.name)
            tables.create(self._spark, self._layout, self.table, swapped=self._to_be_swapped())
            kept = open_epoch(self._spark, self._kept.path, self._kept.name)
            self._epoch, self.applied = kept.epoch, kept.tick
            self._forms = tables.forms(self._spark, self.table)
            self._skip = tables.skipped_offsets(self._spark, self._layout, self.table)
            self._clock = past.clock_at(self._spark, self._layout, self.table, self.applied)
            self._through = past.through_at(self._spark, self._layout, self.table, self.applied)
            self._emitted: int | None = None
            if self.table.has_state:
                seen = open_epoch(self._spark, self._seen.path, self._seen.name)
                self._seen_epoch, self._seen_tick = seen.epoch, seen.tick
                self._show(self.applied)
        except BaseException:
            self._lease.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lease.release()

    def apply(self, to: int, quarantine_bad: Callable[[Source, int], None]) -> int:
        """Take in the ticks up to `to`; return the number of records seen. `quarantine_bad(source, to)` comes first."""
        records = 0
        if interventions.decided(self._spark, self._layout) > self.applied:
            self._decisions = interventions.of(self._spark, self._layout, self.table.name)
        for at in self._decisions:
            if self.applied < at.at <= to:
                records += self._take_in(at.at - 1, quarantine_bad)
                self._decide(at)
        return records + self._take_in(to, quarantine_bad)

    def _take_in(self, to: int, quarantine_bad: Callable[[Source, int], None]) -> int:
        if to <= self.applied:
            return 0
        arrived = past.arrived(self._spark, self._layout, self.table, self.applied, to, self._skip)
        rows = partial(travel.read_version, self._spark, self._kept.path)
        folded = fold.fold(self.table, self._forms, arrived, rows, self._clock, self._emitted)
        try:
            for source in folded.bad:
                quarantine_bad(source, to)
            if folded.late and folded.late_rows is not None:
                late.write(self._spark, self._layout, self.table, folded.late_rows, to)
            if folded.records:
                self._keep(folded, to)
        finally:
            folded.release()
        if folded.records and self.table.has_state:
            self._show(to)
        self.applied = to
        return folded.records

    def _keep(self, folded: fold.Folded, to: int) -> None:
        forms = self._forms if in_sql(self.table) else None
        first, last = folded.times or (None, None)
        through = max((time for time in (self._through, last) if time is not None), default=None)
        said = {**folded.counts(), "times": {"first": first, "last": last, "through": through}}
        self._commit(self._kept, Progress(self._epoch, to), self.applied, said, folded.batch, forms)
        self._clock, self._through = folded.clock, through

    def _commit(
        self,
        place: tables.Place,
        target: Progress,
        after: int,
        said: dict[str, Any],
        batch: Held | None,
        forms: list[Form] | None = None,
        *,
        fresh: bool = False,
        decided: bool = False,
    ) -> None:
        """Bring one of the table's two places from tick `after` to a progress, in one commit; `said`: what it says."""
        metadata = {"from_tick": after, "run": self._run, **said}
        if batch is None or batch.count == 0:
            # Records came and none touched a row: the table still says how far it is.
            append_nothing(self._spark, place.path, place.name, target, metadata)
        else:
            with Numbered(self._spark, place.path, place.name, target, metadata):
                merge(self._spark, place.path, self.table, batch, forms, fresh=fresh, decided=decided)

    def _decide(self, at: Decision) -> None:
        """Apply an intervention, the next one. A swap, or a revert, opens the next epoch."""
        if at.kind == "swap" and at.details["declaration"] != declared(self.table)[DECLARATION]:
            raise PlanError(
                f"table {self.table.name!r} is to be swapped for one under another declaration, at tick {at.at}. Run "
                "the application that declares it."
            )
        if at.kind in ("swap", "revert"):
            self._epoch = open_epoch(self._spark, self._kept.path, self._kept.name).epoch
        if at.kind == "swap":
            # Other logic may have another clock, and other times.
            place = built(self._spark, self._layout, self.table, at)
            self._clock = past.clock_at(self._spark, place, self.table, at.at - 1)
            known = (self._through, past.through_at(self._spark, place, self.table, at.at - 1))
            self._through = max((time for time in known if time is not None), default=None)
        made = Past(self._spark, self._layout, self.table).changed(at, seen=False)
        batch = held(made, self.table.key)
        try:
            said: dict[str, Any] = {"operation": at.kind, "records": 0, "keys": batch.count}
            said["times"] = {"first": None, "last": None, "through": self._through}
            if self._clock is not None:
                said["clock"] = self._clock.metadata()
            self._commit(self._kept, Progress(self._epoch, at.at), self.applied, said, batch, decided=True)
        finally:
            batch.frame.unpersist()
        self.applied = at.at
        if self.table.has_state:
            self._show(at.at)

    def _to_be_swapped(self) -> bool:
        """Whether a swap to the present declaration was decided, and is still to come."""
        if not tables.exists(self._spark, self._kept.path):
            return False
        done = read_progress(self._spark, self._kept.path, self._kept.name).tick
        mine = declared(self.table)[DECLARATION]
        return any(at.kind == "swap" and at.at > done and at.details["declaration"] == mine for at in self._decisions)

    def _show(self, to: int) -> None:
        """Bring what people see to a tick that the state has."""
        if to > self._seen_tick:
            decided = any(self._seen_tick < at.at <= to for at in self._decisions)
            # Final results appear once: their keys are new, unless somebody corrected them.
            fresh = self.table.is_final and self.table.retention is None and not decided
            made = visible.changed(
                self._spark, self._layout, self.table, self._seen_tick, to, self._clock, decided=decided
            )
            batch = held(made, self.table.key)
            try:
                target, said = Progress(self._seen_epoch, to), {"keys": batch.count}
                self._commit(self._seen, target, self._seen_tick, said, batch, fresh=fresh)
            finally:
                batch.frame.unpersist()
            self._seen_tick = to
        self._emitted = self._clock.watermark if self._clock is not None else None


class Quarantine:
    """Writes the bad records of the streams, once for all tables that read a stream. A context manager.

    A stream's name belongs to one running application: its quarantine has a lease, as a table has.
    """

    def __init__(self, spark: SparkSession, layout: Layout, app: App, writers: list[SilverWriter]) -> None:
        self._spark = spark.newSession()
        self._layout, self._own = layout, own_topics(app)
        self._writers = writers
        self._sources = app.sources
        self._lock = threading.Lock()
        self._leases = ExitStack()

    def __enter__(self) -> Quarantine:
        with ExitStack() as stack:
            for source in self._sources:
                stack.enter_context(
                    Lease(self._layout.lease(f"stream-{source.name}"), f"the quarantine of stream {source.name!r}")
                )
                quarantine.create(self._spark, self._layout, source)
            self._leases = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leases.close()

    def write(self, source: Source, to: int) -> None:
        """Write the stream's bad records up to tick `to`: from the first that one of its tables still lacks."""
        lagging = [w for w in self._writers if source in w.table.stream.sources]
        after = min(writer.applied for writer in lagging)
        rows = bronze.records(self._spark, self._layout, [source.topic], self._own)
        with self._lock:
            quarantine.write(self._spark, self._layout, source, rows, after, to)


def latest_complete_tick(spark: SparkSession, layout: Layout) -> int:
    """Return bronze's last complete tick."""
    return read_progress(spark, layout.records, bronze.NAME).tick
