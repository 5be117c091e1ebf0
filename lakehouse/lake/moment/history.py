"""The versions of a table, and which of them is the table at a moment; read from its log, without a JVM.

A version is the table at a moment if exactly the records that count then are in it. Where there is no such version, the
moment lies between versions: Spark has to fold it.

    version       itself
    tick          the last one up to it, if no record of the table's topics came in between (decision 7)
    commit time   the last one that was committed by then
    event time T  the one that has every record up to T and none later: its `through` is not after T, the `first` of
                  all that follow is, and nobody intervened since
    offsets       the one at the tick after which bronze stood at them, if nobody intervened since
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import bronze_reader
from lakehouse.lake.moment.version import SKIP, Version, versions
from lakehouse.plan.evolution.change import topics_of
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion, written


class History:
    """The versions of one table: visits, state.visits. NotFound if there is none, ConfigError if it is remote."""

    def __init__(self, layout: Layout, name: str) -> None:
        reader.local_root(layout)
        self._layout = layout
        self.layer, self.name = reader.split(name)
        self.what = f"table {self.name!r}" if self.layer == "silver" else f"{self.layer}.{self.name}"
        self.path = reader.path_of(layout, self.layer, self.name)
        self._table = reader.open_table(self.path, self.what)
        self.newest = self._table.version()
        settings = self._table.metadata().configuration
        self.key = tuple(filter(None, (settings.get("lakehouse.key") or "").split(",")))
        self.topics = topics_of(settings)
        self._restored = SKIP in settings

    def __iter__(self) -> Iterator[Version]:
        """Give the versions that the log has, newest first."""
        names = {"silver": self.name, "bronze": reader.INGEST}
        state = reader.path_of(self._layout, "state", self.name)
        has_state = self.layer == "silver" and Path(state, "_delta_log").is_dir()
        kept = reader.open_table(state, f"state.{self.name}") if has_state else None
        return versions(self._table, names.get(self.layer, f"{self.layer}.{self.name}"), kept)

    def at(self, at: At | None) -> int | None:
        """Return the version that is the table at a moment, None for a moment between versions.

        Raises NotFound for one that can't be had, and says which can.
        """
        match at:
            case None:
                return self.newest
            case AtVersion(version):
                return self._named(version)
        found = self._fitting(at)
        # OPTIMIZE wrote the rows into other files: of those that it replaced VACUUM may have taken some.
        same = () if found is None else dict.fromkeys((found.version, found.same))
        return next((version for version in same if self.readable(version)), None)

    def _fitting(self, at: At) -> Version | None:
        """The version that is the table at a moment, whether or not it can be read."""
        match at:
            case AtVersion(number):
                return next((version for version in self if version.version == number), None)
            case AtTick(tick):
                return self._at_tick(tick)
            case AtCommit(ms):
                return self._at_commit(ms)
            case AtEvent(ms):
                return self._at_event(ms)
            case AtOffsets() if self._restored:
                return None  # what it was restored with may hold records at these offsets
            case AtOffsets(offsets):
                ticks = bronze_reader.ticks_at(self._layout, offsets, self.topics)
                fits = next((found for tick in ticks if (found := self._at_tick(tick)) is not None), None)
                if fits is None:
                    return None
                # What was decided later about these records counts, too, as by event time.
                later = takewhile(lambda version: version.version > fits.version, self)
                return None if any(version.made == "intervention" for version in later) else fits

    def readable(self, version: int) -> bool:
        """Say whether a version's files are still there: VACUUM takes those that later versions no longer need."""
        if not self.has(version):
            return False
        paths = reader.files(reader.open_table(self.path, self.what, version))
        return all(Path(self.path, path).exists() for path in paths)

    def has(self, version: int) -> bool:
        """Say whether the log has a version."""
        return Path(self.path, "_delta_log", f"{version:020}.json").exists()

    def oldest_readable(self) -> int:
        """Return the first version from which on all can be read."""
        low, high = min((v.version for v in self), default=self.newest), self.newest
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.readable(middle) else (middle + 1, high)
        return low

    def span(self) -> str:
        """Say which moments the table has versions for."""
        first = self.oldest_readable()
        kept = [v for v in self if v.version >= first]
        ticks = sorted({v.tick for v in kept if v.tick is not None})
        said = f"versions {first} to {self.newest}" if first < self.newest else f"version {first} alone"
        said += f", committed from {written(kept[-1].time_ms)} to {written(kept[0].time_ms)}"
        return said + (f", of ticks {ticks[0]} to {ticks[-1]}" if ticks else "")

    def _named(self, version: int) -> int:
        if not 0 <= version <= self.newest or not self.has(version):
            raise NotFound(f"{self.what} has no version {version}. It has {self.span()}.")
        if not self.readable(version):
            raise NotFound(
                f"{self.what}, version {version}: some of its files are gone (VACUUM). It has {self.span()}."
            )
        return version

    def _at_tick(self, tick: int) -> Version | None:
        complete = bronze_reader.complete(self._layout)
        if tick > complete:
            raise NotFound(f"{self.what} at tick {tick}: bronze has ticks up to {complete}.")
        later: Version | None = None
        last: Version | None = None  # before the next commit of ours: OPTIMIZE may lie in between, or another's UPDATE
        for version in self:
            last = last or version
            if version.tick is None or version.from_tick is None:
                continue
            if version.tick > tick:
                later, last = version, None
                continue
            reached = later is not None and later.from_tick is not None and tick <= later.from_tick
            if reached or self._stood_still(version.tick, tick):
                return last
            if later is None and self.topics is not None:
                done = f"it has not taken that in yet, and stands at tick {version.tick}"
                raise NotFound(f"{self.what} at tick {tick}: {done}. It has {self.span()}.")
            return None
        return None

    def _stood_still(self, after: int, to: int) -> bool:
        """Whether the table could not change in the ticks (after, to]."""
        if to <= after:
            return True
        if self.topics is None or bronze_reader.has_records(self._layout, self.topics, after, to):
            return False
        return not bronze_reader.decided(self._layout, self.name, after, to)

    def _at_commit(self, ms: int) -> Version | None:
        if ms > time.time() * 1000:
            raise NotFound(f"{self.what} at {AtCommit(ms)}: that time is in the future, so it can't be read yet.")
        for version in self:
            if version.time_ms <= ms:
                return version
        raise NotFound(f"{self.what} at {AtCommit(ms)}: that is before the log begins. It has {self.span()}.")

    def _at_event(self, ms: int) -> Version | None:
        if self._restored:
            return None
        for version in self:
            if version.covers and (version.through is None or version.through <= ms):
                return version
            if version.made in ("intervention", "unknown") or (version.first is not None and version.first <= ms):
                return None
        return None

    def around(self, at: At) -> str:
        """Say why there is no version to read for a moment, and for which moments near it there is one."""
        found = self._fitting(at)
        if found is not None:
            why = f"is version {found.version}, whose files are gone (VACUUM)"
        else:
            why = "lies between versions"
        near = " and ".join(filter(None, self._neighbours(at)))
        return f"{self.what} at {at} {why}. " + (f"Near it are {near}." if near else "No version near it can be told.")

    def _neighbours(self, at: At) -> tuple[str | None, str | None]:
        """The nearest moments before and after one that have a version, as text."""
        if isinstance(at, AtEvent):
            return self._event_times(at.ms)
        found = list(self)
        match at:
            case AtCommit(ms):
                before = [v for v in found if v.time_ms <= ms]
            case AtVersion(version):
                before = [v for v in found if v.version <= version]
            case AtTick() | AtOffsets():
                tick = at.tick if isinstance(at, AtTick) else bronze_reader.last_tick_before(self._layout, at.offsets)
                found = [v for v in found if v.tick is not None]
                before = [v for v in found if v.tick is not None and v.tick <= tick]
        after = found[: len(found) - len(before)]
        return self._first_readable(before), self._first_readable(reversed(after))

    def _first_readable(self, versions: Iterable[Version]) -> str | None:
        return next((str(version) for version in versions if self.readable(version.version)), None)

    def _event_times(self, ms: int) -> tuple[str | None, str | None]:
        """The last event time before one, and the first one after it, that a version is exact for."""
        before: str | None = None
        after: str | None = None
        bound: int | None = None
        for version in self:
            if version.covers and self.readable(version.version):
                begin, end = version.through, None if bound is None else bound - 1
                if begin is not None and begin > ms and (end is None or begin <= end):
                    after = f"event time {written(begin)} (version {version.version})"
                elif before is None and end is not None and end < ms and (begin is None or begin <= end):
                    before = f"event time {written(end)} (version {version.version})"
            if version.made in ("intervention", "unknown"):
                break
            if version.first is not None:
                bound = version.first if bound is None else min(bound, version.first)
        return before, after


def version_at(layout: Layout, name: str, at: At | None) -> int | None:
    """Return the version that is a table at a moment, see `History.at`."""
    return History(layout, name).at(at)
