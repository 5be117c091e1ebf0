"""The commits of a Delta table, read from its log one by one, and no further back than needed.

Spark's `history()` takes more than a minute for a log of 20,000 commits. The wanted commit is nearly always near the
end; older commits are found by bisection, because ticks and commit times only grow from commit to commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.lake import store
from lakehouse.lake.commit_metadata import BronzeTick, CommitMetadata, TopicState, parse_metadata
from lakehouse.semantics.commit_number import NO_TICK


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """The description in one commit. `metadata` is lakehouse's; None in a commit of another writer."""

    version: int
    operation: str
    time_ms: int
    metadata: CommitMetadata | None = None


# Called with a version; yields the lines of its commit's file one by one: in a large commit, many lines follow the
# wanted one.
ReadLines = Callable[[int], Iterator[str]]


class CommitLog:
    """The log of the table at `path` up to a version.

    `read_lines` raises FileNotFoundError if a commit's file is gone. All methods raise StorageError for a commit whose
    metadata lakehouse wrote in another format: see `lakehouse.lake.commit_metadata`.
    """

    def __init__(self, read_lines: ReadLines, newest_version: int, path: str) -> None:
        self._read, self.newest, self._path = read_lines, newest_version, path

    def commit_at(self, version: int) -> CommitInfo | None:
        """Return the description of a version's commit; None if it is not in the log, or no longer."""
        commit_info = self.info_at(version)
        return None if commit_info is None else self._describe_info(version, commit_info)

    def info_at(self, version: int) -> dict[str, Any] | None:
        """Return what a version's commit says about itself, as Delta has it; {} if its writer wrote nothing.

        None if the commit is not in the log, or no longer.
        """
        if not 0 <= version <= self.newest:
            return None
        try:
            return _find_info(self._read(version))
        except FileNotFoundError:
            return None

    def lines(self, version: int) -> list[str] | None:
        """Return the lines of a version's commit, an action each; None if it is no longer in the log."""
        try:
            return list(self._read(version))
        except FileNotFoundError:
            return None

    def describe(self, version: int, lines: Iterable[str]) -> CommitInfo:
        """Return the description in the lines of a version's commit; no more of them are read than needed."""
        return self._describe_info(version, _find_info(lines))

    def _describe_info(self, version: int, commit_info: dict[str, Any]) -> CommitInfo:
        metadata = parse_metadata(commit_info.get("userMetadata"), f"version {version} of {self._path}")
        return CommitInfo(version, commit_info.get("operation", ""), commit_time_ms(commit_info), metadata)

    def walk_back(self, version: int | None = None) -> Iterator[CommitInfo]:
        """Yield the commits from a version, or the newest one, back to where the log begins."""
        version_number = self.newest if version is None else version
        while (commit := self.commit_at(version_number)) is not None:
            yield commit
            version_number -= 1

    def oldest_version(self) -> int:
        """Return the first version that the log still has: Delta removes old commits from its beginning."""
        low_version, high_version = 0, self.newest
        while low_version < high_version:
            middle_version = (low_version + high_version) // 2
            low_version, high_version = (
                (low_version, middle_version)
                if self.commit_at(middle_version) is not None
                else (middle_version + 1, high_version)
            )
        return low_version

    def until(self, version: int) -> CommitLog:
        """Return the same log up to an earlier version."""
        return CommitLog(self._read, version, self._path)

    def find_first(self, predicate: Callable[[CommitInfo], bool | None]) -> int | None:
        """Return the first version whose commit satisfies a predicate; None if there is none.

        predicate: gives None for a commit that does not tell. Once it is true, it must be true for all later commits
        that tell.
        """
        low_version, high_version, step_width = 0, self.newest + 1, 1
        while low_version < high_version:
            # Near the end first: most searches are for the newest commits.
            middle_version, step_width = (
                max((low_version + high_version) // 2, high_version - step_width),
                step_width * 2,
            )
            judged_commits = (
                (commit.version, answer)
                for commit in self.walk_back(middle_version)
                if (answer := predicate(commit)) is not None
            )
            judged_version, is_past = next(judged_commits, (middle_version, False))
            low_version, high_version = (low_version, judged_version) if is_past else (middle_version + 1, high_version)
        return low_version if low_version <= self.newest else None


@dataclass(frozen=True, slots=True)
class TickCoverage:
    """The progress of bronze with each topic at the end of a tick."""

    tick: int = NO_TICK
    topics: Mapping[str, TopicState] = field(default_factory=dict)

    def next_offsets(self, topic: str) -> Mapping[int, int]:
        """Return the first offset of a topic that bronze lacks, by partition; {} for a topic without records."""
        return self.topics[topic].next if topic in self.topics else {}

    def last_tick(self, topics: Iterable[str]) -> int:
        """Return the last tick that moved one of these topics; `NO_TICK` if none did."""
        topic_states = (self.topics[topic] for topic in topics if topic in self.topics)
        return max((tick for topic_state in topic_states for tick in topic_state.last.values()), default=NO_TICK)


def tick_coverage(commit: CommitInfo) -> TickCoverage | None:
    """Return what a commit of bronze says about its tick; None for another commit."""
    if commit.metadata is None or not isinstance(commit.metadata.content, BronzeTick):
        return None
    return TickCoverage(commit.metadata.tick, commit.metadata.content.topics)


def find_tick_coverage(log: CommitLog, tick: int | None = None) -> TickCoverage | None:
    """Return the coverage in bronze's commit of a tick (default: the last); None if the log lacks that commit."""
    commit = find_tick_commit(log, tick)
    return None if commit is None else tick_coverage(commit)


def find_tick_commit(log: CommitLog, tick: int | None = None) -> CommitInfo | None:
    """Return bronze's commit of a tick (default: the last); None if the log lacks it."""

    def is_past(commit: CommitInfo) -> bool | None:
        coverage = tick_coverage(commit)
        return None if coverage is None or tick is None else coverage.tick > tick

    later_version = None if tick is None else log.find_first(is_past)
    for commit in log.walk_back(None if later_version is None else later_version - 1):
        if (coverage := tick_coverage(commit)) is not None:
            return commit if tick is None or coverage.tick == tick else None
    return None


def open_log(path: str, newest_version: int) -> CommitLog:
    """Return the log of the table at a path, read without a JVM."""
    return CommitLog(lambda version: store.read_lines(f"{path}/_delta_log/{version:020}.json"), newest_version, path)


def commit_time_ms(commit_info: Mapping[str, Any]) -> int:
    """Return a commit's time, the same as in Spark: copying the table's files does not change it. 0 if it has none."""
    return int(commit_info.get("inCommitTimestamp") or commit_info.get("timestamp") or 0)


def _find_info(lines: Iterable[str]) -> dict[str, Any]:
    # It is the first line if in-commit timestamps are on; other writers may put it anywhere.
    info_line = next((line for line in lines if line.startswith('{"commitInfo"')), None)
    return {} if info_line is None else dict(json.loads(info_line)["commitInfo"])
