"""The writer of one silver table: lease, epoch, and one numbered commit a batch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from lakehouse.errors import LeaseHeld, PlanError
from lakehouse.lake import null_keys
from lakehouse.lake.failed import FAILED, by_log
from lakehouse.lake.layout import Layout
from lakehouse.lake.lease import Lease
from lakehouse.lake.place import TablePlace, late_of
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import DECLARATION, declared
from lakehouse.plan.origin import Source
from lakehouse.semantics.epoch import NO_TICK, Progress
from lakehouse.semantics.failures import Failed, added
from lakehouse.spark import folders
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import Decision
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.operators import fold
from lakehouse.spark.operators.aggregates import Form
from lakehouse.spark.operators.bounds import Held, held
from lakehouse.spark.operators.merge import merge
from lakehouse.spark.operators.shown import expires, is_final
from lakehouse.spark.past import past
from lakehouse.spark.past.moments import Past, built
from lakehouse.spark.silver import visible
from lakehouse.spark.silver.quarantining import Quarantine
from lakehouse.spark.silver.shared import Sharing
from lakehouse.spark.table import counted, late, tables, travel
from lakehouse.spark.table.input import Shared, input_of, waits
from lakehouse.spark.transaction import append_nothing, check_epoch, log_of, numbered, open_epoch


class BadRecords(Protocol):
    """The keeper of the records that a stream's schema refuses."""

    def write(self, source: Source, to: int, shared: Sharing | None = None) -> None:
        """Write the stream's bad records up to tick `to`. shared: what the tables of this batch read."""

    def swap(self, source: Source, built: Layout, to: int) -> None:
        """Replace the stream's bad records with those of a table that was built beside this one, up to tick `to`."""


def own_topics(app: App) -> list[str]:
    """Return the topics that the application gives a physical bronze table of their own."""
    return sorted({source.topic for source in app.sources if source.own_table})


