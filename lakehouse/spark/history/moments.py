"""A table at any moment of its past: the nearest version or anchor before it, and the later rows of bronze.

A read begins at an anchor, so its cost grows with the distance to it, not with the history:

    tick          the last anchor up to the tick, then the records of the ticks after it
    offsets       the last anchor that holds no record from these offsets on, then the records before them
    event time T  the last anchor that holds no record with an event time after T, then the records after the anchor
                  whose event time is not after T. A record is late, or not, as it was when it came; what has closed, or
                  expired, follows from the clock as only the records up to T would have moved it

Interventions count as they do for the live table, each at its tick.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.errors import NotFound
from lakehouse.lake.moment.cut import Cut, cut_from_details
from lakehouse.plan.evolution.change import DECLARATION, declaration_of
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.moment import Offsets
from lakehouse.semantics.time.clock import ClockState
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.interventions import Intervention, read_fixed_records, read_interventions
from lakehouse.spark.content import row_image
from lakehouse.spark.fold.clock import RunningClock, needs_watermark, with_stream_time
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.fold.merge import rows_of_other_keys
from lakehouse.spark.fold.visibility import is_closed, is_expired, is_final, is_still_open, is_visible
from lakehouse.spark.history import anchors, cut_filter, present_logic, refold, table_clock
from lakehouse.spark.history.anchors import Anchor
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import tables, timelines
from lakehouse.spark.table.input import input_of
from lakehouse.spark.transaction import read_properties, table_id

REPLACING_KINDS = ("revert", "swap")  # interventions that replace the whole table


@dataclass(frozen=True, slots=True)
class MomentState:
    """The rows that a table keeps at a moment; for final results also the rows that are visible already."""

    rows: DataFrame
    visible: DataFrame | None = None


class Past:
    """One table's past."""

    def __init__(
        self, open_table: OpenTable, extra_interventions: Sequence[Intervention] = (), *, anchored: bool = True
    ) -> None:
        """extra_interventions: interventions that are not recorded, to see their effect.

        anchored: False folds everything from bronze, also of the tables above.
        """
        self._open_table, self._lake, self._table = open_table, open_table.lake, open_table.table
        spark, table = open_table.spark, open_table.table
        self._fold = tables.table_fold(spark, table)
        self._anchored, self._input = anchored, replace(input_of(open_table), rebuilt=not anchored)
        self._interventions = [*read_interventions(open_table.lake, open_table.name), *extra_interventions]
        self._columns = tables.state_schema(spark, table)
        self._visible_columns = tables.visible_schema(spark, table)
        self._anchors_by_cut: dict[Cut, Anchor] = {}
        self._no_rows = spark.createDataFrame([], self._columns)

    def visible_rows(self, cut: Cut) -> DataFrame:
        """Return the visible rows at a moment, hidden columns too."""
        state = self.read_state(cut)
        table, rows = self._table, state.rows
        watermark = self._watermark_at(cut) if table.windows else None
        if state.visible is not None:
            has_closed = is_closed(table, watermark)
            closed_before, closed_later = state.visible.where(has_closed), rows.where(has_closed)
            rows = closed_before.unionByName(rows_of_other_keys(table.key, closed_later, closed_before))
        rows = rows.where(is_visible(self._fold))
        has_expired = is_expired(table, watermark)
        return _with_columns(rows if has_expired is None else rows.where(~has_expired), self._visible_columns)

    def read_state(self, cut: Cut) -> MomentState:
        """Return all that the table keeps at a moment; no row has expired since the anchor where the read begins."""
        base_anchor = self._base_anchor(cut)
        tick, state = base_anchor.tick, MomentState(base_anchor.rows, base_anchor.visible)
        later_interventions = [
            intervention for intervention in self._interventions if base_anchor.tick < intervention.at <= cut.tick
        ]
        if replacements := [
            intervention for intervention in later_interventions if intervention.kind in REPLACING_KINDS
        ]:
            # The last of them left nothing from before it.
            tick, state = replacements[-1].at, self._state_after(state, replacements[-1], cut)
        for intervention in [intervention for intervention in later_interventions if intervention.at > tick]:
            state = replace(state, rows=self._fold_ticks(state.rows, tick, intervention.at - 1, cut))
            state, tick = self._state_after(state, intervention, cut), intervention.at
        return replace(state, rows=self._fold_ticks(state.rows, tick, cut.tick, cut))

    def changed_rows(
        self, intervention: Intervention, before_tick: int, *, visible: bool, cut: Cut | None = None
    ) -> DataFrame:
        """Return the rows that an intervention changes, with their new values or `_tombstone`.

        before_tick: the last tick that the table took in before the intervention. visible: the rows of the visible
        table, not of the state; only for final results. cut: which records count; None for all.
        """
        cut_before, cut_after = (
            Cut(tick) if cut is None else replace(cut, tick=tick) for tick in (before_tick, intervention.at)
        )
        if visible:
            return self.changes_between(self.visible_rows(cut_before), self.visible_rows(cut_after))
        state = self.read_state(cut_before)
        committed_rows = self._committed_rows(intervention) if cut_after.is_whole else None
        return self.changes_between(
            state.rows,
            self._state_after(state, intervention, cut_after).rows if committed_rows is None else committed_rows,
        )

    def changes_between(self, old_rows: DataFrame, new_rows: DataFrame) -> DataFrame:
        """Return the new rows that differ from the old ones, and `_tombstone` for the old rows that are gone."""
        key_columns = self._table.key
        # If a row shows one record, the position says which.
        left_out = key_columns if self._fold.shows_one_record else (*key_columns, "_position")
        value_columns = [name for name in new_rows.columns if name not in left_out]
        row_images = [row_image(rows, value_columns, side) for side, rows in (("a", new_rows), ("b", old_rows))]
        joined_rows = new_rows.alias("a").join(old_rows.alias("b"), same_key(key_columns, "a", "b"), "left")
        changed_rows = joined_rows.where(
            F.col("b._event_time").isNull() | ~row_images[0].eqNullSafe(row_images[1])
        ).select("a.*")
        # A delete needs a time, to be published or read as a record: the row's own.
        gone_rows = rows_of_other_keys(key_columns, old_rows, new_rows).select(
            *key_columns, "_event_time", F.lit(True).alias("_tombstone")
        )
        return changed_rows.withColumn("_tombstone", F.lit(False)).unionByName(gone_rows, allowMissingColumns=True)

    def _committed_rows(self, intervention: Intervention) -> DataFrame | None:
        """Return the result of an intervention, if the table has it already: its source may be gone."""
        table_place = self._open_table.state
        if not self._lake.exists(table_place.path):
            return None
        for commit in self._lake.commits(table_place, intervention.at, intervention.at):
            if commit.tick == intervention.at and commit.content and commit.content.operation == intervention.kind:
                try:
                    return _with_columns(self._lake.read_past(table_place.path, commit.version), self._columns)
                except AnalysisException:
                    return None  # Delta no longer has its files
        return None

    def _state_after(self, state: MomentState, intervention: Intervention, cut: Cut) -> MomentState:
        """Return the state after an intervention."""
        table = self._table
        clock = self._clock_at(intervention.at if intervention.kind == "swap" else intervention.at - 1)
        watermark = clock.watermark if clock is not None else None
        if intervention.kind in REPLACING_KINDS:
            return self._replacement_state(intervention, cut, watermark)
        rebuilt_rows = refold.refold_touched(self._open_table, self._fold, self._interventions, intervention, cut)
        rows, keys, column_names = (
            _with_columns(rebuilt_rows.rows, self._columns),
            rebuilt_rows.keys,
            rebuilt_rows.names,
        )
        if state.visible is None:
            return MomentState(rows_of_other_keys(column_names, state.rows, keys).unionByName(rows))
        rebuilt_parts = [
            rows.where(condition) for condition in (is_still_open(table, watermark), is_closed(table, watermark))
        ]
        other_rows = [rows_of_other_keys(column_names, frame, keys) for frame in (state.rows, state.visible)]
        return MomentState(
            *[
                kept_rows.unionByName(rebuilt_rows)
                for kept_rows, rebuilt_rows in zip(other_rows, rebuilt_parts, strict=True)
            ]
        )

    def _replacement_state(self, intervention: Intervention, cut: Cut, watermark: int | None) -> MomentState:
        """Return the new state of the whole table: its own earlier state, or that of the table built beside it."""
        if intervention.kind == "revert":
            source_past, source_cut = self, cut_from_details(intervention.details)
            if self._anchored and cut.is_whole:
                version_rows = self._rows_of_version(intervention)
                if version_rows is not None:
                    return MomentState(version_rows)
        else:
            source_past = Past(built_table(self._open_table, intervention), anchored=self._anchored)
            source_cut = Cut(intervention.at - 1)
        source_cut = source_cut.within(cut)
        source_state = source_past.read_state(source_cut)
        if source_state.visible is None:
            return source_state
        needed_rows = source_state.rows.where(is_still_open(self._table, watermark))
        return MomentState(needed_rows, _with_columns(source_past.visible_rows(source_cut), self._columns))

    def _rows_of_version(self, revert: Intervention) -> DataFrame | None:
        """Return the version to which a revert went, with all that others wrote into it; None if there is none.

        A state that is kept apart has versions of its own, and so has a table that was made anew since.
        """
        version_number = revert.details.get("version")
        if version_number is None or self._open_table.state != self._open_table.visible:
            return None
        if revert.details["version_of"] != table_id(self._lake.spark, self._open_table.visible.path):
            return None
        try:
            return _with_columns(self._lake.read_past(self._open_table.visible.path, version_number), self._columns)
        except AnalysisException:
            return None  # Delta no longer has its files: the tick is folded from bronze

    def _clock_at(self, tick: int) -> ClockState | None:
        """Return the clock at a tick; for a swap that is not applied yet, the clock of the table that was built."""
        open_table = self._open_table
        swaps = [
            intervention
            for intervention in self._interventions
            if intervention.kind == "swap" and intervention.at <= tick
        ]
        if swaps and self._table.has_clock and open_table.read_progress().tick < swaps[-1].at:
            open_table = built_table(open_table, swaps[-1])
        erasures = [item for item in self._interventions if "erasure" in item.details and item.at > tick]
        return table_clock.clock_at(open_table, tick, without_commits=bool(erasures))

    def _base_anchor(self, cut: Cut) -> Anchor:
        """Return the anchor where a read begins: the nearest one, or an empty one before the first tick."""
        if cut not in self._anchors_by_cut:
            skip = self._input.skip
            can_anchor = skip is None or cut.offsets is None or self._is_restored_before(cut.offsets)
            base_anchor = anchors.nearest_anchor(self._open_table, cut) if self._anchored and can_anchor else None
            if base_anchor is None and skip:
                raise NotFound(
                    f"table {self._table.name!r} at {cut}: it was restored from a topic, and this lake's bronze does "
                    "not have its restored rows. No version or anchor since then holds exactly these records; ticks "
                    "can be read."
                )
            if base_anchor is None:
                base_anchor = Anchor(NO_TICK, self._no_rows, self._no_rows if is_final(self._table) else None)
            else:
                visible_rows = (
                    None if base_anchor.visible is None else _with_columns(base_anchor.visible, self._columns)
                )
                base_anchor = replace(
                    base_anchor, rows=_with_columns(base_anchor.rows, self._columns), visible=visible_rows
                )
            self._anchors_by_cut[cut] = base_anchor
        return self._anchors_by_cut[cut]

    def _is_restored_before(self, offsets: Offsets) -> bool:
        """Say whether the rows with which a restored table began hold no record at or after these offsets."""
        topic_rows = bronze.read_stream_records(self._lake, self._table.stream).select("topic", "topic_id").distinct()
        topics_by_id = {row["topic_id"]: row["topic"] for row in topic_rows.collect()}
        for topic_id, restored_offsets in json.loads(self._input.skip or "{}").items():
            # A topic id without rows in bronze may belong to any topic.
            cut_offsets = offsets.get(topics_by_id[topic_id], {}) if topic_id in topics_by_id else {}
            if any(offset > cut_offsets.get(int(partition), 0) for partition, offset in restored_offsets.items()):
                return False
        return True

    def _fold_ticks(self, rows: DataFrame, after_tick: int, to_tick: int, cut: Cut) -> DataFrame:
        if not timelines.has_rows(self._open_table, after_tick, to_tick):
            return rows
        present_logic.refuse_earlier_logic(self._table.name, self._interventions, after_tick, to_tick)
        present_logic.refuse_other_logic_above(self._open_table, after_tick, to_tick)
        clock = self._clock_at(after_tick)
        arrived_records = self._arriving_records(after_tick, to_tick, cut, clock)
        rows_before = None if rows is self._no_rows else rows  # nothing to join with
        return _with_columns(self._fold.rows_after(rows_before, arrived_records), self._columns)

    def _arriving_records(self, after_tick: int, to_tick: int, cut: Cut, clock: ClockState | None) -> DataFrame:
        fixed_rows = read_fixed_records(self._lake, self._interventions)

        def filter_rows(bronze_rows: DataFrame) -> DataFrame:
            return cut_filter.filter_counting_rows(
                cut, bronze_rows if fixed_rows is None else refold.drop_fixed(bronze_rows, fixed_rows), self._table
            )

        table_input = replace(self._input, select_rows=filter_rows, cut=cut)
        records = table_input.records(self._fold, clock, after_tick, to_tick)
        time_condition = cut_filter.is_in_time(cut)
        return records if time_condition is None else records.where(time_condition)

    def _watermark_at(self, cut: Cut) -> int | None:
        """Return the watermark at a moment, moved only by the records that count."""
        if not needs_watermark(self._table):
            return None
        clock_tick = cut.tick if cut.is_whole else self._base_anchor(cut).tick
        clock = self._clock_at(clock_tick)
        assert clock is not None
        if not timelines.has_rows(self._open_table, clock_tick, cut.tick):
            return clock.watermark
        records = self._arriving_records(clock_tick, cut.tick, cut, clock).drop("_horizon", "_watermark", "_tail")
        running_clock = RunningClock(clock)
        running_clock.watch(with_stream_time(self._table, records, clock)).count()
        return running_clock.after().watermark


