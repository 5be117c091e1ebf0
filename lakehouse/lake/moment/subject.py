"""The table whose past is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.lake.layout import Layout


@dataclass(frozen=True, slots=True)
class Subject:
    """A Delta table whose past is asked for. table: the name by which interventions in it are kept.

    what: how people are told of it. path, name: where it lies, and the name under which its progress stands in its log.
    kept: path and name of what it keeps, where that is more than what is seen. topics: those that it reads, if they are
    known; otherwise its properties tell.
    """

    table: str
    what: str
    path: str
    name: str
    kept: tuple[str, str] | None = None
    topics: frozenset[str] | None = None


def visible(layout: Layout, table: str, topics: Iterable[str] | None = None) -> Subject:
    """Return what people see of a table."""
    kept, read = (layout.state(table), f"state.{table}"), None if topics is None else frozenset(topics)
    return Subject(table, f"table {table!r}", layout.silver(table), table, kept, read)


def state(layout: Layout, table: str, topics: Iterable[str] | None = None) -> Subject:
    """Return what a table keeps and does not show."""
    name, read = f"state.{table}", None if topics is None else frozenset(topics)
    return Subject(table, name, layout.state(table), name, None, read)
