"""The largest event time of the records that a table contains at a tick: reads of an event time go by it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F

from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.bronze.interventions import Intervention, read_interventions
from lakehouse.spark.fold.fold_choice import choose_fold
from lakehouse.spark.fold.table_fold import TableFold
from lakehouse.spark.history import refold
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import timelines
from lakehouse.spark.table.input import input_of


def through_at(open_table: OpenTable, tick: int) -> int | None:
    """Return the largest event time (milliseconds) of the records that reached the table up to a tick.

    From its commits, else from bronze and the interventions; None if there was none.
    """
    table_place = open_table.state
    if tick == NO_TICK or not open_table.lake.exists(table_place.path):
        return None
    commits = open_table.lake.commits(table_place, tick, tick)
    if timelines.timeline_of(open_table, table_place).commit_at_tick(tick) is not None:
        for commit in reversed(commits):
            if commit.tick <= tick and commit.batch is not None:
                return commit.batch.times.through
    table_input, table_fold = input_of(open_table), choose_fold(open_table.table)
    records = table_input.records(table_fold, None, NO_TICK, tick)
    time_rows = [records.agg(F.max("rowtime")).first()]
    if table_input.skip:  # this lake's bronze lacks the rows with which a restored table began
        first_rows = open_table.lake.read(table_place.path, 0)
        time_rows.append(first_rows.agg(F.unix_millis(F.max("_event_time"))).first())
    through = latest_of(*(row[0] for row in time_rows if row))
    interventions = read_interventions(open_table.lake, open_table.name)
    for intervention in interventions_in_effect(interventions, tick):
        through = through_after(open_table, table_fold, through, interventions, intervention)
    return through


def through_after(
    open_table: OpenTable,
    table_fold: TableFold,
    through: int | None,
    interventions: Sequence[Intervention],
    intervention: Intervention,
) -> int | None:
    """Return the largest event time of the records that a table contains after an intervention.

    through: that before it. interventions: all of the table's. Only fixed records, and the pairs that late ones
    complete, had not reached the table.
    """
    if intervention.kind not in ("fixed", "late"):
        return through
    return latest_of(through, refold.latest_time(open_table, table_fold, [*interventions], intervention))


def latest_of(*times: int | None) -> int | None:
    """Return the latest of the times that are known; None if none is."""
    return max((time for time in times if time is not None), default=None)
