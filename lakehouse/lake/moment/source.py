"""The facts of a lake's files that decide what a moment is. Read by `files.Files` without a JVM, and by Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.layout import Layout


class TableLog(Protocol):
    """A Delta table as it is now."""

    @property
    def log(self) -> CommitLog:
        """Its commits: version, commit time, ticks, kind, times."""
        ...

    def properties(self) -> Mapping[str, str]:
        """Return its properties."""
        ...

    def tick(self, name: str) -> int:
        """Return the last tick that the table took in under a name; `NO_TICK` for none."""
        ...

    def oldest_readable(self) -> int:
        """Return the oldest version from which on all versions can be read, as far as that is known."""
        ...


@dataclass(frozen=True, slots=True)
class Ends:
    """How far bronze is with a topic: the id that the topic has then, and by partition the first offset not yet there.

    Only partitions with records are in it.
    """

    id: str
    next: Mapping[int, int]


class LakeFacts(Protocol):
    """The files of one lake."""

    @property
    def layout(self) -> Layout: ...

    def opened(self, path: str) -> TableLog | None:
        """Open the Delta table at a path; None if there is none."""
        ...

    def has_records(self, topics: Collection[str], after_tick: int, to_tick: int) -> bool:
        """Say whether bronze has records of these topics in the ticks (after, to]."""
        ...

    def ends(self, topics: Iterable[str], to_tick: int) -> dict[str, Ends]:
        """Return how far the rows of bronze up to a tick are with topics; topics without rows are left out."""
        ...

    def has_interventions(self, table: str, after_tick: int, to_tick: int) -> bool:
        """Say whether somebody intervened in a table in the ticks (after, to]."""
        ...
