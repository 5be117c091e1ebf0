"""The Delta tables behind a table: what people see, and beside it the state, if that is more."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.lake.layout import Layout
from lakehouse.plan.table import Table


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A Delta table that lakehouse writes: its path, and the name of its progress in its log."""

    path: str
    name: str


def visible_of(layout: Layout, table: Table) -> TablePlace:
    """Return the place of the visible table."""
    return TablePlace(layout.silver(table.name), table.name)


def state_of(layout: Layout, table: Table) -> TablePlace:
    """Return the place of all that a table keeps: the visible table itself, if people see all of it."""
    return TablePlace(layout.state(table.name), f"state.{table.name}") if table.has_state else visible_of(layout, table)


def places(layout: Layout, table: Table) -> tuple[TablePlace, ...]:
    """Return a table's one or two places: the visible table, and the state."""
    return tuple(dict.fromkeys((visible_of(layout, table), state_of(layout, table))))