def built_table(open_table: OpenTable, intervention: Intervention) -> OpenTable:
    """Return the table that a swap brings, as it was built; if it is gone, or has other logic, an empty place.

    A read at the empty place gives the same rows, folded from bronze.
    """
    table_beside = beside_for(open_table, intervention)
    table_properties = (
        read_properties(open_table.spark, table_beside.visible.path) if table_beside.table_exists() else {}
    )
    is_there = table_properties.get(DECLARATION) == declaration_of(open_table.table)
    return table_beside if is_there else beside_for(open_table, intervention, "-removed")


def beside_for(open_table: OpenTable, intervention: Intervention, ending: str = "") -> OpenTable:
    """Return the table in the set that was built for a swap, or in another one of its name with an ending.

    A deployment's swap names the tables that were built in one set, with digests of their declarations.
    """
    return open_table.beside(f"{intervention.details['beside']}{ending}", intervention.details.get("members", ()))


def _with_columns(rows: DataFrame, columns: StructType) -> DataFrame:
    """Return the rows with these columns; a column that was added since is null."""
    data_types = {field.name: field.dataType for field in columns}
    columns_by_name = {name: F.col(f"`{name}`") if name in rows.columns else F.lit(None) for name in data_types}
    return rows.select(*[columns_by_name[name].cast(data_type).alias(name) for name, data_type in data_types.items()])
