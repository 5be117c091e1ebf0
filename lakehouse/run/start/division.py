"""Divides an application among processes: each keeps some of its tables, with what is published of them.

A table and the tables that read it stay together: they are a group. A topic or a function that gets a stream without
tables is a group of its own, and so is a stream that nothing reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakehouse.errors import ConfigError
from lakehouse.plan.alert import FunctionSink
from lakehouse.plan.app import App, input_stream, kept_tables
from lakehouse.plan.origin import Source
from lakehouse.plan.refused.near import suggest_near
from lakehouse.plan.table import Sink, Table

Unit = Table | Sink | FunctionSink | Source
PART = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class TableGroup:
    """The declarations that one process has to keep together, in their order."""

    units: tuple[Unit, ...]

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(unit for unit in self.units if isinstance(unit, Table))

    @property
    def names(self) -> tuple[str, ...]:
        """The names that choose the group: those of its tables, or of the topic, function or stream without any."""
        return tuple(table.name for table in self.tables) or tuple(_name_of(unit) for unit in self.units)

    def __str__(self) -> str:
        return ", ".join(_describe(unit) for unit in self.units)


def groups_of(app: App) -> tuple[TableGroup, ...]:
    """Return the groups of an application, in the order of their first declarations."""
    read_sources = {source for declaration in app.declarations for source in input_stream(declaration).sources}
    units: list[Unit] = [*app.declarations, *(source for source in app.sources if source not in read_sources)]
    groups: list[list[Unit]] = []
    for unit in units:
        linked_groups = [group for group in groups if _reads_from(unit, group)]
        merged_units = [linked_unit for group in linked_groups for linked_unit in group]
        groups = [group for group in groups if group not in linked_groups] + [[*merged_units, unit]]
    ordered_groups = [TableGroup(tuple(sorted(group, key=units.index))) for group in groups]
    return tuple(sorted(ordered_groups, key=lambda group: units.index(group.units[0])))


def part_of(app: App, part_text: str) -> App:
    """Return one part of an application, "1/3": its groups are dealt out by their size, the largest first.

    Equal declarations give equal parts, in every process. Raises ConfigError for another text, and for more parts than
    there are groups.
    """
    match = PART.fullmatch(part_text)
    number, part_count = (int(text) for text in match.groups()) if match else (1, 0)
    if number > part_count:
        raise ConfigError(f"part {part_text!r}: expected a number and a count, such as 1/3 for the first of three.")
    groups = groups_of(app)
    if part_count > len(groups):
        described_groups = "".join(f"\n  {group}" for group in groups)
        raise ConfigError(
            f"part {part_text}: the application has {len(groups)} groups of declarations that can be kept apart. "
            f"Expected at most {len(groups)} parts:{described_groups}"
        )
    parts: list[list[TableGroup]] = [[] for _ in range(part_count)]
    for group in sorted(groups, key=lambda group: -len(group.units)):
        min(parts, key=lambda part: sum(len(item.units) for item in part)).append(group)
    return _limit(app, parts[number - 1])


def limited_to(app: App, names: Sequence[str]) -> App:
    """Return an application with some of its tables, and all that is published of them.

    names: of tables; also topics, functions and streams that no table belongs to. Raises ConfigError for a name that is
    not there, and for a table that stays with one that is not named.
    """
    groups = groups_of(app)
    known_names = [name for group in groups for name in group.names]
    names_by_lower = {name.lower(): name for name in known_names}
    chosen_names = {name if name in known_names else names_by_lower.get(name.lower(), name) for name in names}
    if not chosen_names:
        raise ConfigError(f"tables: expected at least one name. There are: {', '.join(known_names)}.")
    for name in chosen_names:
        if name not in known_names:
            raise ConfigError(
                f"table {name!r} is not in this application.{suggest_near(name, known_names)} There are: "
                f"{', '.join(known_names)}."
            )
    chosen_groups = [group for group in groups if chosen_names & set(group.names)]
    for group in chosen_groups:
        if left_out := [name for name in group.names if name not in chosen_names]:
            table_name = next(name for name in group.names if name in chosen_names)
            raise ConfigError(
                f"table {table_name!r} stays in one process with {', '.join(map(repr, left_out))}: one reads "
                f"the other. Name them together: {','.join(group.names)}."
            )
    return _limit(app, chosen_groups)


def _limit(app: App, groups: Iterable[TableGroup]) -> App:
    chosen_units = [unit for group in groups for unit in group.units]
    sources = {source for unit in chosen_units for source in _sources_of(unit)}
    read_tables = {table.name for unit in chosen_units for table in _tables_of(unit)}
    return replace(
        app,
        tables=tuple(table for table in app.tables if table in chosen_units),
        sinks=tuple(sink for sink in app.sinks if sink in chosen_units),
        sources=tuple(source for source in app.sources if source in sources),
        functions=tuple(function for function in app.functions if function in chosen_units),
        upstream=tuple(table for table in app.upstream if table.name in read_tables),
    )


def _reads_from(unit: Unit, group: Iterable[Unit]) -> bool:
    """Say whether a unit reads a table of a group. A group's units were declared before it, so none reads the unit."""
    tables = {table.name for table in _tables_of(unit)}
    return any(isinstance(item, Table) and item.name in tables for item in group)


def _tables_of(unit: Unit) -> tuple[Table, ...]:
    return () if isinstance(unit, Source) else kept_tables(unit)


def _sources_of(unit: Unit) -> tuple[Source, ...]:
    return (unit,) if isinstance(unit, Source) else input_stream(unit).sources


def _name_of(unit: Unit) -> str:
    return unit.topic if isinstance(unit, Sink) else unit.name


def _describe(unit: Unit) -> str:
    kind = {Table: "table", Sink: "topic", FunctionSink: "function", Source: "stream"}[type(unit)]
    return f"{kind} {_name_of(unit)}"
