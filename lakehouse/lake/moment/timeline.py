"""The version of a table, and the records, that belong to a moment: decided here, wherever the files lie.

A version is the table at a moment if it contains exactly the records that count then. If there is no such version, the
moment lies between versions: the table can be folded from the records that count.

    version       itself; the records up to its tick
    commit time   the last version that was committed by then
    tick          the last version up to it, if no record came and nobody intervened in between
    event time T  the version that has every record up to T and none later: its `through` is not after T, the `first`
                  of all that follow is, and nobody intervened since; the records up to T of the ticks that the table
                  has taken in
    offsets       the version at the tick after which bronze was at them, if nobody intervened since; the records
                  before them, of the ticks that the table has taken in

A table has taken in a tick once that tick, and all before it, can no longer change it: a tick without records for it is
taken in at once, a tick with an intervention once the intervention has been applied.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import takewhile

from lakehouse.errors import NotFound
from lakehouse.lake.commit_log import CommitLog
from lakehouse.lake.moment import offsets as bronze_offsets
from lakehouse.lake.moment.commits import Commit, commits, ours
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.moment.offsets import OffsetBounds
from lakehouse.lake.moment.source import LakeFacts, TableLog
from lakehouse.lake.moment.subject import Reads, Subject, reads_of
from lakehouse.lake.moment.version import Version, versions
from lakehouse.lake.place import INGEST
from lakehouse.lake.properties import SKIP
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion, written


class Timeline:
    """The past of one table, over a source."""

    def __init__(self, source: LakeFacts, subject: Subject) -> None:
        """Raise NotFound if there is no such table."""
        opened = source.opened(subject.path)
        if opened is None:
            raise NotFound(
                f"{subject.what} does not exist in {source.layout.root}. `lakehouse look tables` lists what does; "
                "`lakehouse run` makes them."
            )
        self._source, self._opened, self.subject = source, opened, subject

    @property
    def log(self) -> CommitLog:
        """The table's commits."""
        return self._opened.log

    @property
    def newest(self) -> int:
        """The table's newest version."""
        return self.log.newest

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self._opened.properties()

    @cached_property
    def _reads(self) -> Reads | None:
        return self.subject.reads or reads_of(self.properties)

    @property
    def topics(self) -> frozenset[str] | None:
        """The topics that the table reads; None if nobody knows them."""
        return None if self._reads is None else self._reads.topics

    @cached_property
    def done(self) -> int:
        """The tick of the table's last commit."""
        return self._opened.tick(self.subject.name)

    @cached_property
    def complete(self) -> int:
        """Bronze's last complete tick."""
        return NO_TICK if self._bronze is None else self._bronze.tick(INGEST)

    @cached_property
    def applied(self) -> int:
        """The last tick that the table has taken in."""
        return max(self.done, self.complete) if not self.waits(self.done, self.complete) else self.done

    def waits(self, after: int, to: int) -> bool:
        """Say whether the table may differ between ticks `after` and `to`: by records, or by an intervention."""
        if to <= after:
            return False
        if self.topics is None or self._intervened(after, to):
            return True
        return self._source.has_records(self.topics, after, to)

    def _intervened(self, after: int, to: int) -> bool:
        """Whether somebody intervened in the table, or in one that it is made from: that changes it as records do."""
        above = () if self._reads is None else sorted(self._reads.tables)
        return any(self._source.has_interventions(name, after, to) for name in (self.subject.table, *above))

    def cut(self, at: At | None) -> Cut:
        """Return which records make up the table at a moment; None is now.

        Raises NotFound for a moment that can't be read, and says which can; ConfigError for offsets that leave one out.
        """
        match at:
            case None:
                return Cut(self.applied)
            case AtVersion(number):
                return Cut(self._tick_of(number))
            case AtCommit():
                return Cut(self._tick_of(self.committed_by(at)))
            case AtTick(tick):
                self._check_tick(tick)
                return Cut(tick)
            case AtEvent(ms):
                return Cut(self.applied, event_ms=ms)
            case AtOffsets(offsets):
                ids = self._check_offsets(at)
                return Cut(self.applied, offsets=offsets, ids=ids)

    def version(self, at: At | None) -> int | None:
        """Return the version that is the table at a moment; None for a moment between versions.

        Its files may be gone all the same. Raises as `cut` does.
        """
        match at:
            case None:
                return self.newest
            case AtVersion(number):
                return self._has(number)
            case AtCommit():
                return self.committed_by(at)
            case AtTick(tick):
                self._check_tick(tick)
                commit = self.commit_at(tick)
                return None if commit is None else commit.last
            case AtEvent(ms):
                return self._at_event(ms)
            case AtOffsets():
                self._check_offsets(at)
                return self._at_offsets(at)

    def commit_at(self, tick: int) -> Commit | None:
        """Return the commit that is the table at a tick; None if it went past the tick in one batch."""
        known = commits(self.log, self.subject.name, tick, tick)
        before = [commit for commit in known if commit.tick <= tick]
        later = known[len(before) :]
        last = before[-1] if before else self._created(later)
        if last is None:
            return None
        reached = bool(later) and tick <= later[0].from_tick
        return last if reached or not self.waits(last.tick, tick) else None

    def committed_by(self, at: AtCommit) -> int:
        """Return the last version that was committed at a time or before it. Raises NotFound."""
        log = self.log
        later = log.first(lambda said: said.time_ms > at.ms)
        if later is None and at.ms > time.time() * 1000 and (last := log.at(log.newest)) and at.ms > last.time_ms:
            raise NotFound(
                f"{self.subject.what} at {at}: that time is in the future, so it can't be read yet. It has "
                f"{self.span()}."
            )
        version = log.newest if later is None else later - 1
        if log.at(version) is None:
            raise NotFound(f"{self.subject.what} at {at}: that is before the log begins. It has {self.span()}.")
        return version

    def versions(self) -> Iterator[Version]:
        """Yield the versions that the log has, newest first."""
        kept = None if self.subject.state is None else self._source.opened(self.subject.state[0])
        return versions(self.log, self.subject.name, None if kept is None else kept.log, restored=self._is_restored)

    def span(self) -> str:
        """Say which moments the table has versions for."""
        log, newest = self.log, self.newest
        first = self._opened.oldest_readable()
        said = f"versions {first} to {newest}" if first < newest else f"version {first} alone"
        times = [kept.time_ms for number in (first, newest) if (kept := log.at(number)) is not None]
        if len(times) > 1:
            said += f", committed from {written(times[0])} to {written(times[1])}"
        last = next((commit for commit in ours(log, self.subject.name) if commit.version >= first), None)
        if last is None:
            return said
        known = (ours(log.until(number), self.subject.name) for number in range(first, newest + 1))
        begin = next(commit for some in known if (commit := next(some, None)) and commit.version >= first)
        return f"{said}, of ticks {begin.tick} to {last.tick}"

    @cached_property
    def _bronze(self) -> TableLog | None:
        return self._source.opened(self._source.layout.records)

    @property
    def _is_restored(self) -> bool:
        """Whether the table began from a topic: its first rows are in none of its commits."""
        return SKIP in self.properties

    def _created(self, later: list[Commit]) -> Commit | None:
        """The table as it was created, without rows, before its first commit; None if the log does not tell."""
        made = self.log.at(0)
        if made is None or made.operation != "CREATE TABLE" or self.topics is None or self._is_restored:
            return None
        return Commit(0, NO_TICK, NO_TICK, later[0].version - 1 if later else self.newest, {}, made.time_ms)

    def _has(self, number: int) -> int:
        if not 0 <= number <= self.newest or self.log.at(number) is None:
            raise NotFound(f"{self.subject.what} has no version {number}. It has {self.span()}.")
        return number

    def _tick_of(self, number: int) -> int:
        """The tick of a version. The version itself may be gone, as long as the log tells of it."""
        before = next(ours(self.log.until(self._has(number)), self.subject.name), None)
        if before is not None:
            return before.tick
        if self.log.at(0) is not None:
            return NO_TICK
        # The commit that made it is gone. The next one has the tick from which it went on.
        later = commits(self.log, self.subject.name)
        return later[0].from_tick if later else self.done

    def _check_tick(self, tick: int) -> None:
        if tick <= self.done:
            return
        what = f"{self.subject.what} at tick {tick}"
        if tick > max(self.done, self.complete):
            raise NotFound(f"{what}: bronze has ticks up to {self.complete}. It is at tick {self.applied}.")
        if self.topics is not None and self.waits(self.done, tick):
            raise NotFound(f"{what}: it has not taken that in yet, and is at tick {self.done}. It has {self.span()}.")

    def _check_offsets(self, at: AtOffsets) -> dict[str, str]:
        """Raise for offsets that can't be read; return the ids of the topics that they belong to."""
        named = frozenset(at.offsets)
        counting = self.topics if self.topics is not None else named
        now = bronze_offsets.ends_at(self._source, self._bronze, named | counting, self.complete)
        tick = self.applied if self.topics is not None else self.complete
        taken = now if tick == self.complete else bronze_offsets.ends_at(self._source, self._bronze, counting, tick)
        known = {*now, *bronze_offsets.topics_of(self._bronze)}
        bronze_offsets.check(at.offsets, OffsetBounds(self.subject.what, counting, tick, taken, now, known))
        return {topic: taken[topic].id for topic in sorted(named & counting) if topic in taken}

    def _at_offsets(self, at: AtOffsets) -> int | None:
        if self._is_restored or self._bronze is None:
            return None  # the rows that it was restored with may come from records at these offsets
        counting: Collection[str] = self.topics if self.topics is not None else at.offsets
        offsets = {topic: at.offsets.get(topic, {}) for topic in counting}
        now = bronze_offsets.ends_at(self._source, self._bronze, counting, self.complete)
        found = (self.commit_at(tick) for tick in bronze_offsets.ticks_at(self._bronze.log, offsets, now))
        fits = next((commit for commit in found if commit is not None), None)
        if fits is None or self._intervened(fits.tick, self.done):
            return None
        # A later decision about these records counts, too, as by event time.
        later = takewhile(lambda version: version.version > fits.last, self.versions())
        return None if any(version.made == "intervention" for version in later) else fits.last

    def _at_event(self, ms: int) -> int | None:
        if self._is_restored:
            return None
        for version in self.versions():
            if version.covers and (version.through is None or version.through <= ms):
                # An intervention in a table that it reads arrived as records without a time.
                later = self._intervened(NO_TICK if version.tick is None else version.tick, self.done)
                return None if later else version.version
            if version.made in ("intervention", "unknown") or (version.first is not None and version.first <= ms):
                return None
        return None


def common_tick(lines: list[Timeline], complete: int) -> int:
    """Return the last tick that all of these tables have taken in: read at it, they are consistent with each other.

    complete: bronze's last complete tick.
    """
    tick = min([complete, *(line.done for line in lines if line.waits(line.done, complete))])
    ahead = [line for line in lines if line.done > tick]
    # A table may have gone past that tick in one batch: then the common tick is earlier.
    while (earlier := min((_last_tick(line, tick) for line in ahead), default=tick)) < tick:
        tick = earlier
    return tick


def _last_tick(line: Timeline, tick: int) -> int:
    """The tick itself if the table has a version for it, else the last tick before it for which it has one."""
    if line.commit_at(tick) is not None:
        return tick
    known = commits(line.log, line.subject.name, tick, tick)
    return max((commit.tick for commit in known if commit.tick < tick), default=NO_TICK)
