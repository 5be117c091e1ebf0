"""Backfills: a table's rows are rebuilt from bronze, with the old logic or with new logic, while the live job goes on.

A range is refolded in place: the keys that its records touch are rebuilt from all their records. A whole table is built
beside the live one, in chunks so that an interrupted build can go on, compared with it key by key, and swapped in: one
MERGE of the rows that differ, under the next epoch. The content before the swap is kept as an anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from lakehouse.errors import NotFound, PlanError
from lakehouse.lake.lease import Lease
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import DECLARATION, declared
from lakehouse.plan.rows import takes_out
from lakehouse.plan.schema import check_name
from lakehouse.run.repair.intervene import UNSAID, Why, intervene
from lakehouse.run.start.leases import of_repair
from lakehouse.semantics.difference import Difference
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import AtTick
from lakehouse.spark import folders
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import Decision, Kind
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.content import difference
from lakehouse.spark.past import anchors, present, reading
from lakehouse.spark.past.moments import Past
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.silver.writer import latest_complete_tick
from lakehouse.spark.table import tables
from lakehouse.spark.table.input import Input
from lakehouse.spark.transaction import properties

Phase = Literal["build", "compare", "swap"]
# Is told the phase, the number of records done, and the total.
ShowProgress = Callable[[Phase, int, int], None]
# Records that came during the build are taken in as well; the swap brings the rest.
CATCH_UPS = 5


def silent(phase: Phase, done: int, total: int) -> None:
    """Listen to nothing."""


@dataclass(frozen=True, slots=True)
class Backfilled:
    """The changes of a backfill, or a revert, made or planned.

    tick: of the intervention, None if nothing was applied. records: how many bronze records are read. before: the tick
    to go back to. changed: whether it brought other logic.
    """

    differing: Difference
    tick: int | None
    records: int = 0
    before: int = NO_TICK
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Which records: of event times in [first_ms, last_ms], or of offsets {topic: {partition: [first, last]}}."""

    first_ms: int | None = None
    last_ms: int | None = None
    offsets: Mapping[str, Mapping[int, tuple[int, int]]] | None = None

    def details(self) -> dict[str, Any]:
        """Return it in the form of an intervention's details."""
        times = {"first_ms": self.first_ms, "last_ms": self.last_ms}
        if self.offsets is None:
            return times
        parts = {topic: {str(p): list(ends) for p, ends in of.items()} for topic, of in self.offsets.items()}
        return {**times, "offsets": parts}


def backfill_range(
    opened: OpenTable, app: App, of: Range, *, why: Why = UNSAID, dry_run: bool = False, examples: int = 0
) -> Backfilled:
    """Refold the keys that a range's records touch. examples: how many of the rows that differ are returned.

    Raises PlanError if the declaration, or a topic, is not the table's; LeaseHeld while another backfill runs.
    """
    table = opened.table
    applied = _applied(opened)
    _refuse_restored(opened)
    present.check_declared_above(opened)
    if declared(table)[DECLARATION] != _declaration(opened):
        raise PlanError(
            f"table {table.name!r}: a range can be rebuilt only under the table's own declaration. For new logic "
            "leave the range out: the whole table is built beside the live one, and swapped in."
        )
    for topic in of.offsets or {}:
        if topic not in table.stream.topics:
            raise PlanError(
                f"table {table.name!r} does not read topic {topic!r}; expected {', '.join(table.stream.topics)}."
            )
    with of_repair(opened.layout, opened.name):
        found = _effect(opened, "refold", of.details(), examples)
        records = _records(opened, NO_TICK, applied)
        if dry_run or found.equal:
            return Backfilled(found, None, records, applied)
        wanted = why.wanted("refold", [table.name], of.details())
        return _done(Backfilled(found, intervene(opened.lake, app, wanted), records))


def backfill(
    opened: OpenTable,
    app: App,
    *,
    why: Why = UNSAID,
    dry_run: bool = False,
    examples: int = 0,
    listen: ShowProgress = silent,
) -> Backfilled:
    """Build the whole table beside the live one, compare, and swap it in if it differs.

    examples: how many of the rows that differ are returned, before and after. An interrupted build, or one from a dry
    run, is continued. Raises PlanError for a declaration that the table can't take, LeaseHeld for another declaration
    while a job keeps the table, or while another backfill of it runs.
    """
    table = opened.table
    _applied(opened)
    _refuse_restored(opened)
    if (refused := tables.swap_refusal(opened)) is not None:
        raise PlanError(refused)
    present.check_declared_above(opened)
    with of_repair(opened.layout, opened.name):
        changed = declared(table)[DECLARATION] != _declaration(opened)
        if changed and not dry_run:
            _check_free(opened)  # fails before the long part
        records = 0

        def counted(phase: Phase, done: int, total: int) -> None:
            nonlocal records
            records = max(records, done)
            listen(phase, done, total)

        beside = build(opened, table.name, listen=counted)
        listen("compare", records, records)
        found = compare(opened, beside, examples)
        applied = _applied(opened)
        # Also if no row differs: that the table was rebuilt is recorded for those that look for it.
        needed = changed or present.is_behind(opened)
        if dry_run or (found.equal and not needed):
            if not dry_run:
                folders.remove(opened.spark, beside.layout.tables)
            return Backfilled(found, None, records, applied, changed)
        listen("swap", records, records)
        if changed:
            _check_free(opened)
        anchors.keep(opened, applied, f"before {why.reason or 'a backfill'}")
        details = {"beside": beside.layout.beside, "declaration": declared(table)[DECLARATION], "changed": changed}
        at = intervene(opened.lake, app, why.wanted("swap", [table.name], details))
        folders.remove(opened.spark, beside.layout.tables)
        return _done(Backfilled(found, at, records, changed=changed))


