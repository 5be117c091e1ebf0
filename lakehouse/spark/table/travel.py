"""A table at a moment, on Spark: the version that `lake.moment.timeline` decides on, and its rows."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.errors import NotFound
from lakehouse.lake.moment import subject, timeline
from lakehouse.lake.moment.subject import Reads
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.lake.place import TablePlace
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.table.hadoop import Hadoop


def line_of(opened: OpenTable, place: TablePlace | None = None) -> Timeline:
    """Return a table's past. place: of its state (`OpenTable.state`), not the visible table. Raises NotFound."""
    table = opened.table
    reads = Reads.of(table.stream)
    seen = subject.visible(opened.layout, table.name, reads)
    kept = place is not None and place.path != seen.path
    asked = subject.state(opened.layout, table.name, reads) if kept else seen
    return Timeline(_source(opened), asked)


def _source(opened: OpenTable) -> Hadoop:
    return Hadoop(opened.lake, {source.topic for source in opened.table.stream.sources if source.own_table})


def version_at_tick(opened: OpenTable, tick: int, place: TablePlace | None = None) -> int:
    """Return the version that is the table at a tick. Raises NotFound, and says which ticks are available.

    place: of its state (`OpenTable.state`), not the visible table.
    """
    line = line_of(opened, place)
    version = line.version(AtTick(tick))
    if version is None:
        raise NotFound(f"{line.subject.what} at tick {tick} lies between versions. It has {line.span()}.")
    return version


def has_rows(opened: OpenTable, after: int, to: int) -> bool:
    """Say whether a table has something to take in of the ticks (after, to].

    That is records in bronze; an intervention in a table that it reads; at first the rows that one was restored with.
    """
    source = _source(opened)
    return to > after and (
        (after == NO_TICK and begins_with_rows(opened))
        or any(source.has_interventions(upstream.name, after, to) for upstream in opened.table.stream.tables)
        or source.has_records(opened.table.stream.topics, after, to)
    )


def begins_with_rows(opened: OpenTable) -> bool:
    """Say whether a table begins with rows that a table above it was restored with, and which it must take out."""
    stream, live = opened.table.stream, opened.lake.live
    return stream.undoes and opened.skip is None and any(live.open(above).skip for above in stream.tables)


def common_tick(lake: OpenLake, tables: Iterable[Table]) -> int:
    """Return the last tick that all of these tables have taken in: read at it, they are consistent with each other.

    A table that does not exist has taken in nothing.
    """
    tables = list(tables)
    if not all(lake.exists(lake.layout.silver(table.name)) for table in tables):
        return NO_TICK
    complete = lake.progress(lake.bronze).tick
    return timeline.common_tick([line_of(lake.open(table)) for table in tables], complete)
