"""Folds one batch into one table: the records of the touched keys are folded in position order into their new rows.

The table is the state: the row's own columns are the accumulators that the batch goes on from. Three ways:

    latest    the last record of each key
    in SQL    the common aggregates, without a window or in tumbling and hopping ones: the batch's part is folded here,
              and MERGE adds it to the row
    keyed     everything else: `lakehouse.spark.operators.keyed` reads the rows and gives the new ones
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.plan.origin import Source
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.failures import Failed
from lakehouse.spark.in_memory import InMemory, hold
from lakehouse.spark.operators import keyed, merge
from lakehouse.spark.operators.aggregates import Form, of_batch, same_key
from lakehouse.spark.operators.arrivals import arrivals, can_be_late, judged, null_key, timely
from lakehouse.spark.operators.bounds import Held, KeyBounds, held
from lakehouse.spark.operators.clock import ClockState, Ticking, needs_watermark
from lakehouse.spark.operators.failing import Failing
from lakehouse.spark.operators.newest import deletes_in_order
from lakehouse.spark.operators.shown import leaving
from lakehouse.spark.operators.way import Way, way_of
from lakehouse.spark.stream.streams import RowCounter


@dataclass(slots=True)
class Folded:
    """A batch, folded to one row for each touched row of the table. It is held in memory: `release` it.

    forms: of a batch folded in SQL, see `merge`. bad: the bad records by source. late_rows: the late records (see
    `lakehouse.spark.table.late`), to be read only if there are some. late_joins: those of joins of streams. times: the
    smallest and the largest event time (milliseconds) of the records that reach the table. failed: the functions of
    users that failed on some of them.
    """

    batch: Held = field(init=False)
    forms: list[Form] | None = None
    records: int = 0
    bad: dict[Source, int] = field(default_factory=dict)
    null_keys: int = 0
    late: int = 0
    late_rows: DataFrame | None = None
    late_joins: dict[StreamJoin, DataFrame] = field(default_factory=dict)
    clock: ClockState | None = None
    times: tuple[int, int] | None = None
    failed: tuple[Failed, ...] = ()
    held: list[InMemory] = field(default_factory=list)

    def release(self) -> None:
        """Free the memory that the batch holds."""
        for memory in self.held:
            memory.release()

    def counts(self) -> dict[str, Any]:
        """Return the counts of a batch, for the commit's metadata."""
        clock = {"clock": self.clock.metadata()} if self.clock is not None else {}
        late = {"late": self.late} if self.clock is not None or self.late else {}
        seen = {"records": self.records, "bad": sum(self.bad.values()), "null_keys": self.null_keys}
        return {**seen, "keys": self.batch.count, **late, **clock}


class Counting(Failing):
    """Counts a batch's decoded and bad records on the way, once for each source; and where functions failed."""

    def __init__(self, holding: list[InMemory]) -> None:
        """holding: takes what is held in memory on the way."""
        super().__init__()
        self._holding = holding
        self._decoded: dict[tuple[type, str], tuple[Source | Table, Observation]] = {}
        self._late: dict[StreamJoin, tuple[DataFrame, Observation]] = {}

    def __call__(self, source: Source | Table, rows: DataFrame) -> DataFrame:
        if (place := (type(source), source.name)) in self._decoded:
            return rows
        seen = Observation()
        self._decoded[place] = source, seen
        return rows.observe(seen, F.count(F.lit(1)).alias("records"), F.count_if("_bad").alias("bad"))

    def held(self, join: StreamJoin, rows: DataFrame) -> DataFrame:
        if join in self._late:
            return hold(rows, self._holding)
        seen = Observation()
        held = hold(rows.observe(seen, F.count_if("_too_late").alias("late")), self._holding)
        self._late[join] = held.where("_too_late"), seen
        return held

    def late(self) -> dict[StreamJoin, DataFrame]:
        """Return the records that came too late for joins of streams, where there are some: see `RowCounter.held`."""
        return {join: rows for join, (rows, seen) in self._late.items() if seen.get["late"]}

    def number_late(self) -> int:
        """Return how many these are."""
        return sum(seen.get["late"] for _, seen in self._late.values())

    def records(self) -> tuple[int, dict[Source, int]]:
        """Return the records, and the bad ones by source."""
        found = [(source, seen.get) for source, seen in self._decoded.values()]
        bad = {source: counts["bad"] for source, counts in found if isinstance(source, Source) and counts["bad"]}
        return sum(counts["records"] for _, counts in found), bad


def fold(
    table: Table,
    forms: list[Form],
    stream: Callable[[RowCounter], DataFrame],
    rows: Callable[[], DataFrame],
    clock: ClockState | None,
    emitted: int | None = None,
) -> Folded:
    """Fold records of the table's stream. What is counted on the way is counted in the same pass.

    stream: gives the records, counted by source. rows: gives what the table keeps now, if that is needed. clock: the
    table's clock, for a table that has one. emitted: the watermark up to which final results are out.
    """
    holding: list[InMemory] = []
    try:
        return _folded(table, forms, stream, rows, clock, emitted, holding)
    except BaseException:
        for memory in holding:
            memory.release()
        raise