def discard(opened: OpenTable) -> bool:
    """Remove the table that a dry run, or a killed backfill, built beside a table; return whether there was one.

    Raises LeaseHeld while a backfill works on it.
    """
    beside = opened.beside(check_name(opened.name, "build")).layout.tables
    with of_repair(opened.layout, opened.name):
        found = folders.exists(opened.spark, beside)
        folders.remove(opened.spark, beside)
        return found


def build(opened: OpenTable, name: str, *, to: int | None = None, listen: ShowProgress = silent) -> OpenTable:
    """Build a table beside the live ones, up to a tick, or to the last complete one; return the built table.

    An interrupted build goes on, unless it had another declaration.
    """
    table, beside = opened.table, opened.beside(check_name(name, "build"))
    if _declaration(beside) not in (None, declared(table)[DECLARATION]):
        folders.remove(opened.spark, beside.layout.tables)
    after = beside.progress.tick if beside.lake.exists(beside.state.path) else NO_TICK
    end = latest_complete_tick(opened.lake) if to is None else to
    total, done = _records(opened, after, end), 0
    listen("build", 0, total)

    def on_batch(tick: int, records: int) -> None:
        nonlocal done
        done += records
        listen("build", done, max(total, done))

    alone = App((table,), (), table.stream.sources)
    with Silver(beside.lake, alone, on_batch) as silver:
        silver.catch_up(to)
        for _ in range(CATCH_UPS if to is None else 0):
            if silver.tick >= latest_complete_tick(opened.lake):
                break
            silver.catch_up()
    return beside


def compare(opened: OpenTable, beside: OpenTable, examples: int = 0) -> Difference:
    """Compare the visible rows of the live table with those of the built one, at the last tick that both have."""
    tick = min(_applied(opened), _applied(beside))
    live = reading.read(opened, AtTick(tick))
    return difference(opened.table.key, live, Past(beside).visible(Cut(tick)), examples)


def revert(
    opened: OpenTable,
    app: App,
    to: Cut,
    *,
    version: int | None = None,
    why: Why = UNSAID,
    dry_run: bool = False,
    examples: int = 0,
) -> Backfilled:
    """Make the live table what it was at a moment; later records are applied from there.

    version: the moment is this version, by its number, without what others wrote after it. examples: how many of the
    rows that differ are returned. The clock stays: windows that have closed since do not open again. Raises LeaseHeld
    while a backfill of the table runs, PlanError for a moment before other logic was swapped in,
    and for aggregates of a table's rows.
    """
    _refuse_other_logic(opened, to)
    if takes_out(opened.table):
        above = ", ".join(upstream.name for upstream in opened.table.stream.reads)
        raise PlanError(
            f"table {opened.name!r} is made of the rows of {above}: a row that changes is taken out again, and can't "
            f"be taken out of what no longer holds it. Revert {above}, whose changes reach it; or `lakehouse past "
            "checkout` makes a new table of that moment."
        )
    details = {**to.details(), "version": version}
    with of_repair(opened.layout, opened.name):
        found = _effect(opened, "revert", details, examples)
        applied = _applied(opened)
        if dry_run or found.equal:
            return Backfilled(found, None, before=applied)
        anchors.keep(opened, applied, f"before {why.reason or 'a revert'}")
        wanted = why.wanted("revert", [opened.name], details)
        return _done(Backfilled(found, intervene(opened.lake, app, wanted)))


def _done(made: Backfilled) -> Backfilled:
    """Add the way back: the intervention's tick has no records, so the tick before it is the table without it."""
    assert made.tick is not None
    return replace(made, before=made.tick - 1)


def _check_free(opened: OpenTable) -> None:
    """A job with the old logic must not go on with the new content."""
    with Lease(opened.layout.lease(f"silver-{opened.name}"), f"table {opened.name!r}, under another declaration,"):
        pass


def _refuse_restored(opened: OpenTable) -> None:
    if opened.skip is not None:
        raise PlanError(
            f"table {opened.name!r} was restored from a topic: this lake's bronze does not have what came before, so "
            "it can't be rebuilt from bronze. `lakehouse repair revert` takes it back to a version; or restore it "
            "again, into another lake."
        )


def _refuse_other_logic(opened: OpenTable, to: Cut) -> None:
    """A table made by other logic lacks the state that the present logic goes on from."""
    swaps = [at for at in interventions.of(opened.lake, opened.name) if at.details.get("changed")]
    if swaps and to.tick < swaps[-1].at:
        raise PlanError(
            f"table {opened.name!r}: its declaration changed at tick {swaps[-1].at}, and rows from before can't "
            "continue under the present one. Backfill it with the declaration that it had; or `lakehouse past "
            "checkout` makes a new table of that moment."
        )


def _records(opened: OpenTable, after: int, to: int) -> int:
    """The records of bronze in the ticks (after, to] that a table reads."""
    return Input(opened.lake, opened.table.stream).rows(after, to).count() if to > after else 0


def _declaration(opened: OpenTable) -> str | None:
    """The declaration that a table carries; None if there is no table."""
    return properties(opened.spark, opened.visible.path).get(DECLARATION) if opened.exists else None


def _effect(opened: OpenTable, kind: Kind, details: Mapping[str, Any], examples: int) -> Difference:
    """The changes that an intervention would make now; with the first of the rows."""
    applied = _applied(opened)
    past = Past(opened, [Decision(applied + 1, "", kind, details)])
    live = reading.read(opened, AtTick(applied))
    return difference(opened.table.key, live, past.visible(Cut(applied + 1)), examples)


def _applied(opened: OpenTable) -> int:
    if not opened.exists:
        raise NotFound(f"table {opened.name!r} does not exist in {opened.layout.tables}. Run its application first.")
    return reading.applied_tick(opened)
