"""Marks: the facts about every offset that a table has taken in, one row each; its fate follows from them.

Each row of these frames says one thing about one offset: `_part` (the partition's number in `known`), `offset`, `kind`,
and a hash, by which the row that should be in a place is compared with the row that is there.

    row                  bronze has it; hash: of the whole row
    restored             the changelog that the table was restored from held it
    bad, bad_before      it does not fit a source's schema; before: that stream had another name then
    quarantined          it is in a quarantine; hash: of the whole row
    null_key, tombstone  a record of the stream is left out for this
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

from lakehouse.lake.in_effect import in_effect
from lakehouse.lake.moment.cut import Cut, cut_of
from lakehouse.lake.place import TablePlace, quarantine_of
from lakehouse.plan.operator import WINDOW_COLUMNS, Latest, LatestBy
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.window import Hopping, Session, Sliding
from lakehouse.semantics.years import FIRST_MS
from lakehouse.spark.audit.offsets import Extent, numbered, topic_id_at
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.bronze.interventions import Decision
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators import keyed
from lakehouse.spark.operators.aggregates import Form
from lakehouse.spark.operators.arrivals import judged, null_key, timely
from lakehouse.spark.operators.newest import deletes_in_order
from lakehouse.spark.operators.shown import expired, expires
from lakehouse.spark.past import past, refold
from lakehouse.spark.past.counts import in_time
from lakehouse.spark.past.moments import Past
from lakehouse.spark.stream.decoded import decoded
from lakehouse.spark.table import late, tables
from lakehouse.spark.table.input import Input, not_skipped, skipped

KINDS = (
    "row", "restored", "bad", "bad_before", "quarantined", "null_key", "tombstone", "taken", "expired", "taken_back",
    "fixed", "late", "forced", "kept", "decided", "last", "shown",
)  # fmt: skip


PUT_RIGHT = ("revert", "fixed")


@dataclass(frozen=True, slots=True)
class Scope:
    """What is audited: a table at its tick and version, the partitions of its stream, and how thoroughly.

    deep: lateness is judged again even where only the rules in Python can tell (sessions, sliding windows).
    redeclared: the declaration has changed since the table was created. decisions: the interventions up to the tick.
    """

    opened: OpenTable
    tick: int
    version: int
    known: list[Extent]
    deep: bool = False
    redeclared: bool = False
    skip: str | None = None
    decisions: Sequence[Decision] = ()

    @property
    def table(self) -> Table:
        return self.opened.table

    @property
    def judges_in_sql(self) -> bool:
        """Whether SQL can tell all that is late; for sessions and sliding windows only the rules in Python can."""
        return not isinstance(self.table.fold.window, Session | Sliding)

    @property
    def is_latest(self) -> bool:
        """Whether a row shows one record, not the result of several."""
        return isinstance(self.table.fold, Latest)

    @property
    def judges_in_python(self) -> bool:
        return self.deep and not self.judges_in_sql

    @property
    def in_effect(self) -> list[Decision]:
        """The interventions whose effect the table has: not those that a revert took back."""
        return in_effect(self.decisions, self.tick)

    @property
    def put_right(self) -> bool:
        """Whether it was reverted, or has fixed records: its rows do not follow from the records alone."""
        return any(at.kind in PUT_RIGHT for at in self.in_effect)


def marks(scope: Scope) -> Iterator[DataFrame]:
    """Yield the marks, frame by frame."""
    made = _Marks(scope)
    yield from made.rows()
    yield from made.bad()
    yield from made.seen()
    yield from made.written()
    if scope.is_latest:
        yield from made.current()


class _Marks:
    """The marks of one table; from bronze, only the rows that the table has taken in itself."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._opened, self._table = scope, scope.opened, scope.table
        self._lake = scope.opened.lake
        self._input = Input(self._lake, self._table.stream, scope.skip)
        self._all = replace(self._input, skip=None).rows(NO_TICK, scope.tick)
        self._own = self._input.rows(NO_TICK, scope.tick)
        self._stream = self._input.frame(NO_TICK, scope.tick)
        self._decided = self._places("late", scope.in_effect)
        self._held = held(scope.decisions, scope.tick, scope.known)

    def rows(self) -> Iterator[DataFrame]:
        yield self._of_rows(self._all, "row")
        if self._scope.skip:
            yield self._of_rows(self._all.where(skipped(self._scope.skip)), "restored")

    def bad(self) -> Iterator[DataFrame]:
        """The records that do not fit, and those in the quarantines of the stream's sources."""
        for source in self._table.stream.sources:
            place = quarantine_of(self._lake.layout, source.name)
            begins = self._quarantine_begins(place)
            flagged = decoded(source, self._own.where(F.col("topic") == source.topic)).where("_bad")
            before = F.col("_position.tick") <= begins
            yield self._of_positions(flagged, F.when(before, _code("bad_before")).otherwise(_code("bad")))
            if self._lake.exists(place.path):
                rows = self._lake.read(place.path).where(F.col("tick") <= self._scope.tick)
                yield self._of_rows(not_skipped(rows, self._scope.skip), "quarantined")
        if (fixed := self._decided_records("fixed", self._scope.in_effect)) is not None:
            yield self._of_rows(fixed, "fixed")

    def _quarantine_begins(self, place: TablePlace) -> int:
        """The tick after which a quarantine has the stream's bad records; an earlier name's quarantine has the rest."""
        if not self._scope.redeclared or not self._lake.exists(place.path):
            return NO_TICK
        commits = self._lake.commits(place)
        return min((commit.from_tick for commit in commits if "from_tick" in commit.said), default=NO_TICK)

    def seen(self) -> Iterator[DataFrame]:
        """What becomes of the stream's records at the table's door, and in its windows."""
        table = self._table
        ignored = null_key(table, self._stream)
        outside = F.when(ignored, _code("null_key"))
        if not self._scope.is_latest:
            outside = F.when(F.col("_tombstone"), _code("tombstone")).when(ignored, _code("null_key"))
        name = F.concat_ws("/", "_position.topic", "_topic_id", "_position.partition")
        if not isinstance(table.fold, LatestBy) and not isinstance(table.fold.window, Hopping | Sliding):
            yield self._of_positions(self._stream, outside.otherwise(self._taken()), name)
        else:
            left_out = self._stream.withColumn("_kind", outside).where("_kind IS NOT NULL")
            yield self._of_positions(left_out, F.col("_kind"), name)
            yield self._judged()
        if self._scope.judges_in_python:
            forms = tables.forms(self._lake.spark, table)
            found = keyed.late(table, keyed.keyed(table, forms, self._arrived(forms), None))
            yield self._of_positions(found, _code("late"))

    def _arrived(self, forms: list[Form]) -> DataFrame:
        begin = past.clock_at(self._opened, NO_TICK)
        return self._input.records(self._table, forms, begin, NO_TICK, self._scope.tick)

    def _judged(self) -> DataFrame:
        """The records that reach the table, judged by what SQL can tell."""
        table, window, rows = self._table, self._table.fold.window, self._arrived([])
        too_late, taken = _code("late"), self._taken()
        is_late = F.col("_late")
        if isinstance(window, Sliding):
            # A record itself is late when the last window that it could be in has closed, or when it has no window.
            closed = F.coalesce(F.col("_time") + window.difference + window.grace < F.col("_horizon"), F.lit(False))
            is_late = closed | ~F.col("_time").between(*window.room)
            bounds = (F.greatest(F.col("_time") - window.difference, F.lit(FIRST_MS)), F.col("_time"))
            rows = rows.withColumns(dict(zip(WINDOW_COLUMNS, map(F.timestamp_millis, bounds), strict=True)))
            if self._scope.judges_in_python:
                rows = rows.where(~is_late)
        else:
            rows = judged(table, rows)
            if self._decided is not None:
                rows = refold.marked(rows, self._decided, late.PLACE, "_forced")
                too_late = F.when(F.col("_forced"), _code("forced")).otherwise(too_late)
            if expires(table) and (left := expired(table, self._watermark())) is not None:
                taken = F.when(left, _code("expired")).otherwise(taken)
        return self._of_positions(rows, F.when(is_late, too_late).otherwise(taken))

    def _taken(self) -> Column:
        if self._held is None:
            return _code("taken")
        return F.when(self._held, _code("taken")).otherwise(_code("taken_back"))

    def _watermark(self) -> int | None:
        clock = past.clock_at(self._opened, self._scope.tick)
        return None if clock is None else clock.watermark

    def written(self) -> Iterator[DataFrame]:
        """The records in late/<table> and in the interventions."""
        scope = self._scope
        swaps = [at.at for at in interventions.of(self._lake, self._table.name) if at.kind == "swap"]
        rows = late.rows_at(self._opened, scope.tick, swaps)
        if rows is not None:
            yield self._of_positions(_with_position(rows), _code("kept"))
        # What came too late by earlier logic may be in time by the present one.
        begin = max((at.at for at in scope.decisions if at.details.get("changed")), default=NO_TICK)
        decided = self._places("late", [at for at in scope.in_effect if at.at > begin])
        if decided is not None:
            yield self._of_positions(_with_position(decided), _code("decided"))

    def current(self) -> Iterator[DataFrame]:
        """`latest`: the last record of each key, if it is not a delete, and the records that the table's rows show."""
        rows = self._arrived([])
        rows = deletes_in_order(self._table, timely(self._table, rows))
        order = F.struct(*[name for name in ("_order", "_position") if name in rows.columns])
        last = rows.groupBy(*self._table.key).agg(F.max(F.struct(order.alias("at"), "_tombstone")).alias("_last"))
        kept = last.where("NOT _last._tombstone").select(F.col("_last.at._position").alias("_position"))
        found = self._lake.read(self._opened.visible.path, self._scope.version)
        found = found.select("_position")
        if self._scope.put_right:
            # What a restored table began with is in no bronze: its rows are trusted.
            kept = found if self._scope.skip else self._refolded()
        yield self._of_positions(kept, _code("last"))
        yield self._of_positions(found, _code("shown"))

    def _refolded(self) -> DataFrame:
        """The positions that the rows should have, according to bronze and the interventions."""
        past = Past(self._opened)
        return past.visible(Cut(self._scope.tick), anchored=False).select("_position")

    def _decided_records(self, kind: str, decisions: Iterable[Decision]) -> DataFrame | None:
        return interventions.records(self._lake, [at for at in decisions if at.kind == kind])

    def _places(self, kind: str, decisions: Iterable[Decision]) -> DataFrame | None:
        found = self._decided_records(kind, decisions)
        return None if found is None else found.select(*late.PLACE).distinct()

    def _of_rows(self, rows: DataFrame, kind: str) -> DataFrame:
        """Marks of rows that have bronze's columns."""
        hashed = F.xxhash64(*bronze.COLUMNS)
        return self._marks(rows, F.concat_ws("/", "topic", "topic_id", "partition"), F.col("offset"), kind, hashed)

    def _of_positions(self, rows: DataFrame, kind: Column, name: Column | None = None) -> DataFrame:
        """Marks of rows with `_position`, and with their windows if they have any; name: of their partition."""
        at = F.col("_position")
        if name is None:
            topic_id = topic_id_at(self._scope.known, at["topic"], at["tick"])
            name = F.concat(at["topic"], F.lit("/"), topic_id, F.lit("/"), at["partition"].cast("string"))
        windows = [name for name in self._table.windows if name in rows.columns]
        return self._marks(rows, name, at["offset"], kind, F.xxhash64(at["tick"], at["ordinals"], *windows))

    def _marks(self, rows: DataFrame, name: Column, offset: Column, kind: Column | str, hashed: Column) -> DataFrame:
        part = numbered(self._scope.known, name)
        code = _code(kind) if isinstance(kind, str) else kind
        return rows.select(part.alias("_part"), offset.alias("offset"), code.alias("kind"), hashed.alias("hash"))


def _code(kind: str) -> Column:
    return F.lit(KINDS.index(kind))


def _with_position(rows: DataFrame) -> DataFrame:
    return rows.withColumn("_position", F.struct(*late.PLACE))


def held(decisions: Sequence[Decision], tick: int, known: list[Extent]) -> Column | None:
    """Return which of the records that a table had taken in it still has at a tick, by their positions; None for all.

    known: the partitions of the table's stream, which tell the id of a position's topic.

    A record that a revert took back, and that a refold of single keys brought back, is not recognized.
    """
    whole = [at for at in decisions if at.at <= tick and at.kind in ("revert", "swap")]
    if not whole or whole[-1].kind == "swap":
        return None
    back, cut = whole[-1], cut_of(whole[-1].details)
    then = F.col("_position.tick") <= cut.tick
    if (before := held(decisions, cut.tick, known)) is not None:
        then &= before
    if (keep := in_time(cut)) is not None:
        then &= keep
    if cut.offsets is not None:
        place = F.col("_position")
        topic_id = topic_id_at(known, place["topic"], place["tick"])
        then &= cut.lies_before(place["topic"], topic_id, place["partition"], place["offset"])
    return then | (F.col("_position.tick") > back.at)
