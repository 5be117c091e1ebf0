"""A table at a moment, on Spark: which of its versions that is, as `lake.moment.timeline` decides, and its rows."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import commits as commits_of
from lakehouse.lake.moment import subject, timeline
from lakehouse.lake.moment.commits import Commit
from lakehouse.lake.moment.subject import Reads
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.bronze import bronze
from lakehouse.spark.table.hadoop import Hadoop
from lakehouse.spark.table.tables import Place
from lakehouse.spark.transaction import exists, log_of, read_progress


def line_of(spark: SparkSession, layout: Layout, table: Table, place: Place | None = None) -> Timeline:
    """Return a table's past. place: of what it keeps (`tables.state`) instead of what is seen. Raises NotFound."""
    reads = Reads.of(table.stream)
    seen = subject.visible(layout, table.name, reads)
    kept = place is not None and place.path != seen.path
    asked = subject.state(layout, table.name, reads) if kept else seen
    return Timeline(_source(spark, layout, table), asked)


def _source(spark: SparkSession, layout: Layout, table: Table) -> Hadoop:
    return Hadoop(spark, layout, {source.topic for source in table.stream.sources if source.own_table})


def commits(
    spark: SparkSession, path: str, name: str, back_to: int | None = None, up_to: int | None = None
) -> list[Commit]:
    """Return a table's commits by lakehouse that Delta's log still has, oldest first.

    back_to, up_to: ticks, see `lakehouse.lake.moment.commits`.
    """
    return commits_of.commits(log_of(spark, path), name, back_to, up_to)


def version_at_tick(spark: SparkSession, layout: Layout, table: Table, tick: int, place: Place | None = None) -> int:
    """Return the version that is the table at a tick. Raises NotFound, and says which ticks can be had.

    place: where it lies; what it keeps (`tables.state`) instead of what is seen.
    """
    line = line_of(spark, layout, table, place)
    version = line.version(AtTick(tick))
    if version is None:
        raise NotFound(f"{line.subject.what} at tick {tick} lies between versions. It has {line.span()}.")
    return version


def has_rows(spark: SparkSession, layout: Layout, table: Table, after: int, to: int) -> bool:
    """Say whether bronze has records for a table in the ticks (after, to], or a table that it reads an intervention."""
    source = _source(spark, layout, table)
    return to > after and (
        any(source.has_interventions(upstream.name, after, to) for upstream in table.stream.tables)
        or source.has_records(table.stream.topics, after, to)
    )


def common_tick(spark: SparkSession, layout: Layout, tables: Iterable[Table]) -> int:
    """Return the last tick that all of these tables have taken in: read at it, they are consistent with each other.

    A table that does not exist has taken in nothing.
    """
    tables = list(tables)
    if not all(exists(spark, layout.silver(table.name)) for table in tables):
        return NO_TICK
    complete = read_progress(spark, layout.records, bronze.NAME).tick
    return timeline.common_tick([line_of(spark, layout, table) for table in tables], complete)


def read_version(spark: SparkSession, path: str, version: int | None = None) -> DataFrame:
    """Return the rows of the table at `path`, hidden columns too, at a version or now."""
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(path)
