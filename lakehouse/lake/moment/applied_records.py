"""The facts for explaining a table at a moment, without Spark: the records that count, the version, the watermark."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files, past_subject
from lakehouse.lake.moment.commits import read_own_commits
from lakehouse.lake.moment.cut import Cut
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import At


@dataclass(frozen=True, slots=True)
class AppliedRecords:
    """The records that count, the version with exactly these records, and the watermark; None where unknown."""

    cut: Cut
    version: int | None
    watermark: int | None = None


def read_applied_records(layout: Layout, table: Table, moment: At | None) -> AppliedRecords:
    """Return the records that make up a table at a moment; None is now. Raises NotFound, ConfigError.

    A version whose files are gone is ignored.
    """
    lake_files = files.LakeFiles(layout)
    timeline = Timeline(lake_files, past_subject.declared_subject(layout, table))
    cut, version = timeline.cut(moment), timeline.version(moment)
    if version is not None and moment is not None and not files.is_version_readable(timeline.subject.path, version):
        version = None
    return AppliedRecords(cut, version, _watermark_at_cut(lake_files, table, cut) if cut.is_whole else None)


def _watermark_at_cut(lake_files: files.LakeFiles, table: Table, cut: Cut) -> int | None:
    """Return the watermark of a table at the tick of a cut; None if no commit has it."""
    kept_subject = past_subject.declared_state_subject(lake_files.layout, table)
    if not table.has_clock or lake_files.open_table(kept_subject.path) is None:
        return None
    timeline = Timeline(lake_files, kept_subject)
    commits_to_tick = read_own_commits(timeline.log, kept_subject.name, cut.tick, cut.tick)
    clocks_by_tick = [
        (commit.tick, commit.batch.clock)
        for commit in commits_to_tick
        if commit.tick <= cut.tick and commit.batch is not None and commit.batch.clock is not None
    ]
    if not clocks_by_tick:
        return None
    clock_tick, clock_state = clocks_by_tick[-1]
    return None if timeline.may_differ(clock_tick, cut.tick) else clock_state.watermark