class SilverWriter:
    """Keeps one table. Use as a context manager: entering takes the lease and opens an epoch.

    `applied` may be ahead of the last commit, over ticks that held nothing for this table. `failed`: the functions that
    failed on records since the last call of `Silver.failed`.
    """

    def __init__(self, opened: OpenTable, run: str) -> None:
        # A session of its own: the number of a commit is a setting of the session that writes it.
        self._opened = opened.own_session()
        self._lake, self._spark = self._opened.lake, self._opened.spark
        self._run = run
        self.table = opened.table
        self._visible, self._state = opened.visible, opened.state
        self._lease = Lease(opened.layout.lease(f"silver-{opened.name}"), f"table {opened.name!r}")
        self.applied = 0
        self.failed: tuple[Failed, ...] = ()

    def __enter__(self) -> SilverWriter:
        self._lease.acquire()
        try:
            self._decisions = interventions.of(self._lake, self.table.name)
            tables.create(self._opened, swapped=self._to_be_swapped())
            kept = open_epoch(self._spark, self._state)
            self._epoch, self.applied = kept.epoch, kept.tick
            self._forms = tables.forms(self._spark, self.table)
            self._input = input_of(self._opened)
            self._clock = past.clock_at(self._opened, self.applied)
            self._through = past.through_at(self._opened, self.applied)
            self._failed = by_log(log_of(self._spark, self._state.path), self._state.name)
            self._null_keys = null_keys.by_log(log_of(self._spark, self._state.path), self._state.name)
            self._emitted: int | None = None
            self._late_epoch: int | None = None
            if self._state != self._visible:
                seen = open_epoch(self._spark, self._visible)
                self._visible_epoch, self._visible_tick = seen.epoch, seen.tick
                self._show(self.applied)
        except BaseException:
            self._lease.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lease.release()

    def waits(self, to: int) -> bool:
        """Say whether the table has to wait for records that it covers: see `lakehouse.spark.table.input.waits`."""
        return self.applied == NO_TICK and waits(self._opened, to)

    def in_one_go(self, to: int) -> bool:
        """Say whether all ticks up to `to` would be taken in at once, and all of their records."""
        return to > self.applied and self._input.skip is None and not self._decided(to)

    def apply(self, to: int, bad: BadRecords, shared: Sharing | None = None) -> int:
        """Take in the ticks up to `to`; return the number of records seen. Their bad records are written first.

        shared: what this and other tables read.
        """
        records = 0
        for at in self._decided(to):
            records += self._take_in(at.at - 1, bad, shared)
            self._decide(at, bad)
        return records + self._take_in(to, bad, shared)

    def _decided(self, to: int) -> list[Decision]:
        """The interventions that are not applied yet, up to tick `to`, in their order."""
        if interventions.decided(self._lake) > self.applied:
            self._decisions = interventions.of(self._lake, self.table.name)
        return [at for at in self._decisions if self.applied < at.at <= to]

    def _take_in(self, to: int, bad: BadRecords, shared: Sharing | None) -> int:
        if to <= self.applied:
            return 0
        among = shared.through(self._spark) if shared is not None else None
        stream = partial(replace(self._input, shared=among).judged, self.applied, to)
        rows = partial(self._lake.read, self._state.path)
        folded = fold.fold(self.table, self._forms, stream, rows, self._clock, self._emitted)
        try:
            for source in folded.bad:
                bad.write(source, to, shared)
            if folded.late:
                late.write(self._opened, folded.late_rows, folded.late_joins, self._epoch_of_late(), to)
            # A table that reads others records how far it is, even if none of them changed.
            taken = folded.records > 0 or (
                bool(self.table.stream.tables) and travel.has_rows(self._opened, self.applied, to)
            )
            if taken:
                self._keep(folded, to)
        finally:
            folded.release()
        if taken:
            self._show(to, among)
        self.applied = to
        return folded.records

    def prove(self) -> None:
        """Raise Fenced when another writer has taken the table over."""
        check_epoch(self._spark, self._state, self._epoch)

    def _epoch_of_late(self) -> int:
        """The epoch of the late table, which this writer opens when it first writes into it."""
        if self._late_epoch is None:
            late.create(self._opened)
            self.prove()
            place = late_of(self._opened.layout, self.table.name)
            self._late_epoch = open_epoch(self._spark, place).epoch
        return self._late_epoch

    def _keep(self, folded: fold.Folded, to: int) -> None:
        first, last = folded.times or (None, None)
        through = max((time for time in (self._through, last) if time is not None), default=None)
        failed = added(self._failed, folded.failed)
        so_far = self._null_keys + folded.null_keys
        said = {**folded.counts(), "times": {"first": first, "last": last, "through": through}}
        said |= _so_far(failed, so_far)
        self._commit(self._state, Progress(self._epoch, to), self.applied, said, folded.batch, folded.forms)
        self._clock, self._through, self._failed, self._null_keys = folded.clock, through, failed, so_far
        self.failed = added(self.failed, folded.failed)

    def _commit(
        self,
        place: TablePlace,
        target: Progress,
        after: int,
        said: dict[str, Any],
        batch: Held | None,
        forms: list[Form] | None = None,
        *,
        fresh: bool = False,
        decided: bool = False,
    ) -> None:
        """Bring one of the table's two places from tick `after` to a progress, in one commit. said: its metadata."""
        metadata = {"from_tick": after, "run": self._run, **said}
        if batch is None or batch.count == 0:
            # Records came but none touched a row: the table still records how far it is.
            append_nothing(self._spark, place, target, metadata)
        else:
            with numbered(self._spark, place, target, metadata):
                merge(self._spark, place.path, self.table, batch, forms, fresh=fresh, decided=decided)

    def _decide(self, at: Decision, bad: BadRecords) -> None:
        """Apply an intervention, the next one. A swap, or a revert, opens the next epoch."""
        if at.kind == "swap" and at.details["declaration"] != declared(self.table)[DECLARATION]:
            raise PlanError(
                f"table {self.table.name!r} will be swapped for one under another declaration, at tick {at.at}. Run "
                "the application that declares it."
            )
        if at.kind in ("swap", "revert"):
            # The one after its own: the next free one might belong to a writer that has taken the table over.
            self._epoch = open_epoch(self._spark, self._state, self._epoch + 1).epoch
        said: dict[str, Any] = {"operation": at.kind, "records": 0}
        if at.kind == "swap":
            said[counted.SEEN] = self._bring_along(at, bad)
        said |= _so_far(self._failed, self._null_keys)
        made = Past(self._opened).changed(at, visible=False)
        batch = held(made, self.table.key)
        try:
            said["keys"] = batch.count
            said["times"] = {"first": None, "last": None, "through": self._through}
            if self._clock is not None:
                said["clock"] = self._clock.metadata()
            self._commit(self._state, Progress(self._epoch, at.at), self.applied, said, batch, decided=True)
        finally:
            batch.memory.release()
        self.applied = at.at
        self._show(at.at)

    def _bring_along(self, at: Decision, bad: BadRecords) -> dict[str, int]:
        """Take over what belongs to a table that is swapped in: its clock, times, late records, its streams' bad ones.

        Return its counts. All of it can be repeated after a crash; the table's commit comes last.
        """
        made, to = self._built(at), at.at - 1
        try:
            # Other logic may have another clock, and other times.
            self._clock = past.clock_at(made, to)
            known = (self._through, past.through_at(made, to))
            self._through = max((time for time in known if time is not None), default=None)
            if any(self._lake.exists(of.late) for of in (self._opened, made)):
                late.swap(self._opened, made.layout, self._epoch_of_late(), at.at)
            for source in self.table.stream.decodes if at.details.get("changed") else ():
                bad.swap(source, made.layout, to)
            self._failed = by_log(log_of(self._spark, made.state.path), made.state.name)
            self._null_keys = null_keys.by_log(log_of(self._spark, made.state.path), made.state.name)
            return counted.by_commits(self._lake, made.state, to).counts
        finally:
            if made.layout.beside != at.details["beside"]:
                folders.remove(self._spark, made.layout.tables)

    def _built(self, at: Decision) -> OpenTable:
        """The table of a swap, up to the tick before it: as it was built; rebuilt if that is gone or in use."""
        made = built(self._opened, at)
        if made.layout.beside == at.details["beside"]:
            with suppress(LeaseHeld):
                self._build(made, at.at - 1)
                return made
        again = self._opened.beside(f"{at.details['beside']}-again")
        folders.remove(self._spark, again.layout.tables)
        self._build(again, at.at - 1)
        return again

    def _build(self, made: OpenTable, to: int) -> None:
        writer = SilverWriter(made, self._run)
        with (
            writer,
            Quarantine(made.lake, App((self.table,), (), self.table.stream.decodes), [writer]) as bad,
        ):
            writer.apply(to, bad)

    def _to_be_swapped(self) -> bool:
        """Whether a swap to the present declaration was recorded but not applied yet."""
        if not self._lake.exists(self._state.path):
            return False
        done = self._opened.progress.tick
        mine = declared(self.table)[DECLARATION]
        return any(at.kind == "swap" and at.at > done and at.details["declaration"] == mine for at in self._decisions)

    def _show(self, to: int, shared: Shared | None = None) -> None:
        """Bring the visible table to a tick that the state has, if these are two tables. shared: see `Shared`."""
        if self._state == self._visible:
            return
        if to > self._visible_tick:
            decided = any(self._visible_tick < at.at <= to for at in self._decisions)
            # Final results appear once: their keys are new, unless somebody corrected them.
            fresh = is_final(self.table) and not expires(self.table) and not decided
            made = visible.changed(self._opened, self._visible_tick, to, self._clock, shared, decided=decided)
            batch = held(made, self.table.key)
            try:
                target, said = Progress(self._visible_epoch, to), {"keys": batch.count}
                self._commit(self._visible, target, self._visible_tick, said, batch, fresh=fresh)
            finally:
                batch.memory.release()
            self._visible_tick = to
        self._emitted = self._clock.watermark if self._clock is not None else None


def _so_far(functions: tuple[Failed, ...], without_key: int) -> dict[str, Any]:
    """The metadata of a commit about functions that failed on records, and records without a key, up to it."""
    said: dict[str, Any] = {FAILED: [function.plain() for function in functions]} if functions else {}
    return said | ({null_keys.NULL_KEYS: without_key} if without_key else {})


def latest_complete_tick(lake: OpenLake) -> int:
    """Return bronze's last complete tick."""
    return lake.progress(lake.bronze).tick
