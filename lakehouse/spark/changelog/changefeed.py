"""A table's changelog per event, derived from bronze on request; net per commit: `lakehouse.spark.changelog.net`.

Per event: one change for each record that reached the table, as if each batch had one record, whatever the batches were
(docs/rules.md, rule 24). For `latest` that is a copy of the input. For aggregates each record's change is the
accumulator after it: it begins at the table's own row. What HAVING leaves out, and suppressed changes that change
nothing, are then removed from the changes of what the table keeps.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.lake.keys import without_window
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.schema import POSITION_TYPE
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import Decision
from lakehouse.spark.changelog.begun import Begun
from lakehouse.spark.changelog.emitted import let_through
from lakehouse.spark.key_column import is_key
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators import keyed
from lakehouse.spark.operators.aggregates import same_key
from lakehouse.spark.operators.arrivals import timely
from lakehouse.spark.operators.closing import closings
from lakehouse.spark.operators.newest import deletes_in_order
from lakehouse.spark.operators.shown import is_final
from lakehouse.spark.operators.way import Way, way_of
from lakehouse.spark.past import counts, past, present
from lakehouse.spark.past.moments import Past
from lakehouse.spark.stream.rows import seen
from lakehouse.spark.stream.step import UNDO
from lakehouse.spark.table import tables
from lakehouse.spark.table.input import Shared, input_of

# Beside the key and value columns: whether it is a delete, the event time in milliseconds, and what caused it.
CHANGE_COLUMNS = ("_tombstone", "_event_time_ms", "_position")


def per_event(
    opened: OpenTable, after: int, to: int, *,
    cut: Cut | None = None, numbered: bool = False, rebuilt: bool = False, shared: Shared | None = None,
    kept: bool = False,
) -> DataFrame:  # fmt: skip
    """Return the changes of the ticks in (after, to], in position order: key, values, accumulators, CHANGE_COLUMNS.

    cut: which records count, if not all do; its tick is ignored. numbered: in no order, with `_number`, which counts
    the changes of one record from 0. rebuilt: as the present logic makes them, see `lakehouse.spark.past.present`.
    shared: see `Shared`. kept: the changes of all that the table keeps, with the columns of its state; rows that leave
    with time are not among them. Raises NotFound for final results by a cut, and for a history from the first tick that
    only earlier logic of a table above could tell.
    """
    table = opened.table
    if cut is not None and not cut.whole and is_final(table):
        raise NotFound(
            f"table {table.name!r} shows final results: what it had shown by an event time, or by offsets, can't be "
            "computed for another table that reads it. Ask for a version or a tick."
        )
    if after == NO_TICK and not rebuilt:
        present.refuse_other_logic_above(opened, after, to)
    since = present.since(opened) if rebuilt else NO_TICK
    parts = []
    if since > after:  # nothing changes at the tick at which the present logic was swapped in
        parts = _parts(present.always(opened), after, min(to, since - 1), cut, shared, rebuilt=rebuilt, kept=kept)
        after = min(to, since)
    parts += _parts(opened, after, to, cut, shared, rebuilt=rebuilt, kept=kept)
    frames = [part.frame(numbered=numbered) for part in parts if part.to > part.after]
    frames = frames or [parts[-1].frame(numbered=numbered)]
    return reduce(DataFrame.unionByName, frames)  # each part is in order, and it is read part by part


def _parts(
    opened: OpenTable, after: int, to: int, cut: Cut | None, shared: Shared | None, *, rebuilt: bool, kept: bool
) -> list[_Changes]:
    """The changes between two ticks, cut at the interventions."""
    parts = []
    part = partial(_Changes, opened, cut=cut, rebuilt=rebuilt, kept=kept)
    for at in interventions.of(opened.lake, opened.name):
        if after < at.at <= to:
            parts += [part(after, at.at - 1, shared=shared), part(at.at - 1, at.at, at)]
            after = at.at
    return [*parts, part(after, to, shared=shared)]


class _Changes:
    """The changes of one table between two ticks.

    A frame of changes has, beside the columns of `per_event`, `_step`: the order of the changes of one record. The rows
    that the changes begin from are in it, too, with a null `_position`, until they are no longer needed.
    """

    def __init__(
        self,
        opened: OpenTable,
        after: int,
        to: int,
        intervention: Decision | None = None,
        cut: Cut | None = None,
        *,
        rebuilt: bool = False,
        shared: Shared | None = None,
        kept: bool = False,
    ) -> None:
        self._cut = Cut(to) if cut is None else replace(cut, tick=to)
        self._opened, self._table, self._intervention = opened, opened.table, intervention
        self.after, self.to = after, to
        self._input = replace(input_of(opened), rebuilt=rebuilt, shared=shared)
        if not self._cut.whole:
            among = partial(counts.counting, self._cut, table=opened.table)
            self._input = replace(self._input, among=among, cut=self._cut, shared=None)
        self._forms = tables.forms(opened.spark, opened.table)
        self._clock = past.clock_at(opened, after)
        begins = replace(self._cut, tick=after)
        self._kept, self._final = kept, is_final(opened.table) and not kept
        self._begun = Begun(opened, begins, self._input.skip, self._clock)

    def frame(self, *, numbered: bool = False) -> DataFrame:
        table = self._table
        if self._intervention is not None:
            changes = self._decided(self._intervention)
        else:
            changes = self._folded()
            changes = self._closed(changes) if self._final else changes
        # What an intervention does to final results is told by the rows that were visible: they went through all of it,
        # and none of them stands in the changes, so that a delete would be one of a row that nobody has seen.
        for operator in () if self._kept or (self._final and self._intervention is not None) else table.behind:
            changes = let_through(operator, table, changes)
        order = ["_position", *table.windows[:1]]
        if self._final:
            order = ["_position", *reversed(table.windows), *table.group]
        names = [name for name in changes.columns if name not in (*CHANGE_COLUMNS, "_step")]
        order = ["_position", "_step"] if "_step" in changes.columns else order
        if numbered:
            same = Window.partitionBy("_position").orderBy(*order)
            changes = changes.withColumn("_number", (F.row_number().over(same) - 1).cast("bigint"))
            names = [*names, "_number"]
        changes = changes.where(F.col("_position").isNotNull())
        if not numbered:  # to sort all of them, Spark would derive them twice
            changes = changes.orderBy(*order)
        return changes.select(*names, *CHANGE_COLUMNS)

    def _folded(self) -> DataFrame:
        match way_of(self._table):
            case Way.LATEST:
                return self._latest()
            case Way.LATEST_BY:
                return self._ordered()
            case Way.SQL:
                return self._in_sql()
        return self._keyed()

    def _arrived(self, *, units: bool = False) -> DataFrame:
        records = self._input.records(self._table, self._forms, self._clock, self.after, self.to, units=units)
        keep = counts.in_time(self._cut)
        return records if keep is None else records.where(keep)

    def _latest(self) -> DataFrame:
        rows = self._arrived().withColumn("_event_time_ms", F.col("rowtime")).drop("rowtime")
        rows = seen(self._table, rows, F.col("_tombstone")) if self._table.stream.undoes else rows
        base = self._begun.touched(rows) if self._table.looks_back and not self._kept else None
        return rows if base is None else rows.unionByName(_as_changes(base, rows), allowMissingColumns=True)

    def _ordered(self) -> DataFrame:
        """The records that were not older than the record their key had then."""
        rows = timely(self._table, self._arrived()).drop("_late")
        rows = rows.withColumn("_event_time_ms", F.col("rowtime")).drop("rowtime", "_part", "_time")
        rows = rows.select(*[name for name in rows.columns if name not in ("_horizon", "_tail", "_watermark")])
        base = self._begun.touched(rows)
        if base is not None:
            rows = rows.unionByName(_as_changes(base, rows), allowMissingColumns=True)
        rows = deletes_in_order(self._table, rows)
        highest = F.max("_order").over(_running(self._table))
        rows = rows.withColumn("_highest", highest).where(F.col("_order") >= F.col("_highest")).drop("_highest")
        if self._kept:  # a delete is a row, the marker
            return rows.withColumns({"_deleted": F.col("_tombstone"), "_tombstone": F.lit(False)})
        return rows.drop("_order")

    def _in_sql(self) -> DataFrame:
        table, forms = self._table, self._forms
        records = timely(table, self._arrived(units=True))
        undo = [UNDO] if table.stream.undoes else []
        records = records.select(*table.key, *[f"_in_{form.name}" for form in forms], "rowtime", "_position", *undo)
        base = self._begun.closing(self.to) if self._final else self._begun.touched(records)
        if base is not None:
            units = [F.col(form.accumulator).alias(f"_in_{form.name}") for form in forms]
            none = F.lit(None).cast(dict(base.dtypes)["_position"]).alias("_position")
            time = F.unix_millis("_event_time").alias("rowtime")
            records = base.select(*table.key, *units, time, none).unionByName(records, allowMissingColumns=True)
        window = _running(table)
        totals = {f"_total_{form.name}": form.running(F.col(f"_in_{form.name}"), window) for form in forms}
        frame = records.withColumns({**totals, "_event_time_ms": F.max("rowtime").over(window)})
        shown = [form.shown(F.col(f"_total_{form.name}")).alias(form.name) for form in forms]
        kept = [F.col(f"_total_{form.name}").alias(form.accumulator) for form in forms if form.bound.accumulator]
        frame = seen(table, frame, F.coalesce(UNDO, F.lit(False))) if undo else frame
        frame = frame.withColumn("_tombstone", F.lit(False))
        return frame.select(*table.key, *shown, *kept, *CHANGE_COLUMNS)

    def _keyed(self) -> DataFrame:
        table, forms = self._table, self._forms
        arrived = self._arrived()
        base = self._begun.reached(arrived)
        folded = keyed.keyed(table, forms, arrived, base, every=True)
        frame = keyed.steps(table, forms, folded)
        frame = frame.withColumn("_event_time_ms", F.unix_millis("_event_time")).drop("_event_time")
        if base is None or self._kept or not table.looks_back:
            return frame
        old = self._begun.closing(self.to) if self._final else self._touched_groups(base, folded)
        assert old is not None
        return frame.unionByName(_as_changes(old, frame), allowMissingColumns=True)

    def _decided(self, at: Decision) -> DataFrame:
        """An intervention's changes, at positions of its own: (tick, 0, "", -1, n, ())."""
        table = self._table
        frame = Past(self._opened).changed(at, visible=self._final, cut=self._cut)
        if "_deleted" in frame.columns and not self._kept:
            frame = frame.withColumn("_tombstone", F.col("_tombstone") | F.coalesce("_deleted", F.lit(False)))
            frame = frame.drop("_order", "_deleted")
        number = F.row_number().over(Window.orderBy(*reversed(table.windows), *table.group)) - 1
        place = [F.lit(at.at), F.lit(0), F.lit(""), F.lit(-1), number, F.array()]
        time = F.unix_millis("_event_time")
        frame = frame.withColumns({"_position": F.struct(*place).cast(POSITION_TYPE), "_event_time_ms": time})
        frame = frame.drop("_event_time")
        base = None if self._final else self._begun.touched(frame, anywhere=True)
        if base is None:
            return frame
        return frame.unionByName(_as_changes(base, frame), allowMissingColumns=True)

    def _touched_groups(self, base: DataFrame, folded: DataFrame) -> DataFrame:
        names = self._table.group
        keys = folded.select(*names)
        return base.alias("b").join(keys.alias("k"), same_key(names, "b", "k"), "left_semi")

    def _closed(self, changes: DataFrame) -> DataFrame:
        """The last row of every window that closed, at the position of the record that closed it."""
        assert self._clock is not None
        order = Window.partitionBy(*self._table.key)
        order = order.orderBy(*[F.col(n).desc_nulls_last() for n in ("_position", "_step") if n in changes.columns])
        last = changes.withColumn("_number", F.row_number().over(order)).where("_number = 1 AND NOT _tombstone")
        rows = last.drop("_number", "_position", *(["_step"] if "_step" in changes.columns else []))
        return closings(self._table, rows, self._arrived(), self._clock)


def _running(table: Table) -> WindowSpec:
    window = Window.partitionBy(*table.key).orderBy(F.col("_position").asc_nulls_first())
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _as_changes(base: DataFrame, like: DataFrame) -> DataFrame:
    """Rows of a table in the form of changes, with a null position: what the changes begin from."""
    kinds = dict(like.dtypes)
    rows = base.withColumns(
        {"_event_time_ms": F.unix_millis("_event_time"), "_position": F.lit(None).cast(kinds["_position"])}
    )
    gone = F.col("_deleted") if "_deleted" in rows.columns else F.lit(False)
    rows = rows.withColumn("_tombstone", gone)
    return rows.select(*[name for name in like.columns if name in rows.columns])


def of_key(changes: DataFrame, table: Table, key: str) -> DataFrame:
    """Keep one key's changes. key: its text, see `lakehouse.formats.key_text`. Raises ConfigError."""
    return changes.where(is_key(changes.schema, without_window(table.key), key))
