"""A table's timeline, read by Spark: its version at a tick, and whether ticks have records for it."""

from __future__ import annotations

from collections.abc import Iterable

from lakehouse.errors import NotFound
from lakehouse.lake.moment import past_subject, timeline
from lakehouse.lake.moment.past_subject import TableInputs
from lakehouse.lake.moment.timeline import Timeline
from lakehouse.lake.place import TablePlace
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.moment import AtTick
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.table.lake_files import SparkLakeFiles


def timeline_of(open_table: OpenTable, table_place: TablePlace | None = None) -> Timeline:
    """Return a table's timeline. table_place: that of its state, not the visible table. Raises NotFound."""
    table = open_table.table
    reads = TableInputs.of_stream(table.stream)
    visible_subject = past_subject.visible_subject(open_table.layout, table.name, reads)
    is_state = table_place is not None and table_place.path != visible_subject.path
    table_subject = past_subject.state_subject(open_table.layout, table.name, reads) if is_state else visible_subject
    return Timeline(_lake_files(open_table), table_subject)


def _lake_files(open_table: OpenTable) -> SparkLakeFiles:
    return SparkLakeFiles(open_table.lake, open_table.table.stream.own_topics)


def version_at_tick(open_table: OpenTable, tick: int, table_place: TablePlace | None = None) -> int:
    """Return the version that is the table at a tick. Raises NotFound, naming the available ticks.

    table_place: that of its state (`OpenTable.state`), not the visible table.
    """
    table_timeline = timeline_of(open_table, table_place)
    version = table_timeline.version(AtTick(tick))
    if version is None:
        raise NotFound(
            f"{table_timeline.subject.label} at tick {tick} lies between versions. It has {table_timeline.span()}."
        )
    return version


def has_rows(open_table: OpenTable, after_tick: int, to_tick: int) -> bool:
    """Say whether a table has something to take in of the ticks (after_tick, to_tick].

    That is: records in bronze; an intervention in a table that it reads; at first, rows with which one was restored.
    """
    lake_files = _lake_files(open_table)
    return to_tick > after_tick and (
        (after_tick == NO_TICK and begins_with_rows(open_table))
        or any(
            lake_files.has_interventions(upstream.name, after_tick, to_tick)
            for upstream in open_table.table.stream.tables
        )
        or lake_files.has_records(open_table.table.stream.topics, after_tick, to_tick)
    )


def begins_with_rows(open_table: OpenTable) -> bool:
    """Say whether a table begins with the rows with which a table above it was restored, since it may take them out."""
    stream, live = open_table.table.stream, open_table.lake.live
    return (
        stream.undoes
        and open_table.read_skipped_offsets() is None
        and any(live.open(above).read_skipped_offsets() for above in stream.tables)
    )


def common_tick(lake: OpenLake, tables: Iterable[Table]) -> int:
    """Return the last tick that all of these tables have taken in: reads at it are consistent with each other.

    A table that does not exist has taken in nothing.
    """
    tables = list(tables)
    if not all(lake.exists(lake.layout.silver(table.name)) for table in tables):
        return NO_TICK
    complete_tick = lake.progress(lake.bronze).tick
    return timeline.common_tick([timeline_of(lake.open(table)) for table in tables], complete_tick)
