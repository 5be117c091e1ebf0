"""Marks: the facts about every offset that a table has taken in, one row each; its fate follows from them.

Each row of these frames states one fact about one offset: `_part` (the partition's number in `extents`), `offset`,
`kind`, and a hash, which compares the row that should be in a place with the row that is there.

    row                  bronze has it; hash: of the whole row
    restored             the changelog that the table was restored from had it
    bad, bad_before      it does not fit a source's schema; before: that stream had another name then
    quarantined          it is in a quarantine; hash: of the whole row
    null_key, tombstone  a record of the stream is left out for this reason
    taken, expired       a record of the stream is applied (one mark for each of its windows); expired: the row of that
                         window is past its retention
    taken_back           it was applied, and a revert took the table back to before it
    fixed                it counts with other bytes, by an intervention
    late, forced         a record of the stream came too late for this window; forced: and was taken in after all
    kept                 it is in late/<table>
    decided              it is in the interventions, and came too late by the present logic
    last, shown          `latest`: its key's last record, not a delete, or what the interventions made of it; shown: a
                         row of the table shows it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.in_effect import interventions_in_effect
from lakehouse.lake.moment.cut import Cut, cut_from_details
from lakehouse.lake.place import TablePlace, quarantine_place
from lakehouse.plan.operator import WINDOW_COLUMNS
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.time.window import Session, Sliding
from lakehouse.semantics.time.years import FIRST_MS
from lakehouse.spark.audit.offsets import Extent, partition_number, topic_id_at
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.interventions import Intervention, read_intervention_records, read_interventions
from lakehouse.spark.fold.fold_choice import choose_fold
from lakehouse.spark.fold.latest import LatestFold
from lakehouse.spark.fold.python_aggregates import PythonFold
from lakehouse.spark.fold.table_fold import TableFold
from lakehouse.spark.fold.visibility import has_expiry, is_expired
from lakehouse.spark.history import refold, table_clock
from lakehouse.spark.history.cut_filter import is_in_time
from lakehouse.spark.history.moments import Past
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.stream.decoded import decode_records
from lakehouse.spark.table import late, tables
from lakehouse.spark.table.input import TableInput, drop_skipped, is_skipped

KINDS = (
    "row", "restored", "bad", "bad_before", "quarantined", "null_key", "tombstone", "taken", "expired", "taken_back",
    "fixed", "late", "forced", "kept", "decided", "last", "shown",
)  # fmt: skip


REPAIR_KINDS = ("revert", "fixed")


@dataclass(frozen=True, slots=True)
class AuditScope:
    """The subject of an audit: a table at a tick and version, the partitions of its stream, and how thorough it is.

    extents: the partitions. deep: judge lateness again even where only the rules in Python can (sessions, sliding
    windows). redeclared: whether the declaration has changed since the table was created. skip: see
    `OpenTable.read_skipped_offsets`. interventions: the interventions up to the tick.
    """

    open_table: OpenTable
    tick: int
    version: int
    extents: list[Extent]
    deep: bool = False
    redeclared: bool = False
    skip: str | None = None
    interventions: Sequence[Intervention] = ()

    @property
    def table(self) -> Table:
        return self.open_table.table

    @property
    def judges_in_sql(self) -> bool:
        """Whether SQL can judge all lateness; for sessions and sliding windows only the rules in Python can."""
        return not isinstance(self.table.fold.window, Session | Sliding)

    @property
    def is_latest(self) -> bool:
        """Whether a row shows one record, not the result of several."""
        return choose_fold(self.table).shows_one_record

    @property
    def judges_in_python(self) -> bool:
        return self.deep and not self.judges_in_sql

    @property
    def in_effect(self) -> list[Intervention]:
        """The interventions whose effect the table has, without those that a revert took back."""
        return interventions_in_effect(self.interventions, self.tick)

    @property
    def is_repaired(self) -> bool:
        """Whether the table was reverted or has fixed records: then its rows do not follow from the records alone."""
        return any(intervention.kind in REPAIR_KINDS for intervention in self.in_effect)


def mark_frames(scope: AuditScope) -> Iterator[DataFrame]:
    """Yield the marks, frame by frame."""
    table_marks = _Marks(scope)
    yield from table_marks.row_marks()
    yield from table_marks.bad_marks()
    yield from table_marks.stream_marks()
    yield from table_marks.late_marks()
    if scope.is_latest:
        yield from table_marks.latest_marks()


class _Marks:
    """The marks of one table. Of bronze's rows, only those that the table itself has taken in."""

    def __init__(self, scope: AuditScope) -> None:
        self._scope, self._open_table, self._table = scope, scope.open_table, scope.table
        self._lake = scope.open_table.lake
        self._fold = choose_fold(scope.table)  # without forms: keys and times suffice
        self._input = TableInput(self._lake, self._table.stream, scope.skip)
        self._all_rows = replace(self._input, skip=None).rows(NO_TICK, scope.tick)
        self._own_rows = self._input.rows(NO_TICK, scope.tick)
        self._stream = self._input.frame(NO_TICK, scope.tick)
        self._late_places = self._taken_in_late_places(scope.in_effect)
        self._is_held = is_still_held(scope.interventions, scope.tick, scope.extents)

    def row_marks(self) -> Iterator[DataFrame]:
        """Yield the marks of bronze's rows."""
        yield self._mark_rows(self._all_rows, "row")
        if self._scope.skip:
            yield self._mark_rows(self._all_rows.where(is_skipped(self._scope.skip)), "restored")

    def bad_marks(self) -> Iterator[DataFrame]:
        """Yield the marks of records that do not fit, and of those in the quarantines of the stream's sources."""
        for source in self._table.stream.sources:
            place = quarantine_place(self._lake.layout, source.name)
            begin_tick = self._quarantine_begins(place)
            topic_rows = self._own_rows.where(F.col("topic") == source.topic)
            bad_records = decode_records(source, topic_rows, self._lake.schemas.find).where("_bad")
            is_before = F.col("_position.tick") <= begin_tick
            yield self._mark_positions(
                bad_records, F.when(is_before, _kind_code("bad_before")).otherwise(_kind_code("bad"))
            )
            if self._lake.exists(place.path):
                rows = self._lake.read(place.path).where(F.col("tick") <= self._scope.tick)
                yield self._mark_rows(drop_skipped(rows, self._scope.skip), "quarantined")
        if (fixed_records := self._intervention_records("fixed", self._scope.in_effect)) is not None:
            yield self._mark_rows(fixed_records, "fixed")

    def _quarantine_begins(self, place: TablePlace) -> int:
        """Return the tick after which this quarantine has the bad records; that of an earlier name has those before."""
        if not self._scope.redeclared or not self._lake.exists(place.path):
            return NO_TICK
        commits = self._lake.commits(place)
        return min((commit.from_tick for commit in commits if commit.begins_at_tick), default=NO_TICK)

    def stream_marks(self) -> Iterator[DataFrame]:
        """Yield the marks of the stream's records: left out, taken into the table's rows or windows, or too late."""
        table = self._table
        without_key = self._fold.has_null_key(self._stream)
        outside_kind = F.when(without_key, _kind_code("null_key"))
        if not self._scope.is_latest:
            outside_kind = F.when(F.col("_tombstone"), _kind_code("tombstone")).when(
                without_key, _kind_code("null_key")
            )
        partition_name = F.concat_ws("/", "_position.topic", "_topic_id", "_position.partition")
        if not (self._fold.judges_lateness or isinstance(table.fold.window, Sliding)):
            yield self._mark_positions(self._stream, outside_kind.otherwise(self._taken_code()), partition_name)
        else:
            left_out_records = self._stream.withColumn("_kind", outside_kind).where("_kind IS NOT NULL")
            yield self._mark_positions(left_out_records, F.col("_kind"), partition_name)
            yield self._judged_marks()
        if self._scope.judges_in_python:
            table_fold = tables.table_fold(self._lake.spark, table)
            assert isinstance(table_fold, PythonFold)
            late_records, late_code = self._with_late_code(table_fold.late_records(self._arrived_rows(table_fold)))
            yield self._mark_positions(late_records, late_code)

    def _arrived_rows(self, table_fold: TableFold) -> DataFrame:
        begin_clock = table_clock.clock_at(self._open_table, NO_TICK)
        return self._input.records(table_fold, begin_clock, NO_TICK, self._scope.tick)

    def _judged_marks(self) -> DataFrame:
        """Return the marks of the records that reach the table, as far as SQL can judge their lateness."""
        table, window, arrived_rows = self._table, self._table.fold.window, self._arrived_rows(self._fold)
        late_code, taken_code, is_late = _kind_code("late"), self._taken_code(), F.col("_late")
        if isinstance(window, Sliding):
            # A record itself is late when the last window that it could be in has closed, or when it has no window.
            is_closed = F.coalesce(F.col("_time") + window.difference + window.grace < F.col("_horizon"), F.lit(False))
            is_late = is_closed | ~F.col("_time").between(*window.possible_times)
            bounds = (F.greatest(F.col("_time") - window.difference, F.lit(FIRST_MS)), F.col("_time"))
            arrived_rows = arrived_rows.withColumns(
                dict(zip(WINDOW_COLUMNS, map(F.timestamp_millis, bounds), strict=True))
            )
            if self._scope.judges_in_python:
                arrived_rows = arrived_rows.where(~is_late)
        else:
            arrived_rows, late_code = self._with_late_code(self._fold.with_lateness(arrived_rows))
            if has_expiry(table) and (past_retention := is_expired(table, self._watermark())) is not None:
                taken_code = F.when(past_retention, _kind_code("expired")).otherwise(taken_code)
        return self._mark_positions(arrived_rows, F.when(is_late, late_code).otherwise(taken_code))

    def _with_late_code(self, rows: DataFrame) -> tuple[DataFrame, Column]:
        """Return rows with what tells apart the late ones, and the kind of a late one: `late`, or `forced`."""
        if self._late_places is None:
            return rows, _kind_code("late")
        marked_rows = refold.mark_places(rows, self._late_places, late.PLACE, "_forced")
        return marked_rows, F.when(F.col("_forced"), _kind_code("forced")).otherwise(_kind_code("late"))

    def _taken_code(self) -> Column:
        if self._is_held is None:
            return _kind_code("taken")
        return F.when(self._is_held, _kind_code("taken")).otherwise(_kind_code("taken_back"))

    def _watermark(self) -> int | None:
        clock = table_clock.clock_at(self._open_table, self._scope.tick)
        return None if clock is None else clock.watermark

    def late_marks(self) -> Iterator[DataFrame]:
        """Yield the marks of the records in late/<table> and in the interventions."""
        scope = self._scope
        swap_ticks = [
            intervention.at
            for intervention in read_interventions(self._lake, self._table.name)
            if intervention.kind == "swap"
        ]
        late_rows = late.late_rows_at(self._open_table, scope.tick, swap_ticks)
        if late_rows is not None:
            yield self._mark_positions(_with_position(late_rows), _kind_code("kept"))
            if self._late_places is not None and not (scope.judges_in_sql or scope.judges_in_python):
                kept_places = late_rows.select(*late.PLACE).distinct()
                forced_places = self._late_places.join(kept_places, list(late.PLACE), "left_semi")
                yield self._mark_positions(_with_position(forced_places), _kind_code("forced"))
        # A record that was too late by earlier logic may be in time by the present one.
        begin_tick = max(
            (intervention.at for intervention in scope.interventions if intervention.details.get("changed")),
            default=NO_TICK,
        )
        taken_in_places = self._taken_in_late_places(
            [intervention for intervention in scope.in_effect if intervention.at > begin_tick]
        )
        if taken_in_places is not None:
            yield self._mark_positions(_with_position(taken_in_places), _kind_code("decided"))

    def latest_marks(self) -> Iterator[DataFrame]:
        """Yield, for `latest`, the marks of each key's last record, unless a delete, and of the records in rows."""
        shown_rows = self._lake.read(self._open_table.visible.path, self._scope.version)
        shown_rows = shown_rows.select("_position")
        if not self._scope.is_repaired and not self._table.is_history:
            assert isinstance(self._fold, LatestFold)
            last_records = self._fold.last_records(self._fold.timely_records(self._arrived_rows(self._fold)))
            expected_rows = last_records.where("NOT _tombstone").select("_position")
        else:
            # Bronze does not have the rows with which a restored table began: trust its rows.
            expected_rows = shown_rows if self._scope.skip else self._refolded_positions()
        yield self._mark_positions(expected_rows, _kind_code("last"))
        yield self._mark_positions(shown_rows, _kind_code("shown"))

    def _refolded_positions(self) -> DataFrame:
        """Return the positions that the rows should have, according to bronze and the interventions."""
        return Past(self._open_table, anchored=False).visible_rows(Cut(self._scope.tick)).select("_position")

    def _intervention_records(self, kind: str, interventions: Iterable[Intervention]) -> DataFrame | None:
        return read_intervention_records(
            self._lake, [intervention for intervention in interventions if intervention.kind == kind]
        )

    def _taken_in_late_places(self, interventions: Iterable[Intervention]) -> DataFrame | None:
        """Return the places of the late records that these interventions take in; None if there are none."""
        intervention_records = self._intervention_records("late", interventions)
        return None if intervention_records is None else intervention_records.select(*late.PLACE).distinct()

    def _mark_rows(self, rows: DataFrame, kind: str) -> DataFrame:
        """Return the marks of rows that have bronze's columns."""
        row_hash = F.xxhash64(*bronze.COLUMNS)
        return self._marks(rows, F.concat_ws("/", "topic", "topic_id", "partition"), F.col("offset"), kind, row_hash)

    def _mark_positions(self, rows: DataFrame, kind: Column, name: Column | None = None) -> DataFrame:
        """Return the marks of rows with `_position`, and with their windows, if any. name: that of their partition."""
        position = F.col("_position")
        if name is None:
            topic_id = topic_id_at(self._scope.extents, position["topic"], position["tick"])
            name = F.concat(position["topic"], F.lit("/"), topic_id, F.lit("/"), position["partition"].cast("string"))
        window_columns = [name for name in self._table.windows if name in rows.columns]
        return self._marks(
            rows, name, position["offset"], kind, F.xxhash64(position["tick"], position["ordinals"], *window_columns)
        )

    def _marks(
        self, rows: DataFrame, partition_name: Column, offset: Column, kind: Column | str, row_hash: Column
    ) -> DataFrame:
        part_number = partition_number(self._scope.extents, partition_name)
        kind_code = _kind_code(kind) if isinstance(kind, str) else kind
        return rows.select(
            part_number.alias("_part"), offset.alias("offset"), kind_code.alias("kind"), row_hash.alias("hash")
        )


