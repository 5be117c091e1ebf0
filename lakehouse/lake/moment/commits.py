"""The commits of a table by lakehouse: the ticks that each took in, and the last version that still shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.lake.commit_log import CommitInfo, CommitLog

WRITES = ("MERGE", "WRITE")  # other operations' commits may carry lakehouse's text, but it is not theirs


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of ours: it took the table from `from_tick` (exclusive) to `tick`. `said` is its metadata.

    last: the last version before our next commit. Commits of others lie in between: OPTIMIZE, or somebody's UPDATE.
    """

    version: int
    tick: int
    from_tick: int
    last: int
    said: Mapping[str, Any] = field(default_factory=dict)
    time_ms: int = 0


def is_ours(said: CommitInfo, name: str) -> bool:
    """Say whether lakehouse made a commit, of the table whose progress is in the log under `name`."""
    return said.metadata.get("app") == f"lakehouse.{name}" and said.operation in WRITES


def commits(log: CommitLog, name: str, back_to: int | None = None, up_to: int | None = None) -> list[Commit]:
    """Return a table's commits by lakehouse that are still in its log, oldest first.

    back_to: the oldest tick of interest; commits before the one that reached it may be left out. up_to: the newest tick
    of interest; commits after the first one past it are left out.
    """
    found: list[Commit] = []
    for commit in ours(log, name, None if up_to is None else lambda said: said["tick"] > up_to):
        found.append(commit)
        if back_to is not None and commit.tick <= back_to and "from_tick" in commit.said:
            break
    return found[::-1]


def ours(log: CommitLog, name: str, past: Callable[[Mapping[str, Any]], bool | None] | None = None) -> Iterator[Commit]:
    """Yield a table's commits by lakehouse, newest first; the log is read only as far as they are asked for.

    past: of a commit's metadata, whether the commit is past the tick of interest (see `CommitLog.first`); commits after
    the first one past it are left out.
    """
    last = log.newest
    if past is not None:
        first = log.first(lambda said: past(said.metadata) if is_ours(said, name) else None)
        if first is not None:
            later = (v for v in range(first + 1, log.newest + 1) if (said := log.at(v)) and is_ours(said, name))
            last = next(later, log.newest + 1) - 1
    for said in log.back(last):
        if is_ours(said, name):
            tick = said.metadata["tick"]
            from_tick = said.metadata.get("from_tick", tick)
            yield Commit(said.version, tick, from_tick, last, said.metadata, said.time_ms)
            last = said.version - 1


def before_swap(log: CommitLog, name: str, tick: int) -> int | None:
    """Return the version before the first swap after a tick replaced the table's rows with others.

    None if there was no swap: the newest version still has the rows of the tick.
    """
    later = (commit for commit in commits(log, name, tick) if commit.tick > tick)
    return next((commit.version - 1 for commit in later if commit.said.get("operation") == "swap"), None)
