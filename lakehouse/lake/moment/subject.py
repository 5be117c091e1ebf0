"""The table whose past is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.lake.layout import Layout
from lakehouse.lake.place import table_places
from lakehouse.plan.evolution.change import tables_of, topics_of
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table


@dataclass(frozen=True, slots=True)
class Reads:
    """What a table is made from: topics, and the tables between them and it, by name."""

    topics: frozenset[str]
    tables: frozenset[str] = frozenset()

    @staticmethod
    def of(stream: Stream) -> Reads:
        """Return what the table of a stream is made from."""
        return Reads(frozenset(stream.topics), frozenset(table.name for table in stream.tables))


def reads_from_properties(properties: Mapping[str, str]) -> Reads | None:
    """Return what a table is made from, by its properties; None if they don't tell."""
    topics = topics_of(properties)
    return None if topics is None else Reads(topics, tables_of(properties))


@dataclass(frozen=True, slots=True)
class Subject:
    """A Delta table whose past is asked for. table: the name by which its interventions are kept.

    what: its name in messages. path, name: where it lies, and the name of its progress in its log. state: path and name
    of its state, if that is more than the visible table. reads: what it is made from, if that is known; otherwise its
    properties tell.
    """

    table: str
    what: str
    path: str
    name: str
    state: tuple[str, str] | None = None
    reads: Reads | None = None


def visible_subject(layout: Layout, table: str, reads: Reads | None = None) -> Subject:
    """Return what people see of a table."""
    state_place = (layout.state(table), f"state.{table}")
    return Subject(table, f"table {table!r}", layout.silver(table), table, state_place, reads)


def state_subject(layout: Layout, table: str, reads: Reads | None = None) -> Subject:
    """Return what a table keeps and does not show."""
    state_name = f"state.{table}"
    return Subject(table, state_name, layout.state(table), state_name, None, reads)


def declared_subject(layout: Layout, table: Table) -> Subject:
    """Return what people see of a declared table."""
    return visible_subject(layout, table.name, Reads.of(table.stream))


def declared_state_subject(layout: Layout, table: Table) -> Subject:
    """Return what a declared table keeps, which may be the same as what people see."""
    make_subject = visible_subject if len(table_places(layout, table)) == 1 else state_subject
    return make_subject(layout, table.name, Reads.of(table.stream))
