"""Backfills: rebuild a table's rows from bronze, with the old logic or with new logic, while the live job goes on.

A range is refolded in place: the keys that its records touch are rebuilt from all their records. A whole table is built
beside the live table, in chunks so that an interrupted build can go on, compared with it key by key, and swapped in:
one MERGE of the rows that differ, under the next epoch. An anchor keeps the content before the swap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from lakehouse.errors import NotFound, PlanError, StorageError
from lakehouse.lake.moment.cut import Cut
from lakehouse.phases import phase
from lakehouse.plan.app import App
from lakehouse.plan.evolution.change import declaration_of
from lakehouse.plan.expression.schema import check_name
from lakehouse.plan.rows import takes_out_rows
from lakehouse.plan.table import Table
from lakehouse.run.repair.carry_out import carry_out, check_stopped, remove_build, stored_declaration
from lakehouse.run.repair.intervene import NO_REASON, Why
from lakehouse.run.repair.stages import (
    Basis,
    Intervene,
    KeepAnchor,
    RemoveBuild,
    RepairPlan,
    RequireStopped,
    Stage,
    basis_of,
)
from lakehouse.run.repair.unfinished_erasure import refuse_during_erasure
from lakehouse.run.start.declared_changes import restored_refusal
from lakehouse.run.start.leases import repair_lease
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.difference import Difference
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import Intervention, Kind
from lakehouse.spark.content import compare_tables
from lakehouse.spark.history import present_logic, reading
from lakehouse.spark.history.moments import Past
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.silver.query import Silver
from lakehouse.spark.silver.writer import latest_complete_tick
from lakehouse.spark.table import tables
from lakehouse.spark.table.input import TableInput
from lakehouse.spark.transaction import table_id

Phase = Literal["build", "compare", "swap"]
# Called with the phase, the number of records done, and the total.
ShowProgress = Callable[[Phase, int, int], None]
# The build takes in records that come while it runs, too; the swap brings the rest.
CATCH_UPS = 5


def ignore_progress(phase: Phase, done_count: int, total: int) -> None:
    """Ignore the progress: the listener of callers without one."""


@dataclass(frozen=True, slots=True)
class Backfilled:
    """The changes of a backfill, or a revert, made or planned.

    tick: of the intervention, None if nothing was applied. records: how many bronze records were read. before: the tick
    to go back to. changed: whether it brought other logic.
    """

    differing: Difference
    tick: int | None
    records: int = 0
    before: int = NO_TICK
    changed: bool = False

    def at_tick(self, tick: int) -> Self:
        """Return it once applied; the intervention's tick has no records, so the tick before is the table without."""
        return replace(self, tick=tick, before=tick - 1)


@dataclass(frozen=True, slots=True)
class Range:
    """A range of records: event times in [first_ms, last_ms], or offsets {topic: {partition: [first, last]}}."""

    first_ms: int | None = None
    last_ms: int | None = None
    offsets: Mapping[str, Mapping[int, tuple[int, int]]] | None = None

    def details(self) -> dict[str, Any]:
        """Return the range in the form of an intervention's details."""
        times = {"first_ms": self.first_ms, "last_ms": self.last_ms}
        if self.offsets is None:
            return times
        offsets_by_topic = {
            topic: {str(p): list(ends) for p, ends in ranges.items()} for topic, ranges in self.offsets.items()
        }
        return {**times, "offsets": offsets_by_topic}


def backfill_range(
    open_table: OpenTable, app: App, record_range: Range, *, why: Why = NO_REASON, examples: int = 0
) -> Backfilled:
    """Refold the keys that a range's records touch, see `plan_range`."""
    return carry_out(open_table.lake, app, plan_range(open_table, record_range, examples=examples), why)


