"""The versions of a table in its log: when each was committed, what made it, and its event times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from lakehouse.lake.commit_log import CommitInfo, CommitLog
from lakehouse.lake.moment.commits import is_ours
from lakehouse.semantics.epoch import OPEN_EPOCH

QUIET = ("OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES")


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table. Times are in milliseconds since 1970.

    made: by nothing (no row changed), by records, by an intervention, or unknown. tick, from_tick: the tick it took
    the table to, and from; None for a commit that is not lakehouse's. first, through: the smallest event time of its
    records, and the largest of all records up to it; None without records. covers: `through` is known. same: the newest
    version with the same rows.
    """

    version: int
    time_ms: int
    made: Literal["nothing", "records", "intervention", "unknown"]
    tick: int | None = None
    from_tick: int | None = None
    covers: bool = False
    first: int | None = None
    through: int | None = None
    same: int = -1

    def __str__(self) -> str:
        return f"version {self.version}" + ("" if self.tick is None else f" (tick {self.tick})")


def versions(log: CommitLog, name: str, kept: CommitLog | None = None, *, restored: bool = False) -> Iterator[Version]:
    """Yield the versions that a table's log has, newest first.

    name: the name of its progress in the log. kept: the log of its state, if that is more than the visible table: the
    commits of the visible table follow from those of the state, which have the times. restored: whether the table began
    with rows that are in no commit.
    """
    state = None if kept is None else _State(versions(kept, f"state.{name}"))
    same = log.newest
    for said in log.back():
        version = replace(_version(said, name, restored=restored), same=same)
        version = version if state is None else state.told(version)
        yield version
        same = same if version.made == "nothing" else version.version - 1


class _State:
    """The commits of a table's state, newest first."""

    def __init__(self, commits: Iterator[Version]) -> None:
        self._commits = commits
        self._next = next(commits, None)

    def told(self, seen: Version) -> Version:
        """Return a version of the visible table, with its kind and its times from the state's commits behind it."""
        if seen.made == "nothing" or seen.tick is None or seen.from_tick is None:
            return seen
        found = []
        while self._next is not None and (self._next.tick is None or self._next.tick > seen.from_tick):
            if self._next.made != "nothing" and (self._next.tick is None or self._next.tick <= seen.tick):
                found.append(self._next)
            self._next = next(self._commits, None)
        if not found:
            return seen
        odd = [version for version in found if version.made != "records"]
        first = min((version.first for version in found if version.first is not None), default=None)
        made = odd[0].made if odd else "records"
        return replace(seen, made=made, covers=found[0].covers, first=first, through=found[0].through)


def _version(commit: CommitInfo, name: str, *, restored: bool) -> Version:
    number, ms, said = commit.version, commit.time_ms, commit.metadata
    if not is_ours(commit, name):
        created = commit.operation == "CREATE TABLE" and not restored
        return Version(number, ms, "nothing" if created or commit.operation in QUIET else "unknown", covers=created)
    tick, times = said["tick"], said.get("times") or {}
    made: Literal["nothing", "records", "intervention", "unknown"] = "records"
    if "operation" in said:
        made = "nothing" if said["operation"] == OPEN_EPOCH else "intervention"
    elif "through" not in times or (times["first"] is None and not said.get("records")):
        made = "unknown"  # of an earlier release
    known = made in ("records", "intervention") and "through" in times
    return Version(number, ms, made, tick, said.get("from_tick", tick), known, times.get("first"), times.get("through"))
