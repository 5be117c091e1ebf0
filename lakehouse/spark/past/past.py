"""The clock of a table at a tick, and the event times up to it: from its commits, or from bronze if they are gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import functions as F

from lakehouse.lake.properties import CLOCK
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.clock import ClockState, Ticking, state_of
from lakehouse.spark.past import anchors
from lakehouse.spark.table import travel
from lakehouse.spark.table.input import input_of
from lakehouse.spark.transaction import properties


def clock_at(opened: OpenTable, tick: int, since: tuple[int, Mapping[str, Any]] | None = None) -> ClockState | None:
    """Return the table's clock at a tick, from its commits, else from bronze; None if it has none.

    since: an earlier tick, with the clock at that tick: bronze is read from the nearest known tick on.
    """
    table = opened.table
    if not table.has_clock:
        return None
    place = opened.state
    is_there = opened.lake.exists(place.path)
    # A restored table's clock goes on from the changelog's clock.
    text = properties(opened.spark, place.path).get(CLOCK) if is_there else None
    begin, after = state_of(json.loads(text)) if text else ClockState(), NO_TICK
    if tick == NO_TICK:
        return begin
    known = opened.lake.commits(place, tick, tick) if is_there else []
    stood = [(commit.tick, commit.said["clock"]) for commit in known if "clock" in commit.said]
    stood += [(row["tick"], json.loads(row["clock"])) for row in anchors.index(opened) if row["clock"]]
    stood += [since] if since is not None else []
    for then, said in sorted(stood, key=lambda item: -item[0]):
        if then <= tick:
            begin, after = state_of(dict(said)), then
            break
    if not travel.has_rows(opened, after, tick):
        return begin
    ticking = Ticking(begin)
    ticking.watch(input_of(opened).records(table, [], begin, after, tick)).count()
    return ticking.after()


def through_at(opened: OpenTable, tick: int) -> int | None:
    """Return the largest event time (milliseconds) of the records that reached the table up to a tick.

    From its commits, else from bronze; None if there was none.
    """
    place = opened.state
    if tick == NO_TICK or not opened.lake.exists(place.path):
        return None
    known = opened.lake.commits(place, tick, tick)
    if travel.line_of(opened, place).commit_at(tick) is not None:
        for commit in reversed(known):
            if commit.tick <= tick and "times" in commit.said:
                through: int | None = commit.said["times"]["through"]
                return through
    source = input_of(opened)
    times = [source.records(opened.table, [], None, NO_TICK, tick).agg(F.max("rowtime")).first()]
    if source.skip:  # the rows that a restored table began with are in no bronze of this lake
        rows = opened.lake.read(place.path, 0)
        times.append(rows.agg(F.unix_millis(F.max("_event_time"))).first())
    return max((row[0] for row in times if row and row[0] is not None), default=None)
