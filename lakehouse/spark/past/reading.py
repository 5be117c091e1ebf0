"""Reads of a table at a moment, however it is named: the version that it is, or the fold that `Past` makes."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut, check_offsets
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import At, AtCommit, AtEvent, AtOffsets, AtTick, AtVersion, written
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.past.moments import Past
from lakehouse.spark.table import tables, travel
from lakehouse.spark.transaction import exists, log_of, read_progress


def read(spark: SparkSession, layout: Layout, table: Table, at: At | None) -> DataFrame:
    """Return a table's rows, hidden columns too, at a moment; now if there is none.

    Raises NotFound for a moment that can't be had, and says which can; ConfigError for offsets that leave one out.
    """
    path = layout.silver(table.name)
    if not exists(spark, path):
        raise NotFound(f"table {table.name!r} does not exist in {layout.root}. Run its application first.")
    if at is None:
        return travel.read_version(spark, path)
    if isinstance(at, AtCommit):
        at = AtVersion(_version_at(spark, table, path, at))
    # A version's number says all: what stands in the logs of bronze and of the table need not be looked for.
    if isinstance(at, AtVersion) and (frame := _kept(spark, path, at.version)) is not None:
        return frame
    found = cut(spark, layout, table, at)
    if (frame := _kept(spark, path, _exact(spark, layout, table, at, found))) is not None:
        return frame
    return Past(spark, layout, table).seen(found)


def version(spark: SparkSession, layout: Layout, table: Table, at: At | None) -> DataFrame:
    """Return a table's rows, hidden columns too, at a moment that is one of its versions; NotFound for another."""
    path = layout.silver(table.name)
    if at is None:
        return travel.read_version(spark, path)
    found = cut(spark, layout, table, at)
    if (frame := _kept(spark, path, _exact(spark, layout, table, at, found))) is not None:
        return frame
    raise NotFound(f"table {table.name!r} at {at}: Delta has no version that is just that. Take bronze instead.")


def version_meant(spark: SparkSession, layout: Layout, table: Table, at: At) -> int | None:
    """Return the version that a moment names, by its number or by its commit time; None for other moments."""
    if isinstance(at, AtCommit):
        return _version_at(spark, table, layout.silver(table.name), at)
    return at.version if isinstance(at, AtVersion) else None


def complete_tick(spark: SparkSession, layout: Layout) -> int:
    """Return bronze's last complete tick."""
    return read_progress(spark, layout.records, bronze.NAME).tick


def cut(spark: SparkSession, layout: Layout, table: Table, at: At) -> Cut:
    """Return which records make a table at a moment. Raises NotFound, ConfigError; see `read`."""
    if not exists(spark, layout.silver(table.name)):
        raise NotFound(f"table {table.name!r} does not exist in {layout.root}. Run its application first.")
    match at:
        case AtVersion(version):
            return Cut(_tick_of(spark, layout, table, version))
        case AtCommit():
            return cut(spark, layout, table, AtVersion(_version_at(spark, table, layout.silver(table.name), at)))
        case AtTick(tick):
            done = read_progress(spark, layout.silver(table.name), table.name).tick
            if tick > done and tick > (applied := applied_tick(spark, layout, table)):
                raise NotFound(
                    f"table {table.name!r} has not taken in tick {tick}: it stands at tick {applied}. Ticks 0 to "
                    f"{applied} can be read."
                )
            return Cut(tick)
        case AtEvent(ms):
            return Cut(applied_tick(spark, layout, table), event_ms=ms)
        case AtOffsets(offsets):
            applied = applied_tick(spark, layout, table)
            _check_offsets(spark, layout, table, offsets, applied)
            return Cut(applied, offsets=offsets)


def applied_tick(spark: SparkSession, layout: Layout, table: Table) -> int:
    """Return the last tick that a table has taken in; ticks that hold nothing for it are taken in at once."""
    done = read_progress(spark, layout.silver(table.name), table.name).tick
    complete = complete_tick(spark, layout)
    if interventions.waiting(spark, layout, table.name, done, complete):
        return done
    return done if travel.has_rows(spark, layout, table, done, complete) else max(done, complete)


def _exact(spark: SparkSession, layout: Layout, table: Table, at: At, found: Cut) -> int | None:
    """The version that the table is at a moment, if it is one."""
    if isinstance(at, AtVersion):
        return at.version
    if not found.whole:
        return None
    place = tables.visible(layout, table)
    known = travel.commits(spark, place.path, place.name, found.tick, found.tick)
    last = travel.last_before(spark, layout, table, known, found.tick)
    return None if last is None else last.last


def _kept(spark: SparkSession, path: str, version: int | None) -> DataFrame | None:
    """A version's rows; None where there is no such version, or Delta's log no longer tells of it."""
    if version is None:
        return None
    try:
        return travel.read_version(spark, path, version)
    except AnalysisException:
        return None


def _version_at(spark: SparkSession, table: Table, path: str, at: AtCommit) -> int:
    """The last version that was committed at a time, or before."""
    log = log_of(spark, path)
    later = log.first(lambda said: said.time_ms > at.ms)
    version = log.newest if later is None else later - 1
    if log.at(version) is None:
        begins = log.at(version + 1)
        assert begins is not None
        raise NotFound(
            f"table {table.name!r} at {at}: its log begins at {written(begins.time_ms)}. A later commit time can be "
            "read; and any tick, offset or event time."
        )
    return version


def _tick_of(spark: SparkSession, layout: Layout, table: Table, version: int) -> int:
    """The tick of a version, which may be gone, while the log still tells of it."""
    place = tables.visible(layout, table)
    log = log_of(spark, place.path)
    if log.at(version) is None:
        raise NotFound(
            f"table {table.name!r} has no version {version}. Versions {log.oldest()} to {log.newest} can be read; and "
            "any tick, offset or event time."
        )
    return next((commit.tick for commit in travel.ours(log.until(version), place.name)), NO_TICK)


def _check_offsets(
    spark: SparkSession, layout: Layout, table: Table, offsets: Mapping[str, Mapping[int, int]], applied: int
) -> None:
    rows = bronze.between(bronze.of_stream(spark, layout, table.stream), 0, applied)
    known = rows.groupBy("topic", "partition").agg(F.max("offset")).collect()
    check_offsets(table, offsets, {(topic, partition): last + 1 for topic, partition, last in map(tuple, known)})
