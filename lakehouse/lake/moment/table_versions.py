"""The versions of a table in its log: the commit time, the origin and the event times of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from lakehouse.lake.commit_log import CommitInfo, CommitLog
from lakehouse.lake.commit_metadata import EventTimes, RowsCommit, TableCommit, UnchangedRows
from lakehouse.lake.moment.commits import own_metadata

QUIET_OPERATIONS = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES")


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table. Times are in milliseconds since 1970.

    origin: nothing (no row changed), records, an intervention, or unknown. tick, from_tick: the tick to which, and from
    which, the version took the table; None for a commit that is not lakehouse's. first, through: the smallest event
    time of its records, and the largest of all records up to it; None without records. covers: `through` is known.
    newest_same: the newest version with the same rows.
    """

    version: int
    time_ms: int
    origin: Literal["nothing", "records", "intervention", "unknown"]
    tick: int | None = None
    from_tick: int | None = None
    covers: bool = False
    first: int | None = None
    through: int | None = None
    newest_same: int = -1

    def __str__(self) -> str:
        return f"version {self.version}" + ("" if self.tick is None else f" (tick {self.tick})")


def walk_versions(
    log: CommitLog, progress_name: str, state_log: CommitLog | None = None, *, restored: bool = False
) -> Iterator[Version]:
    """Yield the versions that a table's log has, newest first.

    progress_name: the name of its progress in the log. state_log: the log of its state, if that is more than the
    visible table; the commits of the visible table follow from the state's commits, which have the times. restored: the
    table began with rows that are in no commit.
    """
    state_commits = None if state_log is None else _StateCommits(walk_versions(state_log, f"state.{progress_name}"))
    newest_same = log.newest
    for commit in log.walk_back():
        version = replace(_version_of_commit(commit, progress_name, restored=restored), newest_same=newest_same)
        version = version if state_commits is None else state_commits.complete_version(version)
        yield version
        newest_same = newest_same if version.origin == "nothing" else version.version - 1


class _StateCommits:
    """The commits of a table's state, newest first."""

    def __init__(self, state_versions: Iterator[Version]) -> None:
        self._commits = state_versions
        self._next = next(state_versions, None)

    def complete_version(self, visible_version: Version) -> Version:
        """Return a version of the visible table with the origin and the times of the state's commits behind it."""
        if visible_version.origin == "nothing" or visible_version.tick is None or visible_version.from_tick is None:
            return visible_version
        state_versions = []
        while self._next is not None and (self._next.tick is None or self._next.tick > visible_version.from_tick):
            if self._next.origin != "nothing" and (self._next.tick is None or self._next.tick <= visible_version.tick):
                state_versions.append(self._next)
            self._next = next(self._commits, None)
        if not state_versions:
            return visible_version
        other_versions = [version for version in state_versions if version.origin != "records"]
        first_event_ms = min((version.first for version in state_versions if version.first is not None), default=None)
        change_kind = other_versions[0].origin if other_versions else "records"
        return replace(
            visible_version,
            origin=change_kind,
            covers=state_versions[0].covers,
            first=first_event_ms,
            through=state_versions[0].through,
        )


def _version_of_commit(commit: CommitInfo, progress_name: str, *, restored: bool) -> Version:
    metadata = own_metadata(commit, progress_name)
    if metadata is None:
        is_created = commit.operation == "CREATE TABLE" and not restored
        return Version(
            commit.version,
            commit.time_ms,
            "nothing" if is_created or commit.operation in QUIET_OPERATIONS else "unknown",
            covers=is_created,
        )
    content = metadata.content
    event_times = content.times if isinstance(content, TableCommit) else EventTimes()
    change_kind: Literal["nothing", "records", "intervention", "unknown"] = "unknown"
    if isinstance(content, UnchangedRows):
        change_kind = "nothing"
    elif content.operation is not None:
        change_kind = "intervention"
    elif isinstance(content, TableCommit) and (event_times.first is not None or content.counts.records):
        change_kind = "records"
    return Version(
        commit.version,
        commit.time_ms,
        change_kind,
        metadata.tick,
        content.from_tick if isinstance(content, RowsCommit) else metadata.tick,
        isinstance(content, TableCommit) and change_kind != "unknown",
        event_times.first,
        event_times.through,
    )
