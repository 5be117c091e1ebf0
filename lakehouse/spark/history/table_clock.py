"""The clock of a table at a tick: from its commits, or from bronze if they are gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakehouse.lake.properties import CLOCK
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.time.clock import ClockState, clock_from_plain
from lakehouse.spark.fold.clock import RunningClock
from lakehouse.spark.fold.fold_choice import choose_fold
from lakehouse.spark.history import anchors
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import timelines
from lakehouse.spark.table.input import input_of
from lakehouse.spark.transaction import read_properties


def clock_at(
    open_table: OpenTable,
    tick: int,
    known_clock: tuple[int, Mapping[str, Any]] | None = None,
    *,
    without_commits: bool = False,
) -> ClockState | None:
    """Return the table's clock at a tick, from its commits, else from bronze; None if it has none.

    known_clock: an earlier tick, with the clock at that tick. Bronze is read from the nearest known tick on.
    without_commits: the commits have times of records that were erased since.
    """
    table = open_table.table
    if not table.has_clock:
        return None
    table_place = open_table.state
    is_there = open_table.lake.exists(table_place.path)
    # A restored table's clock goes on from the changelog's clock.
    clock_text = read_properties(open_table.spark, table_place.path).get(CLOCK) if is_there else None
    clock_state, begin_tick = clock_from_plain(json.loads(clock_text)) if clock_text else ClockState(), NO_TICK
    if tick == NO_TICK:
        return clock_state
    commits = open_table.lake.commits(table_place, tick, tick) if is_there and not without_commits else []
    clocks_by_tick = [(commit.tick, commit.batch.clock) for commit in commits if commit.batch and commit.batch.clock]
    clocks_by_tick += [
        (row["tick"], clock_from_plain(json.loads(row["clock"])))
        for row in anchors.read_index(open_table)
        if row["clock"]
    ]
    clocks_by_tick += [(known_clock[0], clock_from_plain(known_clock[1]))] if known_clock is not None else []
    for clock_tick, known_state in sorted(clocks_by_tick, key=lambda item: -item[0]):
        if clock_tick <= tick:
            clock_state, begin_tick = known_state, clock_tick
            break
    if not timelines.has_rows(open_table, begin_tick, tick):
        return clock_state
    running_clock = RunningClock(clock_state)
    running_clock.watch(input_of(open_table).records(choose_fold(table), clock_state, begin_tick, tick)).count()
    return running_clock.after()
