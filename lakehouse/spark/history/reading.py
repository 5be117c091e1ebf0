"""Reads of a table at any kind of moment: from a version of the table, or folded by `Past`.

`lakehouse.lake.moment.timeline` decides on the version, or the records, of a moment.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from lakehouse.errors import NotFound
from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.moment import At, AtCommit, AtVersion
from lakehouse.spark.history.moments import Past
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import timelines


def read_rows(open_table: OpenTable, moment: At | None) -> DataFrame:
    """Return a table's rows, hidden columns too, at a moment; None for now.

    Raises NotFound for a moment that is not available, naming those that are; ConfigError for incomplete offsets.
    """
    table_timeline = timelines.timeline_of(open_table)
    if moment is None:
        return open_table.lake.read(open_table.visible.path)
    if isinstance(moment, AtCommit):
        moment = AtVersion(table_timeline.version_committed_by(moment))
    # A version's number is enough: the logs of bronze and of the table need not be read.
    if isinstance(moment, AtVersion) and (version_rows := _rows_of_version(open_table, moment.version)) is not None:
        return version_rows
    cut = table_timeline.cut(moment)
    # By event time and by offsets only the records count, not what others wrote into a version.
    if cut.is_whole and (version_rows := _rows_of_version(open_table, table_timeline.version(moment))) is not None:
        return version_rows
    return Past(open_table).visible_rows(cut)


def read_version(open_table: OpenTable, moment: At | None) -> DataFrame:
    """Return a table's rows, hidden columns too, at a moment that is one of its versions; else raise NotFound."""
    if moment is None:
        return open_table.lake.read(open_table.visible.path)
    if (version_rows := _rows_of_version(open_table, timelines.timeline_of(open_table).version(moment))) is not None:
        return version_rows
    raise NotFound(
        f"table {open_table.name!r} at {moment}: Delta has no version of exactly that moment. Use bronze instead."
    )


def meant_version(open_table: OpenTable, moment: At) -> int | None:
    """Return the version that a moment names, by its number or by its commit time; None for other moments."""
    if isinstance(moment, AtCommit):
        return timelines.timeline_of(open_table).version_committed_by(moment)
    return moment.version if isinstance(moment, AtVersion) else None


def cut_at(open_table: OpenTable, moment: At) -> Cut:
    """Return which records make up a table at a moment. Raises NotFound, ConfigError; see `read_rows`."""
    return timelines.timeline_of(open_table).cut(moment)


def applied_tick(open_table: OpenTable) -> int:
    """Return the last tick that a table has taken in; it takes in at once the ticks that hold nothing for it."""
    return timelines.timeline_of(open_table).applied_tick


def _rows_of_version(open_table: OpenTable, version: int | None) -> DataFrame | None:
    """Return a version's rows; None if there is no such version, or Delta no longer has it whole."""
    if version is None:
        return None
    try:
        return open_table.lake.read_past(open_table.visible.path, version)
    except AnalysisException:
        return None
