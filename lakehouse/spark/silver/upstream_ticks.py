"""How far other applications have brought the tables that this one reads.

A table waits for the tables that it reads: it takes in a tick when all of them have it. In one application they are
written first, in the same batch. Those of another application are another process's work, which may lag or be stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.alert import FunctionSink
from lakehouse.plan.app import App, input_stream
from lakehouse.plan.evolution.change import explain_upstream_refusal
from lakehouse.plan.table import Sink, Table
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.history import present_logic
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.table import timelines


@dataclass(frozen=True, slots=True)
class UpstreamWaiting:
    """Declarations, by name, that wait for a table of another application. tick: the last one that this table has."""

    upstream: str
    tick: int
    readers: tuple[str, ...]


class UpstreamTicks:
    """The last tick of each table that an application reads and another one keeps, as of the last `refresh`."""

    def __init__(self, lake: OpenLake, app: App) -> None:
        self._lake, self._upstream = lake, app.upstream
        self._declarations = app.declarations
        self._ticks = dict.fromkeys((table.name for table in app.upstream), NO_TICK)
        self._seen_ticks: list[int] = []  # those of bronze and of the tables' last commits, at the last refresh

    def refresh(self) -> bool:
        """Read the ticks anew; return whether one has advanced.

        Raises PlanError for a table that its application has replaced by one under another declaration.
        """
        if not self._upstream:
            return False
        places = [self._lake.bronze, *(self._lake.open(table).visible for table in self._upstream)]
        seen_ticks = [self._lake.progress(place).tick if self._lake.exists(place.path) else NO_TICK for place in places]
        if seen_ticks == self._seen_ticks:
            return False
        ticks = {table.name: timelines.common_tick(self._lake, [table]) for table in self._upstream}
        for table in self._upstream:
            self._check_declared_alike(table)
        has_advanced = ticks != self._ticks
        self._ticks, self._seen_ticks = ticks, seen_ticks
        return has_advanced

    def tick_limit(self, declaration: Table | Sink | FunctionSink, tick: int) -> int:
        """Return the last tick, up to this one, that all tables of other applications have that a declaration reads.

        The publication of a table of this application has the limit of that table.
        """
        if not self._upstream:
            return tick
        return min([tick, *(self._ticks[name] for name in self._names_above(declaration))])

    def find_waiting(self, tick: int) -> list[UpstreamWaiting]:
        """Return what can't have this tick yet, for each table that lacks it."""
        return [
            UpstreamWaiting(table.name, self._ticks[table.name], readers)
            for table in self._upstream
            if self._ticks[table.name] < tick
            and (
                readers := tuple(_name_of(item) for item in self._declarations if table.name in self._names_above(item))
            )
        ]

    def explain_missing_past(self, error: NotFound) -> NotFound:
        """Return the error of a batch that could not read a table's past, with what to do if another one keeps it."""
        if not self._upstream:
            return error
        return NotFound(
            f"{error} Tables of this application were behind it when another application gave it its new declaration: "
            "give them other names, so that they are built from bronze."
        )

    def _check_declared_alike(self, table: Table) -> None:
        change = present_logic.declaration_change(self._lake.open(table))
        if not change.can_go_on:
            raise PlanError(explain_upstream_refusal(table.name, change))

    def _names_above(self, declaration: Table | Sink | FunctionSink) -> Iterable[str]:
        return [table.name for table in input_stream(declaration).tables if table.name in self._ticks]


def _name_of(declaration: Table | Sink | FunctionSink) -> str:
    return declaration.topic if isinstance(declaration, Sink) else declaration.name
