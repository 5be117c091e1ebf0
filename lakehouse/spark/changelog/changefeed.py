"""A table's changelog per event, derived from bronze on request; net per commit: `lakehouse.spark.changelog.net`.

Per event: one change for each record that reached the table, as if each batch had one record, however the records were
batched (docs/rules.md, rule 24): `TableFold.changes`. From these changes of the kept rows, the rows that HAVING leaves
out are then removed, and suppressed changes that change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.lake.key_sql import drop_window_columns
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.expression.schema import POSITION_TYPE
from lakehouse.plan.operator import refuse_history
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.bronze.interventions import Intervention, read_interventions
from lakehouse.spark.changelog.closing import closed_windows
from lakehouse.spark.changelog.emitted import filter_changes
from lakehouse.spark.changelog.opening_rows import ChangelogBase
from lakehouse.spark.fold.visibility import is_final
from lakehouse.spark.history import cut_filter, present_logic, table_clock
from lakehouse.spark.history.moments import Past
from lakehouse.spark.key_column import is_key
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import tables, timelines
from lakehouse.spark.table.input import input_of

# Beside the key and value columns: whether it is a delete, the event time in milliseconds, and what caused it.
CHANGE_COLUMNS = ("_tombstone", "_event_time_ms", "_position")


def per_event(
    open_table: OpenTable,
    after_tick: int,
    to_tick: int,
    *,
    cut: Cut | None = None,
    numbered: bool = False,
    rebuilt: bool = False,
    of_state: bool = False,
) -> DataFrame:
    """Return the changes of the ticks in (after_tick, to_tick], in position order.

    Columns: key, values, accumulators, CHANGE_COLUMNS.

    cut: which records count, if not all do; its tick is ignored. numbered: in no order, with `_number`, which counts
    the changes of one record from 0. rebuilt: as the present logic makes them, see
    `lakehouse.spark.history.present_logic`; so are all from the first tick on. Other changes before a swap to other
    logic are one step, at the swap. of_state: the changes of all that the table keeps, with the columns of its
    state, without those of rows that expire. Raises NotFound for final results by a cut, and for a history from the
    first tick that needs earlier logic of a table above; PlanError for a table that is a history.
    """
    table = open_table.table
    refuse_history(table.fold, table.name, "it has no changelog per event, but a net one: net=True")
    if cut is not None and not cut.is_whole and is_final(table):
        raise NotFound(
            f"table {table.name!r} shows final results: what it had shown by an event time, or by offsets, can't be "
            "computed for another table that reads it. Ask for a version or a tick."
        )
    if after_tick == NO_TICK and not rebuilt:
        present_logic.refuse_other_logic_above(open_table, after_tick, to_tick)
        # A history from the first tick is that of one logic.
        rebuilt = any(map(present_logic.brings_other_logic, _interventions_of(open_table)))
    present_tick = present_logic.present_since(open_table) if rebuilt else NO_TICK
    change_parts = []
    if present_tick > after_tick:  # nothing changes at the tick at which the present logic was swapped in
        change_parts = _split_changes(
            present_logic.with_present_logic(open_table),
            after_tick,
            min(to_tick, present_tick - 1),
            cut,
            rebuilt=rebuilt,
            of_state=of_state,
        )
        after_tick = min(to_tick, present_tick)
    change_parts += _split_changes(open_table, after_tick, to_tick, cut, rebuilt=rebuilt, of_state=of_state)
    frames = [part.frame(numbered=numbered) for part in change_parts if part.to_tick > part.after_tick]
    frames = frames or [change_parts[-1].frame(numbered=numbered)]
    return reduce(DataFrame.unionByName, frames)  # each part is in order, and Spark reads part by part


def _split_changes(
    open_table: OpenTable,
    after_tick: int,
    to_tick: int,
    cut: Cut | None,
    *,
    rebuilt: bool,
    of_state: bool,
) -> list[_Changes]:
    """Return the changes between two ticks, cut at the interventions.

    Raises NotFound for ticks of earlier logic.
    """
    change_parts = []
    make_part = partial(_Changes, open_table, cut=cut, rebuilt=rebuilt, of_state=of_state)
    all_interventions = _interventions_of(open_table)
    interventions = [intervention for intervention in all_interventions if after_tick < intervention.at <= to_tick]
    # Only earlier logic could tell the changes before a swap to other logic: they are in the change that the swap is.
    interventions = [*present_logic.without_earlier_logic(interventions)]
    if interventions and present_logic.brings_other_logic(interventions[0]):
        swap, interventions = interventions[0], interventions[1:]
        change_parts, after_tick = [make_part(after_tick, swap.at, swap)], swap.at
    elif timelines.has_rows(open_table, after_tick, to_tick):
        present_logic.refuse_earlier_logic(open_table.name, all_interventions, after_tick, to_tick)
    for intervention in interventions:
        change_parts += [
            make_part(after_tick, intervention.at - 1),
            make_part(intervention.at - 1, intervention.at, intervention),
        ]
        after_tick = intervention.at
    return [*change_parts, make_part(after_tick, to_tick)]


def _interventions_of(open_table: OpenTable) -> list[Intervention]:
    return read_interventions(open_table.lake, open_table.name)


class _Changes:
    """The changes of one table between two ticks.

    A frame of changes has, beside the columns of `per_event`, `_step`: the order of the changes of one record. The rows
    from which the changes begin are in it, too, with a null `_position`, until they are no longer needed.
    """

    def __init__(
        self,
        open_table: OpenTable,
        after_tick: int,
        to_tick: int,
        intervention: Intervention | None = None,
        cut: Cut | None = None,
        *,
        rebuilt: bool = False,
        of_state: bool = False,
    ) -> None:
        self._cut = Cut(to_tick) if cut is None else replace(cut, tick=to_tick)
        self._open_table, self._table, self._intervention = open_table, open_table.table, intervention
        self.after_tick, self.to_tick = after_tick, to_tick
        self._input = replace(input_of(open_table), rebuilt=rebuilt)
        if self._cut.is_whole:
            self._input = replace(self._input, lake=open_table.lake)  # with the cache of a batch
        else:
            select_rows = partial(cut_filter.filter_counting_rows, self._cut, table=open_table.table)
            self._input = replace(self._input, select_rows=select_rows, cut=self._cut)
        self._fold = tables.table_fold(open_table.spark, open_table.table)
        self._clock = table_clock.clock_at(open_table, after_tick)
        begin_cut = replace(self._cut, tick=after_tick)
        self._of_state, self._shows_final = of_state, is_final(open_table.table) and not of_state
        self._changelog_base = ChangelogBase(open_table, begin_cut, to_tick, self._input.skip, self._clock)

    def frame(self, *, numbered: bool = False) -> DataFrame:
        table = self._table
        if self._intervention is not None:
            changes = self._intervention_changes(self._intervention)
        else:
            changes = self._folded_changes()
        # An intervention's changes of final results come from visible rows, which have passed these operators already.
        # The rows before are not among the changes, so HAVING would take a delete for one of a row never seen.
        is_filtered = self._of_state or (self._shows_final and self._intervention is not None)
        for operator in () if is_filtered else table.later_operators:
            changes = filter_changes(operator, table, changes)
        change_order = ["_position", *table.windows[:1]]
        if self._shows_final:
            change_order = ["_position", *reversed(table.windows), *table.group]
        column_names = [name for name in changes.columns if name not in (*CHANGE_COLUMNS, "_step")]
        change_order = ["_position", "_step"] if "_step" in changes.columns else change_order
        if numbered:
            same_position = Window.partitionBy("_position").orderBy(*change_order)
            changes = changes.withColumn("_number", (F.row_number().over(same_position) - 1).cast("bigint"))
            column_names = [*column_names, "_number"]
        changes = changes.where(F.col("_position").isNotNull())
        if not numbered:  # to sort all of them, Spark would derive them twice
            changes = changes.orderBy(*change_order)
        return changes.select(*column_names, *CHANGE_COLUMNS)

    def _folded_changes(self) -> DataFrame:
        of_state, final, records = self._of_state, self._shows_final, self._arriving_records()
        changes = self._fold.changes(records, self._changelog_base, of_state=of_state, final_only=final)
        if final:
            return self._closed_changes(changes, records)
        return changes if of_state else self._fold.without_markers(changes)

    def _arriving_records(self) -> DataFrame:
        records = self._input.records(self._fold, self._clock, self.after_tick, self.to_tick, units=True)
        time_condition = cut_filter.is_in_time(self._cut)
        return records if time_condition is None else records.where(time_condition)

    def _intervention_changes(self, intervention: Intervention) -> DataFrame:
        """Return an intervention's changes, at positions of its own: (tick, 0, "", -1, n, ())."""
        table = self._table
        frame = Past(self._open_table).changed_rows(
            intervention, self.after_tick, visible=self._shows_final, cut=self._cut
        )
        frame = frame if self._of_state else self._fold.without_markers(frame)
        change_number = F.row_number().over(Window.orderBy(*reversed(table.windows), *table.group)) - 1
        position_fields = [F.lit(intervention.at), F.lit(0), F.lit(""), F.lit(-1), change_number, F.array()]
        event_time = F.unix_millis("_event_time")
        frame = frame.withColumns(
            {"_position": F.struct(*position_fields).cast(POSITION_TYPE), "_event_time_ms": event_time}
        )
        frame = frame.drop("_event_time")
        base_rows = None if self._shows_final else self._changelog_base.touched_rows(frame, reads_all_files=True)
        return self._fold.with_opening_rows(frame, base_rows)

    def _closed_changes(self, changes: DataFrame, records: DataFrame) -> DataFrame:
        """Return the last row of each window that records closed, at the position of the record that closed it."""
        assert self._clock is not None
        latest_first = Window.partitionBy(*self._table.key)
        latest_first = latest_first.orderBy(
            *[F.col(name).desc_nulls_last() for name in ("_position", "_step") if name in changes.columns]
        )
        last_rows = changes.withColumn("_number", F.row_number().over(latest_first)).where(
            "_number = 1 AND NOT _tombstone"
        )
        closed_rows = last_rows.drop("_number", "_position", *(["_step"] if "_step" in changes.columns else []))
        return closed_windows(self._table, closed_rows, records, self._clock)


def changes_of_key(changes: DataFrame, table: Table, key: str) -> DataFrame:
    """Return one key's changes. key: its text, see `lakehouse.formats.key_text`. Raises ConfigError."""
    return changes.where(is_key(changes.schema, drop_window_columns(table.key), key))
