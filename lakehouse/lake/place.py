"""Places of Delta tables with numbered commits: their paths, and the names of their progress in their logs.

A table has a place for its visible rows, one for its state, if that is more, and one for its late records. Streams have
places for their quarantines, and the lake has places for bronze and its interventions.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.lake.layout import Layout
from lakehouse.plan.table import Table

INGEST = "ingest"  # the name of bronze's progress in its log


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A Delta table that lakehouse writes: its path, and the name of its progress in its log."""

    path: str
    name: str


def visible_place(layout: Layout, table: Table) -> TablePlace:
    """Return the place of the visible table."""
    return TablePlace(layout.silver(table.name), table.name)


def state_place(layout: Layout, table: Table) -> TablePlace:
    """Return the place of a table's state: the visible table itself, if all of the state is visible."""
    return (
        TablePlace(layout.state(table.name), f"state.{table.name}") if table.has_state else visible_place(layout, table)
    )


def table_places(layout: Layout, table: Table) -> tuple[TablePlace, ...]:
    """Return a table's one or two places: the visible table, and the state."""
    return tuple(dict.fromkeys((visible_place(layout, table), state_place(layout, table))))


def late_place(layout: Layout, table: str) -> TablePlace:
    """Return the place of the records that came too late for a table."""
    return TablePlace(layout.late(table), f"late.{table}")


def quarantine_place(layout: Layout, stream: str) -> TablePlace:
    """Return the place of the records that did not fit a stream's schema."""
    return TablePlace(layout.quarantine(stream), f"quarantine.{stream}")


def bronze_place(layout: Layout) -> TablePlace:
    """Return the place of bronze's shared table, whose commits complete the ticks."""
    return TablePlace(layout.records, INGEST)


def own_topic_place(layout: Layout, topic: str) -> TablePlace:
    """Return the place of a topic's own table of bronze."""
    return TablePlace(layout.own_records(topic), INGEST)


def intervention_log_place(layout: Layout) -> TablePlace:
    """Return the place of the log of interventions."""
    return TablePlace(layout.interventions, "interventions")