def plan_range(open_table: OpenTable, record_range: Range, *, examples: int = 0) -> RepairPlan[Backfilled]:
    """Plan to refold the keys that a range's records touch. examples: how many of the differing rows to return.

    Raises PlanError if the declaration, or a topic, is not the table's.
    """
    table = open_table.table
    refuse_during_erasure(open_table.layout, (table.name,))
    basis, applied_tick = _read_basis(open_table), require_applied_tick(open_table)
    refuse_restored(open_table)
    present_logic.check_declared_above(open_table)
    if _is_redeclared(open_table):
        raise PlanError(
            f"table {table.name!r}: a range can be rebuilt only under the table's own declaration. For new logic "
            "leave the range out: the whole table is built beside the live one, and swapped in."
        )
    for topic in record_range.offsets or {}:
        if topic not in table.stream.topics:
            raise PlanError(
                f"table {table.name!r} does not read topic {topic!r}; expected {', '.join(table.stream.topics)}."
            )
    details = record_range.details()
    differing = _preview_effect(open_table, "refold", details, examples)
    expected = Backfilled(differing, None, count_records(open_table, NO_TICK, applied_tick), applied_tick)
    stages = () if differing.equal else (Intervene("refold", (table.name,), details),)
    return RepairPlan(stages, expected, basis)


def backfill(
    open_table: OpenTable,
    app: App,
    *,
    why: Why = NO_REASON,
    examples: int = 0,
    listen: ShowProgress = ignore_progress,
) -> Backfilled:
    """Build the whole table beside the live one, compare, and swap it in if it differs, see `plan_backfill`.

    Raises LeaseHeld for another declaration while a job keeps the table.
    """
    if _is_redeclared(open_table):
        check_stopped(open_table)  # fail before the long part
    plan = plan_backfill(open_table, examples=examples, listen=listen)
    if plan.has_intervention:
        listen("swap", plan.expected.records, plan.expected.records)
    return carry_out(open_table.lake, app, plan, why)


def plan_backfill(
    open_table: OpenTable, *, examples: int = 0, listen: ShowProgress = ignore_progress
) -> RepairPlan[Backfilled]:
    """Build the whole table beside the live one, compare, and plan to swap it in if it differs.

    examples: how many of the differing rows to return, before and after. It continues an interrupted build, or the
    build of an earlier plan. Raises PlanError for a declaration that the table can't take, LeaseHeld while another
    backfill of it runs.
    """
    table = open_table.table
    refuse_during_erasure(open_table.layout, (table.name,))
    require_applied_tick(open_table)
    refuse_restored(open_table)
    if (refused := tables.swap_refusal(open_table)) is not None:
        raise PlanError(refused)
    present_logic.check_declared_above(open_table)
    records = 0

    def count_done(phase: Phase, done_count: int, total: int) -> None:
        nonlocal records
        records = max(records, done_count)
        listen(phase, done_count, total)

    with repair_lease(open_table.layout, open_table.name):
        beside_table = build(open_table, table.name, listen=count_done)
        listen("compare", records, records)
        basis = _read_basis(open_table)
        if changed_names := present_logic.changed_above(open_table, beside_table.read_begin_tick()):
            raise StorageError(
                f"table {table.name!r} reads {', '.join(changed_names)}, which got other logic while it was built; "
                "expected the same logic all the while. Give the command again: it builds the table anew."
            )
        differing = compare(open_table, beside_table, examples)
    applied_tick, changed = require_applied_tick(open_table), _is_redeclared(open_table)
    expected = Backfilled(differing, None, records, applied_tick, changed)
    stages: tuple[Stage, ...] = ()
    # Record the rebuild even if no row differs: people look for it in the interventions.
    if changed or not differing.equal or present_logic.is_behind(open_table):
        table_details = {"declaration": declaration_of(table), "changed": changed}
        stages = (
            *((RequireStopped(table.name),) if changed else ()),
            KeepAnchor(table.name, applied_tick, "a backfill"),
            Intervene("swap", (table.name,), {"beside": table.name}, {table.name: table_details}),
        )
    return RepairPlan((*stages, RemoveBuild((table.name,), table.name)), expected, basis)


