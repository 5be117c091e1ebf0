"""What the commits of a table say of a tick, or bronze where they are gone: its clock, and the event times up to it."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.delta import anchors, bronze, tables, travel
from lakehouse.delta.arrivals import arrivals
from lakehouse.delta.clock import ClockState, Ticking, state_of
from lakehouse.delta.fold import not_skipped
from lakehouse.delta.layout import Layout
from lakehouse.delta.streams import stream_frame
from lakehouse.delta.transaction import properties
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK


def arrived(spark: SparkSession, layout: Layout, table: Table, after: int, to: int, skip: str | None) -> DataFrame:
    """Return the bronze rows that the table takes in between two ticks: (after, to]."""
    return not_skipped(bronze.between(bronze.of_stream(spark, layout, table.stream), after, to), skip)


def clock_at(spark: SparkSession, layout: Layout, table: Table, tick: int) -> ClockState | None:
    """Return where the table's clock stands at a tick, from its commits, else from bronze; None if it has none."""
    if not table.has_clock:
        return None
    place = tables.state(layout, table)
    exists = tables.exists(spark, place.path)
    # A restored table's clock goes on from where the changelog's stood.
    text = properties(spark, place.path).get(tables.CLOCK) if exists else None
    begin, after = state_of(json.loads(text)) if text else ClockState(), NO_TICK
    if tick == NO_TICK:
        return begin
    known = travel.commits(spark, place.path, place.name, tick) if exists else []
    stood = [(commit.tick, commit.said["clock"]) for commit in known if "clock" in commit.said]
    stood += [(row["tick"], json.loads(row["clock"])) for row in anchors.index(spark, layout, table) if row["clock"]]
    for then, said in sorted(stood, key=lambda item: -item[0]):
        if then <= tick:
            begin, after = state_of(dict(said)), then
            break
    if not travel.has_rows(spark, layout, table, after, tick):
        return begin
    skip = tables.skipped_offsets(spark, layout, table)
    stream = stream_frame(table.stream, arrived(spark, layout, table, after, tick, skip))
    ticking = Ticking(begin)
    ticking.watch(arrivals(table, [], stream, begin)).count()
    return ticking.after()


def through_at(spark: SparkSession, layout: Layout, table: Table, tick: int) -> int | None:
    """Return the largest event time (milliseconds) of the records that reached the table up to a tick.

    From its commits, else from bronze; None if there was none.
    """
    place = tables.state(layout, table)
    if tick == NO_TICK or not tables.exists(spark, place.path):
        return None
    known = travel.commits(spark, place.path, place.name, tick)
    if (last := travel.last_before(spark, layout, table, known, tick)) is not None:
        for commit in reversed(known[: known.index(last) + 1]):
            if "times" in commit.said:
                through: int | None = commit.said["times"]["through"]
                return through
    skip = tables.skipped_offsets(spark, layout, table)
    stream = stream_frame(table.stream, arrived(spark, layout, table, NO_TICK, tick, skip))
    times = [arrivals(table, [], stream, None).agg(F.max("rowtime")).first()]
    if skip:  # what a restored table began from is in no bronze of this lake
        rows = travel.read_version(spark, place.path, 0)
        times.append(rows.agg(F.unix_millis(F.max("_event_time"))).first())
    return max((row[0] for row in times if row and row[0] is not None), default=None)
