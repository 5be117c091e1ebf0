"""Tables as their present logic makes them, also for the time before it was swapped in: a rebuild knows no other logic.

A table that is built from bronze reads the tables above it in this form, whenever it is built: only Delta's versions
keep the result of earlier logic, and they go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakehouse.errors import NotFound
from lakehouse.plan.evolution import change
from lakehouse.plan.evolution.change import Evolution
from lakehouse.semantics.commit_number import EVER, NO_TICK
from lakehouse.spark.bronze.interventions import Intervention, read_interventions
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import timelines
from lakehouse.spark.transaction import read_properties


def present_since(open_table: OpenTable) -> int:
    """Return the tick since which a live table is the result of its present logic, and that of the tables above.

    NO_TICK: always. EVER: not yet, because a table above it got other logic after its last rebuild, or because the
    lake has it under another declaration.
    """
    if not declaration_change(open_table).can_go_on:
        return EVER
    latest_above = max(
        (present_since(open_table.lake.open(upstream)) for upstream in open_table.table.stream.reads), default=NO_TICK
    )
    swaps = [
        intervention
        for intervention in read_interventions(open_table.lake, open_table.name)
        if intervention.kind == "swap"
    ]
    own_ticks = [intervention.at for intervention in swaps if brings_other_logic(intervention)]
    needed_tick = max(
        [NO_TICK, *own_ticks[-1:], *([latest_above] if latest_above > open_table.read_begin_tick() else [])]
    )
    return (
        needed_tick
        if needed_tick == NO_TICK
        else min((intervention.at for intervention in swaps if intervention.at >= needed_tick), default=EVER)
    )


def with_present_logic(open_table: OpenTable) -> OpenTable:
    """Return a live table as its present logic makes it at any tick: folded from bronze, with late and fixed records.

    Raises NotFound if the table never became that, because a table above it got other logic and it was not rebuilt.
    """
    if present_since(open_table) == EVER and declaration_change(open_table).can_go_on:
        raise NotFound(
            f"{_not_rebuilt(open_table)} Tables that read {open_table.name} can't be built from bronze before that."
        )
    return from_nothing(open_table)


def from_nothing(open_table: OpenTable) -> OpenTable:
    """Return a table at an empty place: reads fold its rows from bronze, with late and fixed records."""
    return open_table.beside(f"{open_table.name}-removed")


def is_behind(open_table: OpenTable) -> bool:
    """Say whether a table above got other logic since the table was built, or last rebuilt."""
    return bool(open_table.table.stream.tables) and present_since(open_table) == EVER


def check_declared_above(open_table: OpenTable, together: Collection[str] = ()) -> None:
    """Raise PlanError if the lake has a table above this one under another declaration: that table comes first.

    together: the tables that get their new declarations at the same tick.
    """
    live = open_table.lake.live
    change.check_declared_above(
        open_table.table,
        lambda upstream: None if upstream.name in together else _stored_properties(live.open(upstream)),
    )


def changed_above(open_table: OpenTable, after_tick: int) -> list[str]:
    """Return the names of the tables above a live table that got other logic after a tick."""
    return [name for name, swap in _changed_above(open_table) if swap.at > after_tick]


def refuse_other_logic_above(open_table: OpenTable, after_tick: int, to_tick: int) -> None:
    """Raise NotFound if a live table's changes in (after_tick, to_tick] come from earlier logic of a table above."""
    if open_table.layout.beside is not None or not open_table.table.stream.tables:
        return
    if after_tick == NO_TICK and to_tick < present_since(open_table):
        raise NotFound(_not_rebuilt(open_table))
    for name, swap in _changed_above(open_table):
        if (
            max(after_tick, open_table.read_begin_tick()) < swap.at
            and after_tick > NO_TICK
            and timelines.has_rows(open_table, after_tick, min(to_tick, swap.at - 1))
        ):
            raise NotFound(
                f"table {open_table.name!r} at tick {to_tick}: it reads {name}, which had another declaration until "
                f"tick {swap.at}, and no version or anchor of just that tick is left. The nearest one before it is of "
                f"tick {after_tick}."
            )


def brings_other_logic(intervention: Intervention) -> bool:
    """Say whether an intervention swaps in rows of another declaration, of the table itself or of a table above it."""
    return bool(intervention.details.get("changed"))


def without_earlier_logic(interventions: Sequence[Intervention]) -> Sequence[Intervention]:
    """Return the interventions from the last that brings other logic on; all of them if none does.

    Only earlier logic could apply those before it, and it replaces all rows.
    """
    numbers = [number for number, intervention in enumerate(interventions) if brings_other_logic(intervention)]
    return interventions[numbers[-1] :] if numbers else interventions


def refuse_earlier_logic(name: str, interventions: Sequence[Intervention], after_tick: int, to_tick: int) -> None:
    """Raise NotFound if a table's ticks in (after_tick, to_tick] were, or would have been, taken in by earlier logic.

    interventions: the interventions in the table.
    """
    later_ticks = [
        intervention.at
        for intervention in interventions
        if intervention.at > to_tick and brings_other_logic(intervention)
    ]
    if later_ticks:
        raise NotFound(
            f"table {name!r} at tick {to_tick}: it had another declaration until tick {later_ticks[-1]}, and no "
            f"version or anchor of just that tick is left. The nearest one before it is of tick {after_tick}."
        )


def declaration_change(open_table: OpenTable) -> Evolution:
    """Return how a table in the lake differs from its declaration; a missing table does not differ."""
    properties = _stored_properties(open_table)
    return Evolution("same") if properties is None else change.change_of(properties, open_table.table)


def _stored_properties(open_table: OpenTable) -> dict[str, str] | None:
    return read_properties(open_table.spark, open_table.visible.path) if open_table.table_exists() else None


def _not_rebuilt(open_table: OpenTable) -> str:
    name, swap = max(_changed_above(open_table), key=lambda item: item[1].at)
    return (
        f"table {open_table.name!r} reads {name}, which was given other logic at tick {swap.at}, and was not rebuilt "
        f"since: what it had read before is in its own versions alone. `lakehouse repair backfill {open_table.name}` "
        "rebuilds it."
    )


def _changed_above(open_table: OpenTable) -> list[tuple[str, Intervention]]:
    """Return the swaps to other logic of the tables above a table."""
    return [
        (upstream.name, intervention)
        for upstream in open_table.table.stream.tables
        for intervention in read_interventions(open_table.lake, upstream.name)
        if brings_other_logic(intervention)
    ]