def discard(open_table: OpenTable) -> bool:
    """Remove the table that a plan, or a killed backfill, built beside a table; return whether there was one.

    Raises LeaseHeld while a backfill works on it.
    """
    beside_lake = open_table.beside(check_name(open_table.name, "build")).lake
    with repair_lease(open_table.layout, open_table.name):
        existed = folders.folder_exists(open_table.spark, beside_lake.layout.tables)
        remove_build(beside_lake)
        return existed


def build(
    open_table: OpenTable, name: str, *, end_tick: int | None = None, listen: ShowProgress = ignore_progress
) -> OpenTable:
    """Build a table beside the live tables, up to a tick, or up to the last complete tick; return the built table.

    An interrupted build goes on, unless it had another declaration, or a table above got other logic since it began.
    """
    table, beside_table = open_table.table, open_table.beside(check_name(name, "build"))
    # Without the table, what is there is the rest of a removal that was killed.
    if stored_declaration(beside_table) != declaration_of(table) or present_logic.changed_above(
        open_table, beside_table.read_begin_tick()
    ):
        remove_build(beside_table.lake)
    build_tables(beside_table.lake, (table,), end_tick=end_tick, listen=listen)
    return beside_table


def build_tables(
    beside_lake: OpenLake,
    tables: Sequence[Table],
    *,
    end_tick: int | None = None,
    listen: ShowProgress = ignore_progress,
) -> int:
    """Build tables beside the live ones, or go on, up to a tick, or up to the last complete tick.

    Return how many records they took in, each counted for each table.

    beside_lake: the place of the set of tables. tables: each after those of the set that it reads.
    """
    last_tick = latest_complete_tick(beside_lake) if end_tick is None else end_tick
    total_count, done_count = 0, 0
    for table in tables:
        beside_table = beside_lake.open(table)
        built_tick = beside_table.read_progress().tick if beside_lake.exists(beside_table.state.path) else NO_TICK
        total_count += count_records(beside_table, built_tick, last_tick)
    listen("build", 0, total_count)

    def on_batch(tick: int, record_count: int) -> None:
        nonlocal done_count
        done_count += record_count
        building.done, building.total = done_count, max(total_count, done_count)
        listen("build", done_count, building.total)

    sources = tuple(dict.fromkeys(source for table in tables for source in table.stream.sources))
    label = f"building {', '.join(table.name for table in tables)} beside"
    with (
        phase("building beside", label, total=total_count, unit="records") as building,
        Silver(beside_lake, App(tuple(tables), (), sources), on_batch, stops_run=False) as silver,
    ):
        silver.catch_up(end_tick)
        for _ in range(CATCH_UPS if end_tick is None else 0):
            if silver.tick >= latest_complete_tick(beside_lake):
                break
            silver.catch_up()
        silver.check_schemas()
    return done_count


@phase("comparing the rows")
def compare(open_table: OpenTable, beside_table: OpenTable, examples: int = 0) -> Difference:
    """Compare the visible rows of the live table with those of the built table, at the last tick that both have."""
    tick = min(require_applied_tick(open_table), require_applied_tick(beside_table))
    live_rows = reading.read_rows(open_table, AtTick(tick))
    return compare_tables(open_table.table.key, live_rows, Past(beside_table).visible_rows(Cut(tick)), examples)


def revert(
    open_table: OpenTable,
    app: App,
    cut: Cut,
    *,
    version: int | None = None,
    why: Why = NO_REASON,
    examples: int = 0,
) -> Backfilled:
    """Make the live table what it was at a moment; later records are applied from there. See `plan_revert`."""
    plan = plan_revert(open_table, cut, version=version, examples=examples)
    return carry_out(open_table.lake, app, plan, why)


