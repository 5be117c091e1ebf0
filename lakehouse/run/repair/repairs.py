"""Repairs of a lake, and new tables made from its past; part of `lakehouse.run.lake.Lake`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import TYPE_CHECKING

from lakehouse.errors import ConfigError, NotFound
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.run.start import leases
from lakehouse.run.start.opened import Opened
from lakehouse.semantics.moment import At, AtOffsets, Offsets
from lakehouse.semantics.time.named_moment import ClockName, as_moment, as_past_moment, moment_of

if TYPE_CHECKING:
    from lakehouse.lake.moment.cut import Cut
    from lakehouse.run.repair.backfill import Backfilled, Range, ShowProgress
    from lakehouse.run.repair.correct import Corrected
    from lakehouse.run.repair.fixes import Fixed
    from lakehouse.run.repair.rebuild import Backtested, Proof, RebuildSource
    from lakehouse.run.repair.rehydrate import Rehydrated
    from lakehouse.run.repair.replay import FixOutcome
    from lakehouse.run.repair.stages import AnyOutcome, RepairPlan
    from lakehouse.spark.audit.tried_rule import TriedRule
    from lakehouse.spark.content import Content
    from lakehouse.spark.open_lake import OpenTable


class Repairs(Opened):
    """Corrections, backfills, reverts, rebuilds, restores.

    `plan_...` says what a repair would change: its stages, and the outcome that is expected. It changes no table, and
    refuses what the repair would refuse. `carry_out` carries the plan out. reason, by: why, and who decided it, beside
    the operating system's user; the interventions keep both.
    """

    def carry_out(
        self, app: App, plan: RepairPlan[AnyOutcome], *, reason: str = "", by: str | None = None
    ) -> AnyOutcome:
        """Carry out the plan of a repair of an application's tables; return the outcome, with its tick.

        Raises StorageError if somebody intervened in the tables since, or declared them anew: plan again. LeaseHeld.
        """
        from lakehouse.run.repair.carry_out import carry_out
        from lakehouse.run.repair.intervene import Why

        return carry_out(self._lake, app, plan, Why(reason, by))

    @phase("correction")
    def correct(
        self,
        app: App,
        table: Table,
        *,
        key: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        reason: str = "",
        by: str | None = None,
    ) -> Corrected:
        """Take in late records of a windowed table after all: of one key, or of windows that begin in [start, end).

        The windows are refolded with them, as an intervention at a tick of its own; the next run publishes the changes.
        See `lakehouse.run.repair.correct`. Raises PlanError, NotFound, LeaseHeld.
        """
        self._check_repair(table)
        from lakehouse.run.repair.correct import correct
        from lakehouse.run.repair.intervene import Why

        return correct(self._lake.open(table), app, key=key, start=start, end=end, why=Why(reason, by))

    @phase("plan of the correction")
    def plan_correct(
        self,
        table: Table,
        *,
        key: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
    ) -> RepairPlan[Corrected]:
        """Plan what `correct` does."""
        self._check_repair(table)
        from lakehouse.run.repair.correct import plan_correction
        from lakehouse.run.repair.stages import LateChoice

        return plan_correction(self._lake.open(table), LateChoice(key, start, end))

    @phase("backfill")
    def backfill(
        self,
        app: App,
        table: Table,
        *,
        of: Range | None = None,
        reason: str = "",
        by: str | None = None,
        examples: int = 0,
        listen: ShowProgress | None = None,
    ) -> Backfilled:
        """Rebuild a table's rows from bronze: the rows that a range of records touches, or all, also with new logic.

        The live job goes on. examples: how many of the differing rows are in `differing.changes`, before and after.
        listen: called with the phase, the number of records done, and the total. See `lakehouse.run.repair.backfill`.
        Raises PlanError for a declaration that the table can't take, LeaseHeld if another backfill, or a job with
        another declaration, holds it.
        """
        self._check_repair(table)
        leases.check_repair(self._layout, table.name)
        from lakehouse.run.repair import backfill
        from lakehouse.run.repair.intervene import Why

        open_table, why = self._lake.open(table), Why(reason, by)
        if of is not None:
            return backfill.backfill_range(open_table, app, of, why=why, examples=examples)
        return backfill.backfill(open_table, app, why=why, examples=examples, listen=listen or backfill.ignore_progress)

    @phase("plan of the backfill")
    def plan_backfill(
        self,
        table: Table,
        *,
        of: Range | None = None,
        examples: int = 0,
        listen: ShowProgress | None = None,
    ) -> RepairPlan[Backfilled]:
        """Plan what `backfill` does. For all rows the table is built beside the live one; the build stays there."""
        self._check_repair(table)
        leases.check_repair(self._layout, table.name)
        from lakehouse.run.repair import backfill

        if of is not None:
            return backfill.plan_range(self._lake.open(table), of, examples=examples)
        return backfill.plan_backfill(
            self._lake.open(table), examples=examples, listen=listen or backfill.ignore_progress
        )

    def discard(self, table: Table) -> bool:
        """Remove the table that a plan, or a killed backfill, built beside a table; return whether there was one.

        Raises LeaseHeld while a backfill works on it.
        """
        from lakehouse.lake import store
        from lakehouse.run.repair import backfill

        root = self._layout.root
        if not store.file_exists(f"{root}/beside/{table.name}"):
            return False  # without Spark: most tables have nothing to remove
        return backfill.discard(self._lake.open(table))

    @phase("replay")
    def replay(
        self,
        app: App,
        stream: str,
        fixed: Iterable[Fixed],
        *,
        reason: str = "",
        by: str | None = None,
        again: bool = False,
        instead: bool = False,
    ) -> int | None:
        """Let quarantined records of a stream count with other bytes, at their original positions; return the tick.

        fixed: from `lakehouse.run.repair.fixes.fixed_records`. again: leave out records that were fixed before; return
        None if no record is left. instead: those records count with the new bytes from now on. Without either it
        refuses them. It rebuilds the rows that depend on the records, in all tables of the application that read the
        stream; the live job goes on. Raises NotFound, PlanError.
        """
        self._refuse_misplaced(app)
        from lakehouse.run.repair.intervene import Why
        from lakehouse.run.repair.replay import bytes_of_fixes, replay

        fixes, why = bytes_of_fixes(fixed), Why(reason, by)
        return replay(self._lake, app, app.source(stream), fixes, why=why, again=again, instead=instead)

    @phase("plan of the replay")
    def plan_replay(
        self,
        app: App,
        stream: str,
        fixed: Iterable[Fixed],
        *,
        again: bool = False,
        instead: bool = False,
    ) -> RepairPlan[FixOutcome]:
        """Plan what `replay` does; without Spark, as long as no table that reads the stream was restored."""
        self._refuse_misplaced(app)
        from lakehouse.run.repair.replay import bytes_of_fixes, plan_replay

        source, fixes = app.source(stream), bytes_of_fixes(fixed)
        return plan_replay(self._layout, app, source, fixes, lambda: self._lake, again=again, instead=instead)

    def finish_fixes(self, app: App, stream: str) -> int | None:
        """Bring the tables that read a stream to its last fix, if a killed replay has left one behind; return its tick.

        None if there is none. Raises LeaseHeld if a process that keeps a table does not bring it there.
        """
        from lakehouse.run.repair.replay import finish_fixes

        return finish_fixes(lambda: self._lake, self._layout, app, app.source(stream))

    @phase("revert")
    def revert(
        self,
        app: App,
        table: Table,
        at: At | str,
        *,
        reason: str = "",
        by: str | None = None,
        examples: int = 0,
    ) -> Backfilled:
        """Make the live table what it was at a moment; its job goes on from there. examples: as in `backfill`.

        at: a moment, or its text as `lakehouse past diff` takes it: "tick:7", a version, a time. Raises NotFound,
        ConfigError.
        """
        moment = as_past_moment(at)
        self._check_repair(table)
        leases.check_repair(self._layout, table.name)
        from lakehouse.run.repair.backfill import revert
        from lakehouse.run.repair.intervene import Why

        open_table = self._lake.open(table)
        cut, version = _revert_target(open_table, moment)
        return revert(open_table, app, cut, version=version, why=Why(reason, by), examples=examples)

    @phase("plan of the revert")
    def plan_revert(self, table: Table, at: At | str, *, examples: int = 0) -> RepairPlan[Backfilled]:
        """Plan what `revert` does."""
        moment = as_past_moment(at)
        self._check_repair(table)
        leases.check_repair(self._layout, table.name)
        from lakehouse.run.repair.backfill import plan_revert

        open_table = self._lake.open(table)
        cut, version = _revert_target(open_table, moment)
        return plan_revert(open_table, cut, version=version, examples=examples)

    @phase("checkout")
    def checkout(self, table: Table, name: str, at: At | str | None = None, *, again: bool = False) -> Content:
        """Make a new table of a table's visible rows at a moment; return its row count and hash.

        again: if the table exists already, with this moment, keep it and return its content.
        """
        from lakehouse.run.repair.rebuild import checkout

        moment = _moment_or_now(at)
        return checkout(self._lake.open(table), name, moment, again=again)

    @phase("rebuild")
    def rebuild(
        self, table: Table, name: str, origin: RebuildSource, at: At | str | None = None, *, topic: str | None = None
    ) -> Content:
        """Make a new table from a table's moment by one origin: "version", "bronze" or "changelog" (of `topic`)."""
        from lakehouse.run.repair.rebuild import rebuild
        from lakehouse.run.repair.restore import Published
        from lakehouse.run.start.kafka import open_kafka

        moment = _moment_or_now(at)
        if topic is None:
            return rebuild(self._lake.open(table), name, origin, moment)
        with open_kafka(self.settings) as servers:
            published = Published(topic, servers, self.settings.kafka.options)
            return rebuild(self._lake.open(table), name, origin, moment, published=published)

    @phase("proof")
    def prove(self, table: Table, at: At | str | None = None, *, topic: str | None = None) -> list[Proof]:
        """Rebuild a table at a moment in every available way, into tables that it removes: are they equal?"""
        moment = _moment_or_now(at)
        self._check_repair(table)
        from lakehouse.run.repair.rebuild import prove
        from lakehouse.run.repair.restore import Published
        from lakehouse.run.start.kafka import open_kafka

        if topic is None:
            return prove(self._lake.open(table), moment)
        with open_kafka(self.settings) as servers:
            return prove(self._lake.open(table), moment, Published(topic, servers, self.settings.kafka.options))

    @phase("backtest")
    def backtest(
        self, table: Table, other: Table, *, to: int | None = None, listen: ShowProgress | None = None
    ) -> Backtested:
        """Fold the same records under two declarations of a table, up to a tick; leave the live table alone."""
        from lakehouse.run.repair import backfill
        from lakehouse.run.repair.rebuild import backtest

        return backtest(self._lake.open(table), other, end_tick=to, listen=listen or backfill.ignore_progress)

    @phase("trying the rule")
    def try_rule(self, app: App, stream: str, condition: str, *, since_ms: int | None = None) -> TriedRule:
        """Return what a condition would refuse of a stream's records, by day: a rule to be, for `Stream.expect`.

        since_ms: only records with this Kafka timestamp or a later one. See `lakehouse.spark.audit.tried_rule`. Raises
        PlanError for a stream that the application does not have, or a condition that can't be judged; NotFound before
        the first tick.
        """
        from lakehouse.lake import reader
        from lakehouse.spark.audit.tried_rule import parse_rule, try_rule

        self._refuse_misplaced(app)
        source = app.source(stream).unmarked
        rule = parse_rule(source, condition)
        if not reader.read_bronze_coverage(self._layout).tick:
            raise NotFound("bronze has no tick yet, so there is nothing to try a rule on. Run the application first.")
        return try_rule(self._lake, source, rule, since_ms)

    @phase("restore")
    def restore(self, table: Table, topic: str) -> int:
        """Make a table from its published changelog; return its rows. Running its application goes on from there."""
        from lakehouse.run.repair.restore import Published, restore
        from lakehouse.run.start.kafka import open_kafka

        with open_kafka(self.settings) as servers:
            published = Published(topic, servers, self.settings.kafka.options)
            return restore(self._lake.open(table), published, self.settings.run.on_data_loss)

    def rehydrate(
        self,
        topic: str,
        to: str,
        *,
        at: str | datetime | date | None = None,
        clock: ClockName = "event",
        tick: int | None = None,
        offsets: str | Offsets | None = None,
        from_tick: int | None = None,
        partitions: int | None = None,
        append: bool = False,
        positions: bool = False,
        listen: Callable[[int, int], None] = lambda done, total: None,
    ) -> Rehydrated:
        """Write a topic's records in bronze back into a Kafka topic, up to a moment; without Spark.

        at, clock, tick, offsets: the moment, see `lakehouse.semantics.time.named_moment.moment_of`. from_tick: only
        records from this tick on. The rest: see `lakehouse.run.repair.rehydrate`. Run again, it goes on where it ended.
        Raises ConfigError, NotFound, LeaseHeld, KafkaUnavailable.
        """
        from lakehouse.lake.record.bronze_rows import BronzeRows
        from lakehouse.plan.expression.schema import check_topic
        from lakehouse.run.repair.rehydrate import rehydrate
        from lakehouse.run.start.kafka import open_kafka

        moment = moment_of(at, clock=clock, tick=tick, offsets=offsets, find_source=_refuse_position)
        check_topic(to)
        source = BronzeRows(self._layout, check_topic(topic), moment, from_tick)
        with open_kafka(self.settings) as servers:
            return rehydrate(
                self._layout, servers, self.settings.kafka.options, source, to, partitions=partitions, append=append,
                positions=positions, listen=listen,
            )  # fmt: skip

    def _check_repair(self, table: Table) -> None:
        """Raise NotFound if the lake lacks a table, PlanError if the table's records lie elsewhere than declared."""
        self._check(table)
        self._refuse_misplaced(table.stream)

    def _refuse_misplaced(self, declared: App | Stream) -> None:
        """Raise PlanError if a topic's records lie elsewhere in bronze than declared: a repair would find none."""
        from lakehouse.lake.record.topic_places import refuse_misplaced

        refuse_misplaced(self._layout, declared.topics, declared.own_topics)


def _moment_or_now(at: At | str | None) -> At | None:
    return None if at is None else as_moment(at)


def _revert_target(open_table: OpenTable, moment: At) -> tuple[Cut, int | None]:
    """Return which records a table keeps that goes back to a moment, and the version that the moment means, if any."""
    from lakehouse.spark.history import reading

    return reading.cut_at(open_table, moment), reading.meant_version(open_table, moment)


def _refuse_position(position: str) -> AtOffsets:
    raise ConfigError(
        f"rehydrate: found the source position {position!r:.200}; expected a time, a tick, or offsets: an application "
        "says which topics are a database's, and it reads none."
    )
