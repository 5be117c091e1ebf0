"""The versions of a table without a JVM: the one that is the table at a moment, and those that can be read.

`lakehouse.lake.moment.timeline` decides what a moment is; here it is asked about a table, by name, in a local folder.
For a moment between versions, Spark has to fold the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files, offsets, subject
from lakehouse.lake.moment.subject import Subject
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.lake.moment.version import Version
from lakehouse.lake.place import INGEST
from lakehouse.lake.properties import KEY
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion, Offsets, written


class History:
    """The versions of one table: visits, state.visits. NotFound for no such table, ConfigError for a remote lake."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._files = files.Files(layout)
        self.layout = layout
        self.layer, self.name = reader.split(name)
        self.what = f"table {self.name!r}" if self.layer == "silver" else f"{self.layer}.{self.name}"
        self.path = reader.path_of(layout, self.layer, self.name)
        self.timeline = Timeline(self._files, self._subject())
        self.newest, self.topics = self.timeline.newest, self.timeline.topics
        self.key = tuple(filter(None, (self.timeline.properties.get(KEY) or "").split(",")))

    def _subject(self) -> Subject:
        match self.layer:
            case "silver":
                return subject.visible(self.layout, self.name)
            case "bronze":
                return Subject(self.name, self.what, self.path, INGEST)
            case _:
                return Subject(self.name, self.what, self.path, f"{self.layer}.{self.name}")

    def __iter__(self) -> Iterator[Version]:
        """Yield the versions that the log has, newest first."""
        return self.timeline.versions()

    def at(self, at: At | None) -> int | None:
        """Return the version that is the table at a moment; None for a moment between versions.

        Raises NotFound for a moment that can't be read, and says which can.
        """
        found = self.timeline.version(at)
        if found is None or at is None or self.readable(found):
            return found
        if isinstance(at, AtVersion):
            raise NotFound(f"{self.what}, version {found}: some of its files are gone (VACUUM). It has {self.span()}.")
        # OPTIMIZE wrote the rows into other files; VACUUM may have removed some of those that it replaced.
        same = next((version.same for version in self if version.version == found), found)
        return same if self.readable(same) else None

    def readable(self, version: int) -> bool:
        """Say whether a version's files still exist: VACUUM removes those that later versions no longer need."""
        return files.readable(self.path, version)

    def has(self, version: int) -> bool:
        """Say whether the log has a version."""
        return files.has(self.path, version)

    def oldest_readable(self) -> int:
        """Return the oldest version from which on all versions can be read."""
        return files.OpenedFiles(self.path).oldest_readable()

    def span(self) -> str:
        """Say which moments the table has versions for."""
        return self.timeline.span()

    def around(self, at: At) -> str:
        """Say why there is no version to read for a moment, and which moments near it have one."""
        found = self.timeline.version(at)
        why = "lies between versions" if found is None else f"is version {found}, whose files are gone (VACUUM)"
        near = " and ".join(filter(None, self._neighbours(at)))
        return f"{self.what} at {at} {why}. " + (f"The nearest are {near}." if near else "No version near it is known.")

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
                tick = at.tick if isinstance(at, AtTick) else self._tick_before(at.offsets)
                found = [v for v in found if v.tick is not None]
                before = [v for v in found if v.tick is not None and v.tick <= tick]
        after = found[: len(found) - len(before)]
        return self._first_readable(before), self._first_readable(reversed(after))

    def _tick_before(self, named: Offsets) -> int:
        bronze = self._files.opened(self.layout.records)
        return NO_TICK if bronze is None else offsets.last_tick_before(bronze.log, named)

    def _first_readable(self, versions: Iterable[Version]) -> str | None:
        return next((str(version) for version in versions if self.readable(version.version)), None)

    def _event_times(self, ms: int) -> tuple[str | None, str | None]:
        """The last event time before one, and the first after it, for which a version is exact."""
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
