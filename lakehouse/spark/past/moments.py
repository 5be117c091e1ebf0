"""A table at any moment of its past: the nearest version or anchor before it, and the later rows of bronze.

A read begins at an anchor, so its cost grows with the distance to it, not with the history:

    tick          the last anchor up to the tick, then the records of the ticks after it
    offsets       the last anchor that holds no record from these offsets on, then the records before them
    event time T  the last anchor that holds no record with an event time after T, then the records after the anchor
                  whose event time is not after T. They are judged (late or not) as they were when they came; what has
                  closed, or expired, follows from the clock as only the records up to T would have moved it

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
from lakehouse.lake.earlier import check_rows
from lakehouse.lake.moment.cut import Cut, cut_of
from lakehouse.plan.evolution.change import DECLARATION, declared
from lakehouse.plan.operator import Latest
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.moment import Offsets
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.bronze.interventions import Decision
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.aggregates import same_key
from lakehouse.spark.operators.clock import ClockState, Ticking, needs_watermark, timed
from lakehouse.spark.operators.content import image
from lakehouse.spark.operators.fold import rows_after
from lakehouse.spark.operators.merge import others
from lakehouse.spark.operators.shown import closed, expired, is_final, is_visible, still_open
from lakehouse.spark.past import anchors, counts, past, present, refold
from lakehouse.spark.past.anchors import Anchor
from lakehouse.spark.table import tables, travel
from lakehouse.spark.table.input import input_of
from lakehouse.spark.transaction import properties

WHOLE = ("revert", "swap")  # interventions that replace the whole table


@dataclass(frozen=True, slots=True)
class State:
    """What a table keeps at a moment; for final results also the rows that are visible already."""

    rows: DataFrame
    visible: DataFrame | None = None


class Past:
    """One table's past."""

    def __init__(self, opened: OpenTable, also: Sequence[Decision] = ()) -> None:
        """also: interventions that are not recorded, to see what they would do."""
        self._opened, self._lake, self._table = opened, opened.lake, opened.table
        spark, table = opened.spark, opened.table
        self._forms = tables.forms(spark, table)
        self._input = input_of(opened)
        self._decisions = [*interventions.of(opened.lake, opened.name), *also]
        self._columns = tables.state_schema(spark, table)
        self._visible_columns = tables.schema(spark, table)
        self._bases: dict[tuple[Cut, bool], Anchor] = {}
        self._nothing = spark.createDataFrame([], self._columns)

    def visible(self, cut: Cut, *, anchored: bool = True) -> DataFrame:
        """Return the visible rows at a moment, hidden columns too.

        anchored: False folds everything from bronze.
        """
        state = self.state(cut, anchored=anchored)
        table, rows = self._table, state.rows
        watermark = self._watermark(cut, anchored=anchored) if table.windows else None
        if state.visible is not None:
            has_closed = closed(table, watermark)
            before, later = state.visible.where(has_closed), rows.where(has_closed)
            rows = before.unionByName(others(table.key, later, before))
        rows = rows.where(is_visible(table))
        left = expired(table, watermark)
        return _as(rows if left is None else rows.where(~left), self._visible_columns)

    def state(self, cut: Cut, *, anchored: bool = True) -> State:
        """Return all that the table keeps at a moment; nothing has expired since the anchor that it begins from."""
        base = self._base(cut, anchored=anchored)
        tick, state = base.tick, State(base.rows, base.visible)
        decisions = [at for at in self._decisions if base.tick < at.at <= cut.tick]
        if whole := [at for at in decisions if at.kind in WHOLE]:
            # Nothing from before the last of them is left.
            tick, state = whole[-1].at, self._decided(state, whole[-1], cut, anchored=anchored)
        for at in [at for at in decisions if at.at > tick]:
            state = replace(state, rows=self._after(state.rows, tick, at.at - 1, cut, anchored=anchored))
            state, tick = self._decided(state, at, cut, anchored=anchored), at.at
        return replace(state, rows=self._after(state.rows, tick, cut.tick, cut, anchored=anchored))

    def changed(self, at: Decision, *, visible: bool, cut: Cut | None = None) -> DataFrame:
        """Return the rows that an intervention changes, with their new values or `_tombstone`: of the state, or of
        the visible table.

        Visible rows are asked for only for final results. cut: which records count; all if left out.
        """
        before, after = (Cut(tick) if cut is None else replace(cut, tick=tick) for tick in (at.at - 1, at.at))
        if visible:
            return self.changes_between(self.visible(before), self.visible(after))
        state, made = self.state(before), self._committed(at) if after.whole else None
        return self.changes_between(state.rows, self._decided(state, at, after).rows if made is None else made)

    def changes_between(self, before: DataFrame, after: DataFrame) -> DataFrame:
        """Return the rows after that differ from those before, and `_tombstone` for those that are gone."""
        key = self._table.key
        # For `latest` the position shows which record a row comes from.
        left_out = key if isinstance(self._table.fold, Latest) else (*key, "_position")
        values = [name for name in after.columns if name not in left_out]
        images = [image(rows, values, side) for side, rows in (("a", after), ("b", before))]
        both = after.alias("a").join(before.alias("b"), same_key(key, "a", "b"), "left")
        changed = both.where(F.col("b._event_time").isNull() | ~images[0].eqNullSafe(images[1])).select("a.*")
        # To publish a delete, or to read it as a record, a time is needed: the row's own.
        gone = others(key, before, after).select(*key, "_event_time", F.lit(True).alias("_tombstone"))
        return changed.withColumn("_tombstone", F.lit(False)).unionByName(gone, allowMissingColumns=True)

    def _committed(self, at: Decision) -> DataFrame | None:
        """The result of an intervention, if the table has it already: what it was built from may be gone."""
        place = self._opened.state
        if not self._lake.exists(place.path):
            return None
        for commit in self._lake.commits(place, at.at, at.at):
            if commit.tick == at.at and commit.said.get("operation") == at.kind:
                try:
                    return _as(self._lake.past(place.path, commit.version), self._columns)
                except AnalysisException:
                    return None  # Delta no longer has its files
        return None

    def _decided(self, state: State, at: Decision, cut: Cut, *, anchored: bool = True) -> State:
        """The state after an intervention."""
        table = self._table
        clock = self._clock_at(at.at if at.kind == "swap" else at.at - 1)
        watermark = clock.watermark if clock is not None else None
        if at.kind in WHOLE:
            return self._replaced(at, cut, watermark, anchored=anchored)
        made = refold.refolded(self._opened, self._forms, self._decisions, at, cut)
        rows, keys, names = _as(made.rows, self._columns), made.keys, made.names
        if state.visible is None:
            return State(others(names, state.rows, keys).unionByName(rows))
        parts = [rows.where(condition) for condition in (still_open(table, watermark), closed(table, watermark))]
        held = [others(names, frame, keys) for frame in (state.rows, state.visible)]
        return State(*[mine.unionByName(made) for mine, made in zip(held, parts, strict=True)])

    def _replaced(self, at: Decision, cut: Cut, watermark: int | None, *, anchored: bool) -> State:
        """The new state of the whole table: what it was earlier, or what was built beside it."""
        if at.kind == "revert":
            past, to = self, cut_of(at.details)
            if anchored and cut.whole and (rows := self._version(at.details.get("version"))) is not None:
                return State(rows)
        else:
            past, to = Past(built(self._opened, at)), Cut(at.at - 1)
        to = to.within(cut)
        made = past.state(to, anchored=anchored)
        if made.visible is None:
            return made
        needed = made.rows.where(still_open(self._table, watermark))
        return State(needed, _as(past.visible(to, anchored=anchored), self._columns))

    def _version(self, number: int | None) -> DataFrame | None:
        """A version by its number, which includes what others wrote; None if there is none.

        A state that is kept apart has versions of its own.
        """
        if number is None or self._opened.state != self._opened.visible:
            return None
        try:
            return _as(self._lake.past(self._opened.visible.path, number), self._columns)
        except AnalysisException:
            return None  # Delta no longer has its files: the tick is folded from bronze

    def _clock_at(self, tick: int) -> ClockState | None:
        """The clock at a tick; for a swap that is not applied yet, the clock of the table that was built."""
        opened = self._opened
        swaps = [at for at in self._decisions if at.kind == "swap" and at.at <= tick]
        if swaps and self._table.has_clock and opened.progress.tick < swaps[-1].at:
            opened = built(opened, swaps[-1])
        return past.clock_at(opened, tick)

    def _base(self, cut: Cut, *, anchored: bool) -> Anchor:
        """The place where a read begins: the nearest anchor, or an empty one before the first tick."""
        if (cut, anchored) not in self._bases:
            skip = self._input.skip
            since = skip is None or cut.offsets is None or self._begins_before(cut.offsets)
            base = anchors.nearest(self._opened, cut) if anchored and since else None
            if base is None and skip:
                raise NotFound(
                    f"table {self._table.name!r} at {cut}: it was restored from a topic, and this lake's bronze does "
                    "not have its restored rows. No version or anchor since then holds exactly these records; ticks "
                    "can be read."
                )
            if base is None:
                base = Anchor(NO_TICK, self._nothing, self._nothing if is_final(self._table) else None)
            else:
                check_rows(base.rows.select("_position.*").columns, self._table.name)
                visible = None if base.visible is None else _as(base.visible, self._columns)
                base = replace(base, rows=_as(base.rows, self._columns), visible=visible)
            self._bases[cut, anchored] = base
        return self._bases[cut, anchored]

    def _begins_before(self, offsets: Offsets) -> bool:
        """Whether the rows that a restored table began with hold no record at or after these offsets."""
        rows = bronze.of_stream(self._lake, self._table.stream).select("topic", "topic_id").distinct()
        topics = {row["topic_id"]: row["topic"] for row in rows.collect()}
        for topic_id, of in json.loads(self._input.skip or "{}").items():
            # A topic that bronze has no rows of may be any of them.
            asked = offsets.get(topics[topic_id], {}) if topic_id in topics else {}
            if any(offset > asked.get(int(partition), 0) for partition, offset in of.items()):
                return False
        return True

    def _after(self, rows: DataFrame, after: int, to: int, cut: Cut, *, anchored: bool) -> DataFrame:
        if not travel.has_rows(self._opened, after, to):
            return rows
        if later := [at.at for at in self._decisions if at.at > to and at.details.get("changed")]:
            raise NotFound(
                f"table {self._table.name!r} at tick {to}: it had another declaration until tick {later[-1]}, and no "
                f"version or anchor of just that tick is left. The nearest one before it is of tick {after}."
            )
        present.refuse_other_logic_above(self._opened, after, to)
        arrived = self._arrived(after, to, cut, self._clock_at(after), anchored=anchored)
        before = None if rows is self._nothing else rows  # nothing to join with
        return _as(rows_after(self._table, self._forms, before, arrived), self._columns)

    def _arrived(self, after: int, to: int, cut: Cut, clock: ClockState | None, *, anchored: bool) -> DataFrame:
        fixed = interventions.fixes(self._lake, self._decisions)

        def counting(rows: DataFrame) -> DataFrame:
            return counts.counting(cut, rows if fixed is None else refold.unfixed(rows, fixed), self._table)

        source = replace(self._input, among=counting, cut=cut, rebuilt=not anchored)
        records = source.records(self._table, self._forms, clock, after, to)
        keep = counts.in_time(cut)
        return records if keep is None else records.where(keep)

    def _watermark(self, cut: Cut, *, anchored: bool) -> int | None:
        """The watermark, as moved by the records that count."""
        if not needs_watermark(self._table):
            return None
        after = cut.tick if cut.whole else self._base(cut, anchored=anchored).tick
        clock = self._clock_at(after)
        assert clock is not None
        if not travel.has_rows(self._opened, after, cut.tick):
            return clock.watermark
        records = self._arrived(after, cut.tick, cut, clock, anchored=anchored).drop("_horizon", "_watermark", "_tail")
        ticking = Ticking(clock)
        ticking.watch(timed(self._table, records, clock)).count()
        return ticking.after().watermark


def built(opened: OpenTable, at: Decision) -> OpenTable:
    """Return the table that a swap brings, as it was built; if it is gone, or has other logic, an empty place.

    In that case bronze gives the same.
    """
    beside = opened.beside(at.details["beside"])
    found = properties(opened.spark, beside.visible.path) if beside.exists else {}
    is_there = found.get(DECLARATION) == declared(opened.table)[DECLARATION]
    return beside if is_there else opened.beside(f"{at.details['beside']}-removed")


def _as(rows: DataFrame, columns: StructType) -> DataFrame:
    """The rows with these columns; a column that was added since is null."""
    kinds = {field.name: field.dataType for field in columns}
    there = {name: F.col(f"`{name}`") if name in rows.columns else F.lit(None) for name in kinds}
    return rows.select(*[there[name].cast(kind).alias(name) for name, kind in kinds.items()])
