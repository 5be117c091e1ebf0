"""The facts in a lake's files that decide what a moment is; read by `files.LakeFiles` without a JVM, or by Spark."""

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
        """The table's commits: version, commit time, ticks, kind, times."""
        ...

    def properties(self) -> Mapping[str, str]:
        """Return the table's properties."""
        ...

    def tick(self, name: str) -> int:
        """Return the last tick in the table's progress of this name; `NO_TICK` if there is none."""
        ...

    def oldest_readable(self) -> int:
        """Return the oldest version from which on all versions can be read, as far as known."""
        ...


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """How far bronze is with a topic: the topic's id, and the first offset not yet in bronze, by partition.

    Partitions without records are left out.
    """

    id: str
    next: Mapping[int, int]


class LakeFacts(Protocol):
    """The files of one lake."""

    @property
    def layout(self) -> Layout: ...

    def open_table(self, path: str) -> TableLog | None:
        """Return the Delta table at a path; None if there is none."""
        ...

    def has_records(self, topics: Collection[str], after_tick: int, to_tick: int) -> bool:
        """Say whether bronze has records of these topics in the ticks (after_tick, to_tick]."""
        ...

    def topic_ends(self, topics: Iterable[str], to_tick: int) -> dict[str, TopicEnds]:
        """Return how far bronze's rows up to a tick reach in each topic; topics without rows are left out."""
        ...

    def has_interventions(self, table: str, after_tick: int, to_tick: int) -> bool:
        """Say whether somebody intervened in a table in the ticks (after_tick, to_tick]."""
        ...