def plan_revert(
    open_table: OpenTable, cut: Cut, *, version: int | None = None, examples: int = 0
) -> RepairPlan[Backfilled]:
    """Plan to make the live table what it was at a moment.

    version: the moment is this version, by its number, without what others wrote after it. examples: how many of the
    differing rows to return. The clock stays: windows that have closed since do not open again. Raises PlanError for a
    moment before other logic was swapped in, and for aggregates of a table's rows.
    """
    refuse_during_erasure(open_table.layout, (open_table.name,))
    basis = _read_basis(open_table)
    _refuse_other_logic(open_table, cut)
    if takes_out_rows(open_table.table):
        upstream_names = ", ".join(upstream.name for upstream in open_table.table.stream.reads)
        raise PlanError(
            f"table {open_table.name!r} is made of the rows of {upstream_names}: a row that changes is taken out "
            f"again, and can't be taken out of what no longer holds it. Revert {upstream_names}, whose changes reach "
            "it; or `lakehouse past checkout` makes a new table of that moment."
        )
    present_logic.check_declared_above(open_table)
    # A table that is made anew has other versions of the same numbers.
    version_of = None if version is None else table_id(open_table.spark, open_table.visible.path)
    details = {**cut.details(), "version": version, "version_of": version_of}
    differing = _preview_effect(open_table, "revert", details, examples)
    applied_tick = require_applied_tick(open_table)
    stages = (
        ()
        if differing.equal
        else (
            KeepAnchor(open_table.name, applied_tick, "a revert"),
            Intervene("revert", (open_table.name,), details),
        )
    )
    return RepairPlan(stages, Backfilled(differing, None, before=applied_tick), basis)


def refuse_restored(open_table: OpenTable) -> None:
    if open_table.read_skipped_offsets() is not None:
        raise PlanError(restored_refusal(open_table.name))


def _refuse_other_logic(open_table: OpenTable, cut: Cut) -> None:
    """Refuse a moment of other logic: that table lacks the state from which the present logic goes on."""
    swaps = [
        decision
        for decision in interventions.read_interventions(open_table.lake, open_table.name)
        if decision.details.get("changed")
    ]
    if swaps and cut.tick < swaps[-1].at:
        raise PlanError(
            f"table {open_table.name!r}: its declaration changed at tick {swaps[-1].at}, and rows from before can't "
            f"continue under the present one. Expected tick {swaps[-1].at} or a later one; or backfill it with the "
            "declaration that it had; or `lakehouse past checkout` makes a new table of that moment."
        )


def count_records(open_table: OpenTable, after_tick: int, last_tick: int) -> int:
    """Count the records of bronze in the ticks (after_tick, last_tick] that a table reads."""
    return (
        TableInput(open_table.lake, open_table.table.stream).rows(after_tick, last_tick).count()
        if last_tick > after_tick
        else 0
    )


def _is_redeclared(open_table: OpenTable) -> bool:
    """Say whether the table in the lake has another declaration, or does not exist."""
    return stored_declaration(open_table) != declaration_of(open_table.table)


def _read_basis(open_table: OpenTable) -> Basis:
    return basis_of([open_table.table], interventions.last_intervention_tick(open_table.lake))


def _preview_effect(open_table: OpenTable, kind: Kind, details: Mapping[str, Any], examples: int) -> Difference:
    """Return the changes that an intervention would make now, with the first of the rows."""
    applied_tick = require_applied_tick(open_table)
    past_rows = Past(open_table, [Intervention(applied_tick + 1, "", kind, details)])
    live_rows = reading.read_rows(open_table, AtTick(applied_tick))
    return compare_tables(open_table.table.key, live_rows, past_rows.visible_rows(Cut(applied_tick + 1)), examples)


def require_applied_tick(open_table: OpenTable) -> int:
    if not open_table.table_exists():
        raise NotFound(
            f"table {open_table.name!r} does not exist in {open_table.layout.tables}. Run its application first."
        )
    return reading.applied_tick(open_table)
