"""Tables as their present logic makes them, also for the time before it was swapped in: a rebuild knows no other logic.

A table that is built from bronze reads the tables above it so, whenever it is built: what earlier logic made of bronze
is kept in versions alone, and these go.
"""

from __future__ import annotations

from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.evolution.change import Evolution, change_of, refusal
from lakehouse.semantics.epoch import EVER, NO_TICK
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import Decision
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import travel
from lakehouse.spark.transaction import properties


def since(opened: OpenTable) -> int:
    """Return the tick from which on a live table is what its present logic, and that of the tables above, makes.

    NO_TICK: always. EVER: not yet, because a table above it was given other logic after its last rebuild, or because
    the lake has it under another declaration.
    """
    if not _change(opened).can_go_on:
        return EVER
    above = max((since(opened.lake.open(upstream)) for upstream in opened.table.stream.reads), default=NO_TICK)
    swaps = [at for at in interventions.of(opened.lake, opened.name) if at.kind == "swap"]
    own = [at.at for at in swaps if at.details.get("changed")]
    needed = max([NO_TICK, *own[-1:], *([above] if above > opened.began else [])])
    return needed if needed == NO_TICK else min((at.at for at in swaps if at.at >= needed), default=EVER)


def always(opened: OpenTable) -> OpenTable:
    """Return a live table as its present logic makes it at any tick: folded from bronze, with late and fixed records.

    Raises NotFound if the table does not come to be that: what it holds is in no bronze.
    """
    if since(opened) == EVER and _change(opened).can_go_on:
        raise NotFound(f"{_not_rebuilt(opened)} Tables that read {opened.name} can't be built from bronze before that.")
    return from_nothing(opened)


def from_nothing(opened: OpenTable) -> OpenTable:
    """Return a table at a place where nothing is: its rows are folded from bronze, with late and fixed records."""
    return opened.beside(f"{opened.name}-removed")


def is_behind(opened: OpenTable) -> bool:
    """Say whether a table above was given other logic since the table was built, or last rebuilt."""
    return bool(opened.table.stream.tables) and since(opened) == EVER


def check_declared_above(opened: OpenTable) -> None:
    """Raise PlanError if the lake has a table above this one under another declaration: that one comes first."""
    for upstream in opened.table.stream.tables:
        change = _change(opened.lake.live.open(upstream))
        if not change.can_go_on:
            raise PlanError(
                f"{refusal(upstream.name, change)}\nTable {opened.name!r} reads it: its turn comes afterwards."
            )


def refuse_other_logic_above(opened: OpenTable, after: int, to: int) -> None:
    """Raise NotFound if a live table's changes in the ticks (after, to] come from earlier logic of a table above it."""
    if opened.layout.beside is not None or not opened.table.stream.tables:
        return
    if after == NO_TICK and to < since(opened):
        raise NotFound(_not_rebuilt(opened))
    for name, at in _changed_above(opened):
        if max(after, opened.began) < at.at and after > NO_TICK and travel.has_rows(opened, after, min(to, at.at - 1)):
            raise NotFound(
                f"table {opened.name!r} at tick {to}: it reads {name}, which had another declaration until tick "
                f"{at.at}, and no version or anchor of just that tick is left. The nearest one before it is of tick "
                f"{after}."
            )


def _change(opened: OpenTable) -> Evolution:
    """How a table in the lake differs from its declaration; one that is not there does not."""
    return (
        change_of(properties(opened.spark, opened.visible.path), opened.table) if opened.exists else Evolution("same")
    )


def _not_rebuilt(opened: OpenTable) -> str:
    name, at = max(_changed_above(opened), key=lambda item: item[1].at)
    return (
        f"table {opened.name!r} reads {name}, which was given other logic at tick {at.at}, and was not rebuilt since: "
        f"what it had read before is in its own versions alone. `lakehouse repair backfill {opened.name}` "
        "rebuilds it."
    )


def _changed_above(opened: OpenTable) -> list[tuple[str, Decision]]:
    """The swaps to other logic of the tables above a table."""
    return [
        (upstream.name, at)
        for upstream in opened.table.stream.tables
        for at in interventions.of(opened.lake, upstream.name)
        if at.details.get("changed")
    ]
