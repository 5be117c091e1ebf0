"""Which Delta tables a table has: what people see, and beside it the state, where that is more."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.lake.layout import Layout
from lakehouse.plan.table import Table


@dataclass(frozen=True, slots=True)
class Place:
    """A Delta table that lakehouse writes: its path, and the name under which its progress stands in its log."""

    path: str
    name: str


def visible_of(layout: Layout, table: Table) -> Place:
    """Return where what people see of a table lies."""
    return Place(layout.silver(table.name), table.name)


def state_of(layout: Layout, table: Table) -> Place:
    """Return where all lies that a table keeps: the visible table itself, where people see all of it."""
    return Place(layout.state(table.name), f"state.{table.name}") if table.has_state else visible_of(layout, table)


def places(layout: Layout, table: Table) -> tuple[Place, ...]:
    """Return where a table lies: one place, or two: the visible table, and the state."""
    return tuple(dict.fromkeys((visible_of(layout, table), state_of(layout, table))))