def _folded(
    table: Table,
    forms: list[Form],
    stream: Callable[[RowCounter], DataFrame],
    rows: Callable[[], DataFrame],
    clock: ClockState | None,
    emitted: int | None,
    holding: list[InMemory],
) -> Folded:
    """As `fold`. holding: takes what is held in memory on the way."""
    counting, ignored, times = Counting(holding), Observation(), Observation()
    records = stream(counting)
    records = records.observe(ignored, F.count_if(null_key(table, records)).alias("null_keys"))
    arrived = arrivals(table, forms, records, clock)
    arrived = arrived.observe(times, F.min("rowtime").alias("first"), F.max("rowtime").alias("last"))
    ticking = Ticking(clock) if clock is not None else None
    if ticking is not None:
        arrived = ticking.watch(arrived)
    folded = Folded(held=holding)
    way = way_of(table)
    bounds: KeyBounds = {}
    if way is Way.PYTHON or needs_watermark(table):
        # The watermark is needed before it is known which rows have expired; the keyed fold reads the records twice.
        names = [*table.group, "_time"] if way is Way.PYTHON else []
        watched = held(arrived, names)
        arrived, bounds = watched.frame, watched.bounds
        folded.held.append(watched.memory)
    late_seen = Observation()
    if way is Way.PYTHON:
        touched = rows().alias("t").where(keyed.reach(table, bounds))
        frame = _keyed(table, forms, arrived, touched, folded, counting)
    else:
        if can_be_late(table):
            arrived = deletes_in_order(table, judged(table, arrived), rows() if way is Way.LATEST_BY else None)
            arrived = arrived.observe(late_seen, F.count_if("_late").alias("late"))
            folded.late_rows = arrived.where("_late").select(*table.key, "_position")
            arrived = arrived.where(~F.col("_late"))
        frame = _in_sql(table, forms, arrived) if way is Way.SQL else _last(table, arrived)
        folded.forms = forms if way is Way.SQL else None
    if needs_watermark(table) and ticking is not None:
        frame = _expire(table, frame, rows, ticking.after().watermark, emitted, folded)
    folded.batch = held(frame, table.key)
    for memory in folded.held:
        memory.was_read()
    folded.held.append(folded.batch.memory)
    folded.records, folded.bad = counting.records()
    folded.failed = counting.result()
    folded.null_keys = ignored.get["null_keys"]
    seen = times.get
    folded.times = None if seen["first"] is None else (seen["first"], seen["last"])
    folded.clock = ticking.after() if ticking is not None else None
    if folded.late_rows is not None and way is not Way.PYTHON:
        folded.late = late_seen.get["late"]
    folded.late_joins = counting.late()
    folded.late += counting.number_late()
    return folded


def _last(table: Table, arrived: DataFrame) -> DataFrame:
    """The last record of each key, tombstones too. See `lakehouse.semantics.tombstone` for their effect."""
    values = [c.name for c in table.stream.columns if c.name not in table.key]
    hidden = [F.timestamp_millis("rowtime").alias("_event_time"), F.col("_position")]
    order = F.col("_position")
    if "_order" in arrived.columns:  # an order of their own: a delete is then a row, the marker
        hidden += [F.col("_order"), F.col("_tombstone").alias("_deleted")]
        order = F.struct("_order", "_position")
    last = F.max_by(F.struct(*values, "_tombstone", *hidden), order).alias("_last")
    return arrived.groupBy(*table.key).agg(last).select(*table.key, "_last.*")


def _in_sql(table: Table, forms: list[Form], arrived: DataFrame) -> DataFrame:
    return batch(table, forms, arrived).withColumn("_tombstone", F.lit(False))


def rows_after(table: Table, forms: list[Form], rows: DataFrame | None, arrived: DataFrame) -> DataFrame:
    """Return what a table that keeps `rows` (None: nothing) keeps after records of `arrivals`; no row expires."""
    match way_of(table):
        case Way.PYTHON:
            made = keyed.steps(table, forms, keyed.keyed(table, forms, arrived, rows)).drop("_step")
        case Way.SQL:
            made = merge.rows(table, forms, batch(table, forms, timely(table, arrived)), rows)
            made = made.withColumn("_tombstone", F.lit(False))
        case Way.LATEST:
            made = _last(table, arrived)
        case Way.LATEST_BY:
            made = _last(table, deletes_in_order(table, timely(table, arrived), rows)).drop("_tombstone")
            return made if rows is None else merge.newest(table, rows, made)
    return merge.overlaid(table, rows, made)


def batch(table: Table, forms: list[Form], arrived: DataFrame) -> DataFrame:
    """Fold arrived records to one row for each row of the table: its key, `_new_<name>`, `_event_time`, `_position`."""
    time = F.timestamp_millis(F.max("rowtime")).alias("_event_time")
    return arrived.groupBy(*table.key).agg(*of_batch(forms), time, F.max("_position").alias("_position"))


def _keyed(
    table: Table, forms: list[Form], arrived: DataFrame, rows: DataFrame, folded: Folded, failing: Failing
) -> DataFrame:
    made = hold(failing.folded(forms, keyed.keyed(table, forms, arrived, rows)), folded.held)
    if table.windows:
        folded.late = made.agg(F.coalesce(F.sum(F.size("_late")), F.lit(0))).first()[0]  # type: ignore[index]
        folded.late_rows = keyed.late(table, made)
    return keyed.steps(table, forms, made).drop("_step")


def _expire(
    table: Table,
    frame: DataFrame,
    rows: Callable[[], DataFrame],
    watermark: int | None,
    emitted: int | None,
    folded: Folded,
) -> DataFrame:
    """Remove what is no longer needed: rows of windows past their retention, windows whose final results are out
    (by the watermark `emitted`), and markers of deletes past theirs."""
    gone = leaving(table, watermark, emitted)
    if gone is None:
        return frame
    if table.windows:
        # The batch's result for an expired row goes, too; removing a key that is absent does no harm.
        frame = frame.withColumn("_tombstone", F.col("_tombstone") | gone)
    frame = hold(frame, folded.held)
    old = rows().where(gone).alias("o").join(frame.alias("f"), same_key(table.key, "o", "f"), "left_anti")
    return frame.unionByName(old.select(*table.key, F.lit(True).alias("_tombstone")), allowMissingColumns=True)
