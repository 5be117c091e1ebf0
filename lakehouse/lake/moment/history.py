"""The versions of a table, without a JVM: the version at a moment, and the versions that can be read.

`lakehouse.lake.moment.timeline` decides what a moment is; this module asks it about a table, by name. For a moment
between versions, Spark has to fold the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakehouse.errors import NotFound
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files, offsets, past_subject
from lakehouse.lake.moment.past_subject import Subject
from lakehouse.lake.moment.table_versions import Version
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.lake.place import INGEST
from lakehouse.lake.properties import KEY
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.epoch_time import moment_text
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion, Offsets


class History:
    """The versions of one table: visits, state.visits. Raises NotFound without the table."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._files = files.LakeFiles(layout)
        self.layout = layout
        self.layer, self.name = reader.split_layer(name)
        self.label = f"table {self.name!r}" if self.layer == "silver" else f"{self.layer}.{self.name}"
        self.path = reader.find_table_path(layout, self.layer, self.name)
        self.timeline = Timeline(self._files, self._subject())
        self.newest, self.topics = self.timeline.newest_version, self.timeline.topics
        self.key = tuple(filter(None, (self.timeline.properties.get(KEY) or "").split(",")))

    def _subject(self) -> Subject:
        match self.layer:
            case "silver":
                return past_subject.visible_subject(self.layout, self.name)
            case "bronze":
                return Subject(self.name, self.label, self.path, INGEST)
            case _:
                return Subject(self.name, self.label, self.path, f"{self.layer}.{self.name}")

    def __iter__(self) -> Iterator[Version]:
        """Yield the versions that the log has, newest first."""
        return self.timeline.versions()

    def at(self, moment: At | None) -> int | None:
        """Return the version at a moment; None for a moment between versions.

        Raises NotFound for a moment that can't be read; the message says which can.
        """
        version_number = self.timeline.version(moment)
        if version_number is None or moment is None or self.is_readable(version_number):
            return version_number
        if isinstance(moment, AtVersion):
            raise NotFound(
                f"{self.label}, version {version_number}: some of its files are gone (VACUUM). It has {self.span()}."
            )
        # OPTIMIZE wrote the rows into new files; VACUUM may have removed some of the old files.
        same_rows_version = next(
            (version.newest_same for version in self if version.version == version_number), version_number
        )
        return same_rows_version if self.is_readable(same_rows_version) else None

    def is_readable(self, version: int) -> bool:
        """Say whether a version's files still exist: VACUUM removes those that later versions no longer need."""
        return files.is_version_readable(self.path, version)

    def has_version(self, version: int) -> bool:
        """Say whether the log has a version."""
        return files.has_version(self.path, version)

    def oldest_readable(self) -> int:
        """Return the oldest version from which on all versions can be read."""
        return files.LocalTable(self.path).oldest_readable()

    def span(self) -> str:
        """Return a text about the moments for which the table has versions."""
        return self.timeline.span()

    def explain_missing(self, moment: At) -> str:
        """Return a text about why no version can be read for a moment, with the nearest moments that have one."""
        version_number = self.timeline.version(moment)
        if version_number is not None:
            explanation = f"is version {version_number}, whose files are gone (VACUUM)"
        elif isinstance(moment, AtEvent) and self.timeline.may_hold_later_input(moment.ms):
            explanation = "lies between versions: a table that it reads has later records, of which rows may be made"
        else:
            explanation = "lies between versions"
        nearest = list(filter(None, self._nearest_moments(moment)))
        return f"{self.label} at {moment} {explanation}. " + (
            f"The nearest {'is' if len(nearest) == 1 else 'are'} {' and '.join(nearest)}."
            if nearest
            else "No version near it is known."
        )

    def _nearest_moments(self, moment: At) -> tuple[str | None, str | None]:
        """Return the nearest moments with a version before and after a moment, as text."""
        if isinstance(moment, AtEvent):
            return self._nearest_event_times(moment.ms)
        known_versions = list(self)
        match moment:
            case AtCommit(ms):
                versions_before = [v for v in known_versions if v.time_ms <= ms]
            case AtVersion(version):
                versions_before = [v for v in known_versions if v.version <= version]
            case AtTick() | AtOffsets():
                tick = moment.tick if isinstance(moment, AtTick) else self._tick_before(moment.offsets)
                known_versions = [v for v in known_versions if v.tick is not None]
                versions_before = [v for v in known_versions if v.tick is not None and v.tick <= tick]
        versions_after = known_versions[: len(known_versions) - len(versions_before)]
        return self._first_readable(versions_before), self._first_readable(reversed(versions_after))

    def _tick_before(self, named_offsets: Offsets) -> int:
        bronze_log = self._files.open_table(self.layout.records)
        return NO_TICK if bronze_log is None else offsets.last_tick_before(bronze_log.log, named_offsets)

    def _first_readable(self, versions: Iterable[Version]) -> str | None:
        return next((str(version) for version in versions if self.is_readable(version.version)), None)

    def _nearest_event_times(self, ms: int) -> tuple[str | None, str | None]:
        """Return the last event time before a time, and the first after it, for which a version is exact."""
        if self.timeline.may_hold_later_input(ms):
            return None, None
        time_before: str | None = None
        time_after: str | None = None
        upper_bound: int | None = None
        for version in self:
            if version.covers and self.is_readable(version.version):
                begin_ms, end_ms = version.through, None if upper_bound is None else upper_bound - 1
                if begin_ms is not None and begin_ms > ms and (end_ms is None or begin_ms <= end_ms):
                    time_after = f"event time {moment_text(begin_ms)} (version {version.version})"
                elif (
                    time_before is None
                    and end_ms is not None
                    and end_ms < ms
                    and (begin_ms is None or begin_ms <= end_ms)
                ):
                    time_before = f"event time {moment_text(end_ms)} (version {version.version})"
            if version.origin in ("intervention", "unknown"):
                break
            if version.first is not None:
                upper_bound = version.first if upper_bound is None else min(upper_bound, version.first)
        return time_before, time_after
