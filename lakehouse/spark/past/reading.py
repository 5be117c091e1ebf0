"""Reads of a table at a moment, however the moment is named: a version of the table, or the fold that `Past` makes.

`lakehouse.lake.moment.timeline` decides which version, or which records, a moment means.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from lakehouse.errors import NotFound
from lakehouse.lake.moment.cut import Cut
from lakehouse.semantics.moment import At, AtCommit, AtVersion
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.past.moments import Past
from lakehouse.spark.table import travel


def read_rows(open_table: OpenTable, at: At | None) -> DataFrame:
    """Return a table's rows, hidden columns too, at a moment; now if there is none.

    Raises NotFound for a moment that is not available, and says which are; ConfigError for incomplete offsets.
    """
    table_timeline = travel.timeline_of(open_table)
    if at is None:
        return open_table.lake.read(open_table.visible.path)
    if isinstance(at, AtCommit):
        at = AtVersion(table_timeline.version_committed_by(at))
    # A version's number is enough: the logs of bronze and of the table need not be read.
    if isinstance(at, AtVersion) and (version_rows := _rows_of_version(open_table, at.version)) is not None:
        return version_rows
    cut = table_timeline.cut(at)
    # By event time and by offsets a table is what its records make it, without what others wrote into a version.
    if cut.whole and (version_rows := _rows_of_version(open_table, table_timeline.version(at))) is not None:
        return version_rows
    return Past(open_table).visible(cut)


def read_version(open_table: OpenTable, moment: At | None) -> DataFrame:
    """Return a table's rows, hidden columns too, at a moment that is one of its versions; NotFound for another."""
    if moment is None:
        return open_table.lake.read(open_table.visible.path)
    if (version_rows := _rows_of_version(open_table, travel.timeline_of(open_table).version(moment))) is not None:
        return version_rows
    raise NotFound(
        f"table {open_table.name!r} at {moment}: Delta has no version of exactly that moment. Use bronze instead."
    )


def meant_version(open_table: OpenTable, moment: At) -> int | None:
    """Return the version that a moment names, by its number or by its commit time; None for other moments."""
    if isinstance(moment, AtCommit):
        return travel.timeline_of(open_table).version_committed_by(moment)
    return moment.version if isinstance(moment, AtVersion) else None


def cut_at(open_table: OpenTable, moment: At) -> Cut:
    """Return which records make a table at a moment. Raises NotFound, ConfigError; see `read`."""
    return travel.timeline_of(open_table).cut(moment)


def applied_tick(open_table: OpenTable) -> int:
    """Return the last tick that a table has taken in; ticks that hold nothing for it are taken in at once."""
    return travel.timeline_of(open_table).applied


def _rows_of_version(open_table: OpenTable, version: int | None) -> DataFrame | None:
    """A version's rows; None if there is no such version, or Delta no longer has it whole."""
    if version is None:
        return None
    try:
        return open_table.lake.past(open_table.visible.path, version)
    except AnalysisException:
        return None
