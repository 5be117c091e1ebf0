"""The commits of a table by lakehouse: the ticks that each took in, and the last version that still shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.lake.commit_log import CommitInfo, CommitLog

WRITE_OPERATIONS = ("MERGE", "WRITE")  # other operations' commits may carry lakehouse's text, but it is not theirs


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


def is_own_commit(commit: CommitInfo, progress_name: str) -> bool:
    """Say whether lakehouse made a commit, of the table whose progress is in the log under `name`."""
    return commit.metadata.get("app") == f"lakehouse.{progress_name}" and commit.operation in WRITE_OPERATIONS


def read_own_commits(
    log: CommitLog, progress_name: str, back_to: int | None = None, up_to: int | None = None
) -> list[Commit]:
    """Return a table's commits by lakehouse that are still in its log, oldest first.

    back_to: the oldest tick of interest; commits before the one that reached it may be left out. up_to: the newest tick
    of interest; commits after the first one past it are left out.
    """
    own_commits: list[Commit] = []
    for commit in walk_own_commits(
        log, progress_name, None if up_to is None else lambda metadata: metadata["tick"] > up_to
    ):
        own_commits.append(commit)
        if back_to is not None and commit.tick <= back_to and "from_tick" in commit.said:
            break
    return own_commits[::-1]


def walk_own_commits(
    log: CommitLog, progress_name: str, is_past: Callable[[Mapping[str, Any]], bool | None] | None = None
) -> Iterator[Commit]:
    """Yield a table's commits by lakehouse, newest first; the log is read only as far as they are asked for.

    past: of a commit's metadata, whether the commit is past the tick of interest (see `CommitLog.first`); commits after
    the first one past it are left out.
    """
    last_version = log.newest
    if is_past is not None:
        first_later = log.first(
            lambda commit: is_past(commit.metadata) if is_own_commit(commit, progress_name) else None
        )
        if first_later is not None:
            later_versions = (
                version
                for version in range(first_later + 1, log.newest + 1)
                if (commit := log.at(version)) and is_own_commit(commit, progress_name)
            )
            last_version = next(later_versions, log.newest + 1) - 1
    for commit in log.walk_back(last_version):
        if is_own_commit(commit, progress_name):
            tick = commit.metadata["tick"]
            from_tick = commit.metadata.get("from_tick", tick)
            yield Commit(commit.version, tick, from_tick, last_version, commit.metadata, commit.time_ms)
            last_version = commit.version - 1


def version_before_swap(log: CommitLog, progress_name: str, tick: int) -> int | None:
    """Return the version before the first swap after a tick replaced the table's rows with others.

    None if there was no swap: the newest version still has the rows of the tick.
    """
    later_commits = (commit for commit in read_own_commits(log, progress_name, tick) if commit.tick > tick)
    return next((commit.version - 1 for commit in later_commits if commit.said.get("operation") == "swap"), None)
