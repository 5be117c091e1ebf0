"""What a table keeps at a tick, and where its clock stands there: what a changelog begins from.

From the table's version at the tick; where Delta no longer has it, folded anew from bronze.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta import bronze, tables, travel
from lakehouse.delta.aggregates import Form
from lakehouse.delta.arrivals import arrivals
from lakehouse.delta.clock import ClockState, Ticking, state_of
from lakehouse.delta.fold import not_skipped, refold
from lakehouse.delta.layout import Layout
from lakehouse.delta.streams import stream_frame
from lakehouse.delta.transaction import properties
from lakehouse.errors import NotFound
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK


def arrived(spark: SparkSession, layout: Layout, table: Table, after: int, to: int, skip: str | None) -> DataFrame:
    """Return the bronze rows that the table takes in between two ticks: (after, to]."""
    return not_skipped(bronze.between(bronze.of_stream(spark, layout, table.stream), after, to), skip)


def rows_at(
    spark: SparkSession, layout: Layout, table: Table, forms: list[Form], tick: int, skip: str | None
) -> DataFrame:
    """Return what the table keeps at a tick. Raises NotFound where neither Delta nor bronze can tell."""
    place = tables.state(layout, table)
    try:
        version = travel.version_at_tick(spark, layout, table, tick, place)
        return travel.read_version(spark, place.path, version)
    except NotFound:
        if skip:
            raise  # what a restored table began from is in no bronze of this lake
        clock = ClockState() if table.has_clock else None
        return refold(table, forms, arrived(spark, layout, table, NO_TICK, tick, None), clock)


def clock_at(spark: SparkSession, layout: Layout, table: Table, tick: int) -> ClockState | None:
    """Return where the table's clock stands at a tick, from its commits, else from bronze; None if it has none."""
    if not table.has_clock:
        return None
    place = tables.state(layout, table)
    exists = tables.exists(spark, place.path)
    # A restored table's clock goes on from where the changelog's stood.
    text = properties(spark, place.path).get(tables.CLOCK) if exists else None
    begin = state_of(json.loads(text)) if text else ClockState()
    if tick == NO_TICK:
        return begin
    known = travel.commits(spark, place.path, place.name, tick) if exists else []
    if (last := travel.last_before(spark, layout, table, known, tick)) is not None:
        for commit in reversed(known[: known.index(last) + 1]):
            if "clock" in commit.said:
                return state_of(dict(commit.said["clock"]))
    return _recomputed(spark, layout, table, tick, begin)


def _recomputed(spark: SparkSession, layout: Layout, table: Table, tick: int, begin: ClockState) -> ClockState:
    skip = tables.skipped_offsets(spark, layout, table)
    stream = stream_frame(table.stream, arrived(spark, layout, table, NO_TICK, tick, skip))
    ticking = Ticking(begin)
    ticking.watch(arrivals(table, [], stream, begin)).count()
    return ticking.after()