def _kind_code(kind: str) -> Column:
    return F.lit(KINDS.index(kind))


def _with_position(rows: DataFrame) -> DataFrame:
    return rows.withColumn("_position", F.struct(*late.PLACE))


def is_still_held(interventions: Sequence[Intervention], tick: int, extents: list[Extent]) -> Column | None:
    """Return whether a table still has a record at a tick, by the record's position; None: it has all that it took in.

    extents: the partitions of the table's stream, which give the id of a position's topic.

    A record that a revert took back, and that a refold of single keys brought back, is not recognized.
    """
    table_changes = [
        intervention
        for intervention in interventions
        if intervention.at <= tick and intervention.kind in ("revert", "swap")
    ]
    if not table_changes or table_changes[-1].kind == "swap":
        return None
    last_revert, cut = table_changes[-1], cut_from_details(table_changes[-1].details)
    is_held = F.col("_position.tick") <= cut.tick
    if (was_held := is_still_held(interventions, cut.tick, extents)) is not None:
        is_held &= was_held
    if (time_condition := is_in_time(cut)) is not None:
        is_held &= time_condition
    if cut.offsets is not None:
        place = F.col("_position")
        topic_id = topic_id_at(extents, place["topic"], place["tick"])
        is_held &= cut.lies_before(place["topic"], topic_id, place["partition"], place["offset"])
    return is_held | (F.col("_position.tick") > last_revert.at)
