"""Decide which version of a table, and which records, belong to a moment, wherever the files lie.

A version is the table at a moment if it contains exactly the records that count then. Without such a version, the
moment lies between versions, and the table can be folded from the records that count.

    version       itself; the records up to its tick
    commit time   the last version that was committed by then
    tick          the last version up to it, if no record came and nobody intervened in between
    event time T  the version that has every record up to T and none later: its `through` is not after T, the `first`
                  of all later versions is, and nobody intervened since; the records up to T of the ticks that the
                  table has taken in
    offsets       the version at the tick after which bronze was at these offsets, if nobody intervened since; the
                  records before them, of the ticks that the table has taken in

A table has taken in a tick once that tick, and all ticks before it, can no longer change the table: a tick without
records for it at once, a tick with an intervention once the intervention has been applied.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import takewhile

from lakehouse.errors import NotFound
from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.moment import offsets as bronze_offsets
from lakehouse.lake.moment.commits import Commit, read_own_commits, walk_own_commits
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.moment.lake_facts import LakeFacts, TableLog
from lakehouse.lake.moment.offsets import OffsetBounds
from lakehouse.lake.moment.past_subject import Subject, TableInputs, reads_from_properties, visible_subject
from lakehouse.lake.moment.table_versions import Version, walk_versions
from lakehouse.lake.place import INGEST
from lakehouse.lake.properties import SKIP
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.epoch_time import moment_text
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion


class Timeline:
    """The past of one table, from the facts of its lake."""

    def __init__(self, lake_facts: LakeFacts, subject: Subject) -> None:
        """Raise NotFound if there is no such table."""
        table_log = lake_facts.open_table(subject.path)
        if table_log is None:
            raise NotFound(
                f"{subject.label} does not exist in {lake_facts.layout.root}. `lakehouse look tables` lists what does; "
                "`lakehouse run` makes them."
            )
        self._lake_facts, self._table_log, self.subject = lake_facts, table_log, subject

    @property
    def log(self) -> CommitLog:
        """The table's commits."""
        return self._table_log.log

    @property
    def newest_version(self) -> int:
        """The table's newest version."""
        return self.log.newest

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self._table_log.properties()

    @cached_property
    def _reads(self) -> TableInputs | None:
        return self.subject.reads or reads_from_properties(self.properties)

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics that the table reads; None if unknown."""
        return None if self._reads is None else self._reads.topics

    @cached_property
    def last_tick(self) -> int:
        """The tick of the table's last commit."""
        return self._table_log.tick(self.subject.name)

    @cached_property
    def complete_tick(self) -> int:
        """Bronze's last complete tick."""
        return NO_TICK if self._bronze_log is None else self._bronze_log.tick(INGEST)

    @cached_property
    def applied_tick(self) -> int:
        """The last tick that the table has taken in."""
        return (
            max(self.last_tick, self.complete_tick)
            if not self.may_differ(self.last_tick, self.complete_tick)
            else self.last_tick
        )

    def may_differ(self, after_tick: int, to_tick: int) -> bool:
        """Say whether the table may differ between the two ticks, by records or by an intervention."""
        if to_tick <= after_tick:
            return False
        if self.topics is None or self._has_interventions(after_tick, to_tick):
            return True
        return self._lake_facts.has_records(self.topics, after_tick, to_tick)

    def _has_interventions(self, after_tick: int, to_tick: int) -> bool:
        """Say whether somebody intervened in the table or one of its inputs, which changes it as records do."""
        upstream_tables = () if self._reads is None else sorted(self._reads.tables)
        return any(
            self._lake_facts.has_interventions(name, after_tick, to_tick)
            for name in (self.subject.table, *upstream_tables)
        )

    def cut(self, moment: At | None) -> Cut:
        """Return the records that make up the table at a moment; None is now.

        Raises NotFound for a moment that can't be read; the message says which can. Raises ConfigError for offsets that
        leave out a partition.
        """
        match moment:
            case None:
                return Cut(self.applied_tick)
            case AtVersion(number):
                return Cut(self._tick_of(number))
            case AtCommit():
                return Cut(self._tick_of(self.version_committed_by(moment)))
            case AtTick(tick):
                self._check_tick(tick)
                return Cut(tick)
            case AtEvent(ms):
                return Cut(self.applied_tick, event_ms=ms)
            case AtOffsets(offsets):
                topic_ids = self._check_offsets(moment)
                return Cut(self.applied_tick, offsets=offsets, ids=topic_ids)

    def version(self, moment: At | None) -> int | None:
        """Return the version at a moment; None for a moment between versions.

        The version's files may be gone. Raises as `cut` does.
        """
        match moment:
            case None:
                return self.newest_version
            case AtVersion(number):
                return self._has(number)
            case AtCommit():
                return self.version_committed_by(moment)
            case AtTick(tick):
                self._check_tick(tick)
                commit = self.commit_at_tick(tick)
                return None if commit is None else commit.last
            case AtEvent(ms):
                return self._version_at_event_time(ms)
            case AtOffsets():
                self._check_offsets(moment)
                return self._version_at_offsets(moment)

    def commit_at_tick(self, tick: int) -> Commit | None:
        """Return the commit that is the table at a tick; None if one batch took the table past the tick."""
        own_commits = read_own_commits(self.log, self.subject.name, tick, tick)
        commits_before = [commit for commit in own_commits if commit.tick <= tick]
        commits_after = own_commits[len(commits_before) :]
        last_commit = commits_before[-1] if commits_before else self._created_commit(commits_after)
        if last_commit is None:
            return None
        is_reached = bool(commits_after) and tick <= commits_after[0].from_tick
        return last_commit if is_reached or not self.may_differ(last_commit.tick, tick) else None

    def version_committed_by(self, commit_time: AtCommit) -> int:
        """Return the last version that was committed by a time. Raises NotFound."""
        commit_log = self.log
        later_version = commit_log.find_first(lambda commit: commit.time_ms > commit_time.ms)
        if (
            later_version is None
            and commit_time.ms > time.time() * 1000
            and (last_commit := commit_log.commit_at(commit_log.newest))
            and commit_time.ms > last_commit.time_ms
        ):
            raise NotFound(
                f"{self.subject.label} at {commit_time}: that time is in the future, so it can't be read yet. It has "
                f"{self.span()}."
            )
        version = commit_log.newest if later_version is None else later_version - 1
        if commit_log.commit_at(version) is None:
            raise NotFound(
                f"{self.subject.label} at {commit_time}: that is before the log begins. It has {self.span()}."
            )
        return version

    def versions(self) -> Iterator[Version]:
        """Yield the versions that the log has, newest first."""
        state_log = None if self.subject.state is None else self._lake_facts.open_table(self.subject.state[0])
        return walk_versions(
            self.log, self.subject.name, None if state_log is None else state_log.log, restored=self._is_restored
        )

    def span(self) -> str:
        """Return a text about the moments for which the table has versions."""
        commit_log, newest_version = self.log, self.newest_version
        oldest_version = self._table_log.oldest_readable()
        span_text = (
            f"versions {oldest_version} to {newest_version}"
            if oldest_version < newest_version
            else f"version {oldest_version} alone"
        )
        commit_times = [
            bound_commit.time_ms
            for number in (oldest_version, newest_version)
            if (bound_commit := commit_log.commit_at(number)) is not None
        ]
        if len(commit_times) > 1:
            span_text += f", committed from {moment_text(commit_times[0])} to {moment_text(commit_times[1])}"
        last_own_commit = next(
            (commit for commit in walk_own_commits(commit_log, self.subject.name) if commit.version >= oldest_version),
            None,
        )
        if last_own_commit is None:
            return span_text
        own_commits = (
            walk_own_commits(commit_log.until(number), self.subject.name)
            for number in range(oldest_version, newest_version + 1)
        )
        first_own_commit = next(
            commit
            for commits_until in own_commits
            if (commit := next(commits_until, None)) and commit.version >= oldest_version
        )
        return f"{span_text}, of ticks {first_own_commit.tick} to {last_own_commit.tick}"

    @cached_property
    def _bronze_log(self) -> TableLog | None:
        return self._lake_facts.open_table(self._lake_facts.layout.records)

    @property
    def _is_restored(self) -> bool:
        """Say whether the table was restored from a topic: its first rows are in none of its commits."""
        return SKIP in self.properties

    def _created_commit(self, later_commits: list[Commit]) -> Commit | None:
        """Return the commit that created the table, without rows; None if it is not in the log."""
        first_commit = self.log.commit_at(0)
        if first_commit is None or first_commit.operation != "CREATE TABLE" or self.topics is None or self._is_restored:
            return None
        return Commit(
            0,
            NO_TICK,
            NO_TICK,
            later_commits[0].version - 1 if later_commits else self.newest_version,
            None,
            first_commit.time_ms,
        )

    def _has(self, number: int) -> int:
        if not 0 <= number <= self.newest_version or self.log.commit_at(number) is None:
            raise NotFound(f"{self.subject.label} has no version {number}. It has {self.span()}.")
        return number

    def _tick_of(self, number: int) -> int:
        """Return the tick of a version, whose files may be gone as long as the log has it."""
        last_before = next(walk_own_commits(self.log.until(self._has(number)), self.subject.name), None)
        if last_before is not None:
            return last_before.tick
        if self.log.commit_at(0) is not None:
            return NO_TICK
        # The version's own commit is gone. The next commit has the tick from which it continued.
        later_commits = read_own_commits(self.log, self.subject.name)
        return later_commits[0].from_tick if later_commits else self.last_tick

    def _check_tick(self, tick: int) -> None:
        if tick <= self.last_tick:
            return
        label = f"{self.subject.label} at tick {tick}"
        if tick > max(self.last_tick, self.complete_tick):
            raise NotFound(f"{label}: bronze has ticks up to {self.complete_tick}. It is at tick {self.applied_tick}.")
        if self.topics is not None and self.may_differ(self.last_tick, tick):
            raise NotFound(
                f"{label}: it has not taken that in yet, and is at tick {self.last_tick}. It has {self.span()}."
            )

    def _check_offsets(self, offsets_moment: AtOffsets) -> dict[str, str]:
        """Check that offsets can be read; return the ids of their topics."""
        named_topics = frozenset(offsets_moment.offsets)
        counting_topics = self.topics if self.topics is not None else named_topics
        current_ends = bronze_offsets.ends_at_tick(
            self._lake_facts, self._bronze_log, named_topics | counting_topics, self.complete_tick
        )
        tick = self.applied_tick if self.topics is not None else self.complete_tick
        taken_ends = (
            current_ends
            if tick == self.complete_tick
            else bronze_offsets.ends_at_tick(self._lake_facts, self._bronze_log, counting_topics, tick)
        )
        bronze_topics = {*current_ends, *bronze_offsets.list_bronze_topics(self._bronze_log)}
        bronze_offsets.check_offsets(
            offsets_moment.offsets,
            OffsetBounds(self.subject.label, counting_topics, tick, taken_ends, current_ends, bronze_topics),
        )
        return {topic: taken_ends[topic].id for topic in sorted(named_topics & counting_topics) if topic in taken_ends}

    def _version_at_offsets(self, offsets_moment: AtOffsets) -> int | None:
        if self._is_restored or self._bronze_log is None:
            return None  # its first rows may come from records at these offsets
        counting_topics: Collection[str] = self.topics if self.topics is not None else offsets_moment.offsets
        counting_offsets = {topic: offsets_moment.offsets.get(topic, {}) for topic in counting_topics}
        current_ends = bronze_offsets.ends_at_tick(
            self._lake_facts, self._bronze_log, counting_topics, self.complete_tick
        )
        commits_at_offsets = (
            self.commit_at_tick(tick)
            for tick in bronze_offsets.walk_ticks_at_offsets(self._bronze_log.log, counting_offsets, current_ends)
        )
        fitting_commit = next((commit for commit in commits_at_offsets if commit is not None), None)
        if fitting_commit is None or self._has_interventions(fitting_commit.tick, self.last_tick):
            return None
        # A later intervention about these records counts too, as by event time.
        later_versions = takewhile(lambda version: version.version > fitting_commit.last, self.versions())
        return None if any(version.origin == "intervention" for version in later_versions) else fitting_commit.last

    def may_hold_later_input(self, ms: int) -> bool:
        """Say whether a table above this one may hold a record that is later than an event time.

        A row that was made from such a table may be that record's work: the times of this table's rows do not tell.
        """
        upstream_names = () if self._reads is None else sorted(self._reads.tables)
        return any(self._is_later_than(name, ms) for name in upstream_names)

    def _is_later_than(self, upstream_name: str, ms: int) -> bool:
        try:
            upstream = Timeline(self._lake_facts, visible_subject(self._lake_facts.layout, upstream_name))
        except NotFound:
            return True
        newest = next((version for version in upstream.versions() if version.origin != "nothing"), None)
        if upstream._is_restored or upstream.applied_tick < self.last_tick or newest is None or not newest.covers:
            return True  # nothing tells
        return newest.through is not None and newest.through > ms

    def _version_at_event_time(self, ms: int) -> int | None:
        if self._is_restored or self.may_hold_later_input(ms):
            return None
        for version in self.versions():
            if version.covers and (version.through is None or version.through <= ms):
                has_later_interventions = self._has_interventions(
                    NO_TICK if version.tick is None else version.tick, self.last_tick
                )
                return None if has_later_interventions else version.version
            if version.origin in ("intervention", "unknown") or (version.first is not None and version.first <= ms):
                return None
        return None


def common_tick(timelines: list[Timeline], complete_tick: int) -> int:
    """Return the last tick that all of these tables have taken in, at which they are consistent with each other.

    complete_tick: bronze's last complete tick.
    """
    waiting_timelines = [timeline for timeline in timelines if timeline.may_differ(timeline.last_tick, complete_tick)]
    tick = min([complete_tick, *(timeline.last_tick for timeline in waiting_timelines)])
    timelines_ahead = [timeline for timeline in timelines if timeline.last_tick > tick]
    # One batch may have taken a table past that tick: then the common tick is earlier.
    while (
        earlier_tick := min((_last_tick_with_version(timeline, tick) for timeline in timelines_ahead), default=tick)
    ) < tick:
        tick = earlier_tick
    return tick


def _last_tick_with_version(timeline: Timeline, tick: int) -> int:
    """Return the last tick, not after this one, for which the table has a version."""
    if timeline.commit_at_tick(tick) is not None:
        return tick
    own_commits = read_own_commits(timeline.log, timeline.subject.name, tick, tick)
    return max((commit.tick for commit in own_commits if commit.tick < tick), default=NO_TICK)
