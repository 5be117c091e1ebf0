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


def read(opened: OpenTable, at: At | None) -> DataFrame:
    """Return a table's rows, hidden columns too, at a moment; now if there is none.

    Raises NotFound for a moment that is not available, and says which are; ConfigError for incomplete offsets.
    """
    line = travel.line_of(opened)
    if at is None:
        return opened.lake.read(opened.visible.path)
    if isinstance(at, AtCommit):
        at = AtVersion(line.committed_by(at))
    # A version's number is enough: the logs of bronze and of the table need not be read.
    if isinstance(at, AtVersion) and (frame := _version(opened, at.version)) is not None:
        return frame
    found = line.cut(at)
    # By event time and by offsets a table is what its records make it, without what others wrote into a version.
    if found.whole and (frame := _version(opened, line.version(at))) is not None:
        return frame
    return Past(opened).visible(found)


def version(opened: OpenTable, at: At | None) -> DataFrame:
    """Return a table's rows, hidden columns too, at a moment that is one of its versions; NotFound for another."""
    if at is None:
        return opened.lake.read(opened.visible.path)
    if (frame := _version(opened, travel.line_of(opened).version(at))) is not None:
        return frame
    raise NotFound(f"table {opened.name!r} at {at}: Delta has no version of exactly that moment. Use bronze instead.")


def version_meant(opened: OpenTable, at: At) -> int | None:
    """Return the version that a moment names, by its number or by its commit time; None for other moments."""
    if isinstance(at, AtCommit):
        return travel.line_of(opened).committed_by(at)
    return at.version if isinstance(at, AtVersion) else None


def cut(opened: OpenTable, at: At) -> Cut:
    """Return which records make a table at a moment. Raises NotFound, ConfigError; see `read`."""
    return travel.line_of(opened).cut(at)


def applied_tick(opened: OpenTable) -> int:
    """Return the last tick that a table has taken in; ticks that hold nothing for it are taken in at once."""
    return travel.line_of(opened).applied


def _version(opened: OpenTable, version: int | None) -> DataFrame | None:
    """A version's rows; None if there is no such version, or Delta no longer has it whole."""
    if version is None:
        return None
    try:
        return opened.lake.past(opened.visible.path, version)
    except AnalysisException:
        return None
