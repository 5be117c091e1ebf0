"""The facts that explaining a table at a moment needs, without Spark: the records that count, version, watermark."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files, subject
from lakehouse.lake.moment.commits import commits
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import At


@dataclass(frozen=True, slots=True)
class AppliedRecords:
    """The records that count; the version that holds just these, if one does; the watermark then, if a commit tells."""

    cut: Cut
    version: int | None
    watermark: int | None = None


def told(layout: Layout, table: Table, at: At | None) -> AppliedRecords:
    """Return which records make a table at a moment; None is now. Raises NotFound, ConfigError.

    A version whose files are gone does not count as one.
    """
    source = files.Files(layout)
    line = Timeline(source, subject.seen(layout, table))
    cut, version = line.cut(at), line.version(at)
    if version is not None and at is not None and not files.readable(line.subject.path, version):
        version = None
    return AppliedRecords(cut, version, _watermark(source, table, cut) if cut.whole else None)


def _watermark(source: files.Files, table: Table, cut: Cut) -> int | None:
    """The watermark of a table at a tick, if a commit has it."""
    kept = subject.kept(source.layout, table)
    if not table.has_clock or source.opened(kept.path) is None:
        return None
    line = Timeline(source, kept)
    known = commits(line.log, kept.name, cut.tick, cut.tick)
    stood = [commit for commit in known if commit.tick <= cut.tick and "clock" in commit.said]
    if not stood or line.waits(stood[-1].tick, cut.tick):
        return None
    watermark: int | None = stood[-1].said["clock"]["watermark"]
    return watermark
