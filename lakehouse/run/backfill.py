"""Backfills: a table's rows made anew from bronze, with the old logic or with new one, while the live job goes on.

A range is refolded in place: the keys that its records touch are made anew, with all their records. The whole table is
built beside the live one, in chunks that an interrupted build goes on after, compared with it key by key, and swapped
in: one MERGE of the rows that differ, under the next epoch. The content before it is kept as an anchor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakehouse.delta import anchors, folders, reading, tables
from lakehouse.delta.content import Differing, differing
from lakehouse.delta.interventions import Decision, Kind, Wanted
from lakehouse.delta.layout import Layout
from lakehouse.delta.lease import Lease
from lakehouse.delta.moments import Cut, Past
from lakehouse.delta.silver_query import Silver
from lakehouse.delta.transaction import properties
from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.app import App
from lakehouse.plan.change import DECLARATION, declared
from lakehouse.plan.schema import check_name
from lakehouse.plan.table import Table
from lakehouse.run.intervene import intervene
from lakehouse.semantics.moment import AtTick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill changed, or would change; `tick` is that of the intervention, None where nothing was applied."""

    differing: Differing
    tick: int | None


@dataclass(frozen=True, slots=True)
class Range:
    """Which records: of event times in [first_ms, last_ms], or of offsets {topic: {partition: [first, last]}}."""

    first_ms: int | None = None
    last_ms: int | None = None
    offsets: Mapping[str, Mapping[int, tuple[int, int]]] | None = None

    def details(self) -> dict[str, Any]:
        """Return it as an intervention writes it down."""
        times = {"first_ms": self.first_ms, "last_ms": self.last_ms}
        if self.offsets is None:
            return times
        parts = {topic: {str(p): list(ends) for p, ends in of.items()} for topic, of in self.offsets.items()}
        return {**times, "offsets": parts}


def backfill_range(
    spark: SparkSession, layout: Layout, app: App, table: Table, of: Range, *, reason: str = "", dry_run: bool = False
) -> Backfilled:
    """Refold the keys that a range's records touch. Raises PlanError where the declaration is not the table's."""
    if declared(table)[DECLARATION] != _declaration(spark, layout, table):
        raise PlanError(
            f"table {table.name!r}: a range can be made anew under the declaration that the table has. For new logic "
            "leave the range out: the whole table is built beside the live one, and swapped in."
        )
    found = _effect(spark, layout, table, "refold", of.details())
    if dry_run or found.equal:
        return Backfilled(found, None)
    wanted = Wanted("refold", (table.name,), of.details(), reason)
    return Backfilled(found, intervene(spark, layout, app, wanted))


def backfill(
    spark: SparkSession,
    layout: Layout,
    app: App,
    table: Table,
    *,
    name: str | None = None,
    reason: str = "",
    dry_run: bool = False,
    listen: Progress = lambda tick, records: None,
) -> Backfilled:
    """Build the whole table beside the live one, compare, and swap it in where it differs.

    name: of the build; that of the table if left out. An interrupted build of that name goes on. listen: is told of
    every chunk, its last tick and its records. Raises PlanError for a declaration that the table can't take, LeaseHeld
    for another declaration while a job keeps the table, or while another backfill builds it.
    """
    if (refused := tables.swap_refusal(spark, layout, table)) is not None:
        raise PlanError(refused)
    changed = declared(table)[DECLARATION] != _declaration(spark, layout, table)
    beside = build(spark, layout, table, name or table.name, listen=listen)
    found = compare(spark, layout, beside, table)
    if dry_run or (found.equal and not changed):
        return Backfilled(found, None)
    details = {"beside": beside.beside, "declaration": declared(table)[DECLARATION], "changed": changed}
    wanted = Wanted("swap", (table.name,), details, reason)
    if changed:
        # A job with the old logic must not go on with the new content.
        Lease(layout.lease(f"silver-{table.name}"), f"table {table.name!r}").acquire().release()
    anchors.keep(spark, layout, table, _applied(spark, layout, table), f"before {reason or 'a backfill'}")
    at = intervene(spark, layout, app, wanted)
    folders.remove(spark, beside.tables)
    return Backfilled(found, at)


def build(
    spark: SparkSession, layout: Layout, table: Table, name: str, *, to: int | None = None, listen: Progress
) -> Layout:
    """Build a table beside the live ones, up to a tick, or to the last complete one; return where it lies."""
    beside = replace(layout, beside=check_name(name, "build"))
    alone = App((table,), (), table.stream.sources)
    with Silver(spark, beside, alone, listen) as silver:
        silver.catch_up(to)
    return beside


def compare(spark: SparkSession, layout: Layout, beside: Layout, table: Table) -> Differing:
    """Compare what people see of the live table with what was built, at the last tick that both have taken in."""
    tick = min(_applied(spark, layout, table), _applied(spark, beside, table))
    live = reading.read(spark, layout, table, AtTick(tick))
    return differing(table.key, live, Past(spark, beside, table).seen(Cut(tick)))


def revert(
    spark: SparkSession, layout: Layout, app: App, table: Table, to: Cut, *, reason: str = "", dry_run: bool = False
) -> Backfilled:
    """Make the live table what it was at a moment; what comes later goes on from there.

    The clock stays: windows that have closed since are not open again.
    """
    found = _effect(spark, layout, table, "revert", to.details())
    if dry_run or found.equal:
        return Backfilled(found, None)
    anchors.keep(spark, layout, table, _applied(spark, layout, table), f"before {reason or 'a revert'}")
    return Backfilled(found, intervene(spark, layout, app, Wanted("revert", (table.name,), to.details(), reason)))


def _declaration(spark: SparkSession, layout: Layout, table: Table) -> str | None:
    """The declaration that a table carries."""
    return properties(spark, layout.silver(table.name)).get(DECLARATION)


def _effect(spark: SparkSession, layout: Layout, table: Table, kind: Kind, details: Mapping[str, Any]) -> Differing:
    """What an intervention would change now."""
    applied = _applied(spark, layout, table)
    past = Past(spark, layout, table, [Decision(applied + 1, "", kind, details)])
    return differing(table.key, past.seen(Cut(applied)), past.seen(Cut(applied + 1)))


def _applied(spark: SparkSession, layout: Layout, table: Table) -> int:
    if not tables.exists(spark, layout.silver(table.name)):
        raise NotFound(f"table {table.name!r} does not exist in {layout.tables}. Run its application first.")
    return reading.applied_tick(spark, layout, table)
