"""Rebuilds some rows of a table from bronze: those of the keys that an intervention touches.

The refold begins from nothing, or from the rows that a table was restored with: it reads the stream's whole history
with the interventions up to then, judges every record as the live table did, and folds the touched groups at the
original positions. Late records that were taken in after all are not late for any window; fixed records are judged at
their place, and move no clock. What a restored table holds already is left out, fixed or not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import NotFound, PlanError
from lakehouse.lake.in_effect import in_effect
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.stream_join import meetings
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.window import Hopping
from lakehouse.spark.bronze import interventions
from lakehouse.spark.bronze.interventions import Decision
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.aggregates import Form, same_key
from lakehouse.spark.operators.arrivals import timely
from lakehouse.spark.operators.clock import ALWAYS_MS, timed
from lakehouse.spark.operators.fold import rows_after
from lakehouse.spark.operators.shown import is_final
from lakehouse.spark.past import anchors, counts, past
from lakehouse.spark.table.input import input_of, not_skipped
from lakehouse.spark.table.late import PLACE

IDENTITY = ("topic_id", "partition", "offset")
PLACE_OF_RECORD = ("tick", "topic", "partition", "offset")


@dataclass(frozen=True, slots=True)
class Refolded:
    """The new rows of the touched keys; `keys` are the touched ones, by the columns `names`."""

    names: tuple[str, ...]
    keys: DataFrame
    rows: DataFrame


def refolded(opened: OpenTable, forms: list[Form], decisions: list[Decision], at: Decision, cut: Cut) -> Refolded:
    """Refold what an intervention touches.

    decisions: all of the table. cut: which records count; its tick is ignored. No row is removed because it expired, or
    because its final result is out.
    """
    return _Refold(opened, forms, decisions, at, cut).refolded()


class _Refold:
    """One intervention in a table, and those before it."""

    def __init__(self, opened: OpenTable, forms: list[Form], decisions: list[Decision], at: Decision, cut: Cut) -> None:
        self._opened, self._table, self._forms, self._at, self._cut = opened, opened.table, forms, at, cut
        # Without those that a revert took back: what they took in must not come back with another intervention.
        self._decisions = in_effect(decisions, at.at)
        self._input = replace(input_of(opened), forced=self._forced())

    def refolded(self) -> Refolded:
        table, forms = self._table, self._forms
        records, keep = self._judged(), counts.in_time(self._cut)
        records = records if keep is None else records.where(keep)
        names, touched = _touched(table, records, self._about())
        if self._at.kind == "late" and meetings(table.stream):
            touched = touched.unionByName(_touched(table, self._gone(records), F.lit(True))[1])
        if self._at.kind == "fixed":
            # The rows they counted in before, by an earlier fix or a schema that accepts them, are folded without them.
            touched = touched.unionByName(_touched(table, self._before_fix(), F.lit(True))[1])
        touched = touched.distinct().persist()
        groups = table.group
        keys = touched.select(*groups).distinct()
        began = _among(_began_with(self._opened), keys, groups) if self._input.skip else None
        rows = rows_after(table, forms, began, _among(records, keys, groups))
        return Refolded(names, touched, _among(rows, touched, names) if names != groups else rows)

    def _judged(self) -> DataFrame:
        """The records that reached the table up to the intervention, with the interventions applied: see `arrivals`."""
        table = self._table
        fixed = interventions.fixes(self._opened.lake, self._decisions)
        fixed = None if fixed is None else not_skipped(self._counting(fixed), self._input.skip)

        def counting(rows: DataFrame) -> DataFrame:
            return self._counting(rows) if fixed is None else replaced(self._counting(rows), fixed)

        records = self._records(counting)
        begin = past.clock_at(self._opened, NO_TICK)
        if begin is None:
            return records
        forced = self._input.forced
        if fixed is None:
            # The pairs of a record that came too late for a join did not come when it did.
            joined = forced is not None and bool(meetings(table.stream))
            records = taken_in(records, forced, "_forced") if joined and forced is not None else records
            records = timed(table, records, begin, moves=F.col("_forced").isNull() if joined else None)
            records = records.drop("_forced")
        else:
            records = marked(records, fixed, PLACE_OF_RECORD, "_fixed")
            records = timed(table, records, begin, moves=F.col("_fixed").isNull()).drop("_fixed")
            # Before a partition's first other record there is no stream time that a fixed one could be late for.
            records = records.withColumn("_horizon", F.coalesce("_horizon", F.lit(ALWAYS_MS)))
        if forced is None:
            return records
        records = taken_in(records, forced, "_forced")
        horizon = F.when(F.col("_forced").isNotNull(), F.lit(ALWAYS_MS)).otherwise(F.col("_horizon"))
        return records.withColumn("_horizon", horizon).drop("_forced")

    def _forced(self) -> DataFrame | None:
        """The places of late records that were taken in after all, and the tick `at` of that; None if none was."""
        late = [decision for decision in self._decisions if decision.kind == "late"]
        found = interventions.records(self._opened.lake, late)
        if found is None:
            return None
        ticks = self._opened.lake.spark.createDataFrame([(one.id, one.at) for one in late], "id string, at bigint")
        return found.select("id", *PLACE).join(F.broadcast(ticks), "id").drop("id")

    def _gone(self, records: DataFrame) -> DataFrame:
        """The records that the stream had before late ones met others in a join, and has not any more: padded ones."""
        earlier = self._forced_before()
        before = replace(self._input, among=self._counting, forced=earlier)
        was = before.records(self._table, self._forms, None, NO_TICK, self._at.at)
        places = [F.col(f"_position.{name}").alias(f"_{name}") for name in PLACE_OF_RECORD]
        names = (*self._table.group, "rowtime", *[f"_{name}" for name in PLACE_OF_RECORD])
        here = records.select("*", *places).select(*names).distinct().alias("k")
        gone = was.select("*", *places).alias("r").join(here, same_key(names, "r", "k"), "left_anti")
        return gone.withColumn("_horizon", F.lit(ALWAYS_MS))

    def _forced_before(self) -> DataFrame | None:
        return None if self._input.forced is None else self._input.forced.where(F.col("at") < self._at.at)

    def _before_fix(self) -> DataFrame:
        """The fixed records, as they counted before the fix: bad ones did not count. None is late."""
        mine = interventions.fixes(self._opened.lake, [self._at])
        assert mine is not None
        these = F.broadcast(mine.select(*IDENTITY).distinct())
        earlier = interventions.fixes(
            self._opened.lake, [decision for decision in self._decisions if decision.at < self._at.at]
        )
        if earlier is not None:
            earlier = not_skipped(earlier, self._input.skip)
            earlier = earlier.join(these, list(IDENTITY), "left_semi").select(*earlier.columns)

        def counting(rows: DataFrame) -> DataFrame:
            rows = rows.join(these, list(IDENTITY), "left_semi").select(*rows.columns)
            return self._counting(rows if earlier is None else replaced(rows, earlier))

        return self._records(counting).withColumn("_horizon", F.lit(ALWAYS_MS))

    def _about(self) -> Column | DataFrame:
        """The records that the intervention is about: a condition on them, or their places."""
        if self._at.kind == "refold":
            return _range(self._table, self._at)
        found = interventions.records(self._opened.lake, [self._at])
        assert found is not None
        return found.select(*(PLACE if self._at.kind == "late" else PLACE_OF_RECORD)).distinct()

    def _counting(self, rows: DataFrame) -> DataFrame:
        """The rows of bronze that count, or judge others."""
        return counts.before(self._cut, rows)

    def _records(self, among: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """The records of these rows of bronze that reached the table up to the intervention, from the first on."""
        return replace(self._input, among=among).records(self._table, self._forms, None, NO_TICK, self._at.at)


def beginning(opened: OpenTable) -> DataFrame | None:
    """Return the rows that a restored table began with; None for a table that was built from bronze.

    Raises NotFound if they are gone: what came before the restore is in no bronze of this lake.
    """
    return None if opened.skip is None else _began_with(opened)


def check_beginning(opened: OpenTable) -> None:
    """Raise an error if a restored table does not have the rows that a repair would be folded onto.

    NotFound if they are gone; PlanError for final results: of a window that was out at the restore only the result is
    there, and of one that HAVING hid not even that.
    """
    if opened.skip is not None and is_final(opened.table):
        raise PlanError(
            f"table {opened.name!r} has final results and was restored from a topic: what its windows had before that "
            "is in no bronze of this lake, so a late or a fixed record can't be taken in. Put it right in the lake "
            "that published, and restore again; or build the table from bronze, in a lake that has all records."
        )
    beginning(opened)


def _began_with(opened: OpenTable) -> DataFrame:
    began = anchors.nearest(opened, Cut(NO_TICK))
    if began is None:
        raise NotFound(
            f"table {opened.name!r} was restored from a topic, and its restored rows are no longer kept: this lake's "
            "bronze does not have what came before, so nothing of it can be rebuilt. `lakehouse repair revert` "
            "takes it back to a version; or restore it again, into another lake."
        )
    return began.rows


def unfixed(rows: DataFrame, fixed: DataFrame) -> DataFrame:
    """Return the rows of bronze without those for which there are fixed ones."""
    return rows.join(F.broadcast(fixed.select(*IDENTITY).distinct()), list(IDENTITY), "left_anti").select(*rows.columns)


def replaced(rows: DataFrame, fixed: DataFrame) -> DataFrame:
    """Return the rows of bronze, with the fixed ones in place of the originals."""
    return unfixed(rows, fixed).unionByName(fixed)


def _range(table: Table, at: Decision) -> Column:
    condition = F.lit(True)
    first, last = at.details.get("first_ms"), at.details.get("last_ms")
    if first is not None:
        condition &= F.col("rowtime") >= first
    if last is not None:
        condition &= F.col("rowtime") <= last
    if (offsets := at.details.get("offsets")) is not None:
        inside = F.lit(False)
        for topic, of in offsets.items():
            for partition, (begin, end) in of.items():
                here = (F.col("_position.topic") == topic) & (F.col("_position.partition") == int(partition))
                inside |= here & F.col("_position.offset").between(begin, end)
        condition &= inside
    return condition


def _touched(table: Table, records: DataFrame, about: Column | DataFrame) -> tuple[tuple[str, ...], DataFrame]:
    """The keys that the records touch: single windows if each changes on its own, else all rows of the group."""
    if isinstance(about, DataFrame):
        if "ordinals" in about.columns:
            chosen = taken_in(records, about, "_chosen").where("_chosen")
        else:
            chosen = marked(records, about, PLACE_OF_RECORD, "_chosen").where("_chosen")
        chosen = chosen.drop("_chosen")
    else:
        chosen = records.where(about)
    if isinstance(table.fold.window, Hopping):
        return table.key, timely(table, chosen).select(*table.key)
    return table.group, chosen.select(*table.group)


def marked(records: DataFrame, some: DataFrame, names: tuple[str, ...], mark: str) -> DataFrame:
    """Return the records with a mark: true for those whose places are in `some`; the mark of others is null."""
    places = F.broadcast(some.select(*names).distinct().withColumn(mark, F.lit(True))).alias("p")
    same = [F.col(f"r._position.{name}") == F.col(f"p.{name}") for name in names]
    return records.alias("r").join(places, same, "left").select("r.*", f"p.{mark}")


def taken_in(records: DataFrame, some: DataFrame, mark: str) -> DataFrame:
    """Return the records with a mark: true for late ones whose places are in `some`, and for their pairs, else null.

    What comes out of a join has the ordinals of the record with which it comes, and more. One record may be in `some`
    several times: too late for the join, and the row that it made there too late for a window.
    """
    places = some.groupBy(*PLACE_OF_RECORD).agg(F.collect_set("ordinals").alias("_begin"))
    same = [F.col(f"r._position.{name}") == F.col(f"p.{name}") for name in PLACE_OF_RECORD]
    mine = F.col("r._position.ordinals")
    begins = F.exists("p._begin", lambda of: F.slice(mine, F.lit(1), F.size(of)) == of)
    both = records.alias("r").join(F.broadcast(places).alias("p"), same, "left")
    return both.select("r.*", F.when(begins, F.lit(True)).alias(mark))


def _among(rows: DataFrame, keys: DataFrame, names: tuple[str, ...]) -> DataFrame:
    return rows.alias("r").join(keys.alias("k"), same_key(names, "r", "k"), "left_semi")
