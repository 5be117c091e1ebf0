"""The table whose past a query reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.lake.layout import Layout
from lakehouse.lake.place import table_places
from lakehouse.plan.evolution.change import tables_of, topics_of
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table


@dataclass(frozen=True, slots=True)
class TableInputs:
    """The inputs of a table: its topics, and the tables between them and it, by name."""

    topics: frozenset[str]
    tables: frozenset[str] = frozenset()

    @staticmethod
    def of_stream(stream: Stream) -> TableInputs:
        """Return the inputs of a table that is made from a stream."""
        return TableInputs(frozenset(stream.topics), frozenset(table.name for table in stream.tables))


def reads_from_properties(properties: Mapping[str, str]) -> TableInputs | None:
    """Return the inputs of a table according to its properties; None if these don't tell."""
    topics = topics_of(properties)
    return None if topics is None else TableInputs(topics, tables_of(properties))


@dataclass(frozen=True, slots=True)
class Subject:
    """A Delta table whose past a query reads. table: the name under which its interventions are logged.

    label: its name in messages. path, name: its folder, and the name of its progress in its log. state: the path and
    name of its state, if that is more than the visible table. reads: its inputs, if known; otherwise its properties
    tell.
    """

    table: str
    label: str
    path: str
    name: str
    state: tuple[str, str] | None = None
    reads: TableInputs | None = None


def visible_subject(layout: Layout, table: str, reads: TableInputs | None = None) -> Subject:
    """Return the subject for the visible rows of a table."""
    state_place = (layout.state(table), f"state.{table}")
    return Subject(table, f"table {table!r}", layout.silver(table), table, state_place, reads)


def state_subject(layout: Layout, table: str, reads: TableInputs | None = None) -> Subject:
    """Return the subject for the state of a table."""
    state_name = f"state.{table}"
    return Subject(table, state_name, layout.state(table), state_name, None, reads)


def declared_subject(layout: Layout, table: Table) -> Subject:
    """Return the subject for the visible rows of a declared table."""
    return visible_subject(layout, table.name, TableInputs.of_stream(table.stream))


def declared_state_subject(layout: Layout, table: Table) -> Subject:
    """Return the subject for the state of a declared table, which may be the visible table itself."""
    make_subject = visible_subject if len(table_places(layout, table)) == 1 else state_subject
    return make_subject(layout, table.name, TableInputs.of_stream(table.stream))
