"""Lakehouse's commits of a table: the ticks that each took in, and the last version with the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lakehouse.lake.commit_log import CommitInfo, CommitLog
from lakehouse.lake.commit_metadata import CommitContent, CommitMetadata, RowsCommit, TableCommit, app_id

WRITE_OPERATIONS = ("MERGE", "WRITE")  # commits of other operations may repeat lakehouse's metadata


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of lakehouse: it took the table from `from_tick` (exclusive) to `tick`.

    last: the last version before lakehouse's next commit. Commits of other writers lie in between: OPTIMIZE, or
    somebody's UPDATE. content: None for the commit that created the table.
    """

    version: int
    tick: int
    from_tick: int
    last: int
    content: CommitContent | None = None
    time_ms: int = 0

    @property
    def batch(self) -> TableCommit | None:
        """The content, if the commit is a batch of a table's state, or an intervention in it."""
        return self.content if isinstance(self.content, TableCommit) else None

    @property
    def begins_at_tick(self) -> bool:
        """False for a commit that opens an epoch: it does not go on from a tick."""
        return isinstance(self.content, RowsCommit)


def own_metadata(commit: CommitInfo, progress_name: str) -> CommitMetadata | None:
    """Return a commit's metadata if the commit is of the table whose progress is in the log under `progress_name`."""
    metadata = commit.metadata
    is_own = metadata is not None and metadata.app == app_id(progress_name) and commit.operation in WRITE_OPERATIONS
    return metadata if is_own else None


def read_own_commits(
    log: CommitLog, progress_name: str, back_to: int | None = None, up_to: int | None = None
) -> list[Commit]:
    """Return a table's commits by lakehouse that are still in its log, oldest first.

    back_to: the oldest tick of interest; commits before the commit that reached it may be left out. up_to: the newest
    tick of interest; commits after the first one past it are left out.
    """
    own_commits: list[Commit] = []
    for commit in walk_own_commits(
        log, progress_name, None if up_to is None else lambda metadata: metadata.tick > up_to
    ):
        own_commits.append(commit)
        if back_to is not None and commit.tick <= back_to and commit.begins_at_tick:
            break
    return own_commits[::-1]


def walk_own_commits(
    log: CommitLog, progress_name: str, is_past: Callable[[CommitMetadata], bool | None] | None = None
) -> Iterator[Commit]:
    """Yield a table's commits by lakehouse, newest first, and read the log only as far as they are consumed.

    is_past: called with a commit's metadata, says whether the commit is past the tick of interest (see
    `CommitLog.find_first`); commits after the first such one are left out.
    """
    last_version = log.newest
    if is_past is not None:
        first_later = log.find_first(
            lambda commit: is_past(metadata) if (metadata := own_metadata(commit, progress_name)) else None
        )
        if first_later is not None:
            later_versions = (
                version
                for version in range(first_later + 1, log.newest + 1)
                if (commit := log.commit_at(version)) and own_metadata(commit, progress_name)
            )
            last_version = next(later_versions, log.newest + 1) - 1
    for commit in log.walk_back(last_version):
        if (metadata := own_metadata(commit, progress_name)) is not None:
            tick, content = metadata.tick, metadata.content
            from_tick = content.from_tick if isinstance(content, RowsCommit) else tick
            yield Commit(commit.version, tick, from_tick, last_version, content, commit.time_ms)
            last_version = commit.version - 1


def version_before_swap(log: CommitLog, progress_name: str, tick: int) -> int | None:
    """Return the version before the first swap of the table's rows after a tick.

    None without a swap: the newest version still has the rows of the tick.
    """
    later_commits = (commit for commit in read_own_commits(log, progress_name, tick) if commit.tick > tick)
    return next(
        (commit.version - 1 for commit in later_commits if commit.content and commit.content.operation == "swap"), None
    )
