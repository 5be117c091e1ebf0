"""Folds one batch into one table: the records of each touched key, in position order, into the key's new row.

The table is the state: a row's own columns are the accumulators from which the batch goes on. The table's `TableFold`
says how its records are folded. Here is the part that all batches need: counts, the clock, rows that expire.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.lake.commit_metadata import RecordCounts
from lakehouse.plan.origin import Source
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.failures import FunctionFailures
from lakehouse.semantics.time.clock import ClockState
from lakehouse.spark.fold.bounds import HeldFrame, KeyBounds, hold_with_bounds
from lakehouse.spark.fold.clock import RunningClock, needs_watermark
from lakehouse.spark.fold.failing import FailureCounter
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.fold.table_fold import BatchInput, TableFold
from lakehouse.spark.fold.visibility import is_unneeded
from lakehouse.spark.jvm.in_memory import InMemory, hold_frame
from lakehouse.spark.stream.streams import RowCounter


@dataclass(slots=True)
class FoldedBatch:
    """A batch, folded to one row for each touched row of the table. It is held in memory: `release` it.

    bad: the bad records by source. late_rows: the late records (see `lakehouse.spark.table.late`); read them only if
    `late` is not 0. late_joins: the records too late for joins of streams. times: the smallest and the largest event
    time (milliseconds) of the records that reach the table. failures: the users' functions that failed on some of them.
    """

    batch: HeldFrame = field(init=False)
    records: int = 0
    bad: dict[Source, int] = field(default_factory=dict)
    null_keys: int = 0
    late: int = 0
    late_rows: DataFrame | None = None
    late_joins: dict[StreamJoin, DataFrame] = field(default_factory=dict)
    clock: ClockState | None = None
    times: tuple[int, int] | None = None
    failures: tuple[FunctionFailures, ...] = ()
    held_memory: list[InMemory] = field(default_factory=list)

    def release(self) -> None:
        """Free the memory that the batch holds."""
        for memory in self.held_memory:
            memory.release()

    def counts(self) -> RecordCounts:
        """Return the counts of a batch, for the commit's metadata."""
        return RecordCounts(self.records, sum(self.bad.values()), self.null_keys, self.late)


class BatchCounter(FailureCounter):
    """Counts a batch's decoded and bad records while Spark reads them, once a source, and the failed functions."""

    def __init__(self, held_memory: list[InMemory]) -> None:
        """held_memory: collects the frames that are held in memory while Spark reads."""
        super().__init__()
        self._held_memory = held_memory
        self._decoded: dict[tuple[type, str], tuple[Source | Table, Observation]] = {}
        self._late: dict[StreamJoin, tuple[DataFrame, Observation]] = {}

    def __call__(self, source: Source | Table, rows: DataFrame) -> DataFrame:
        if (source_key := (type(source), source.name)) in self._decoded:
            return rows
        observation = Observation()
        self._decoded[source_key] = source, observation
        return rows.observe(observation, F.count(F.lit(1)).alias("records"), F.count_if("_bad").alias("bad"))

    def hold_join_records(self, join: StreamJoin, rows: DataFrame) -> DataFrame:
        if join in self._late:
            return hold_frame(rows, self._held_memory)
        observation = Observation()
        held_rows = hold_frame(rows.observe(observation, F.count_if("_too_late").alias("late")), self._held_memory)
        self._late[join] = held_rows.where("_too_late"), observation
        return held_rows

    def late_joins(self) -> dict[StreamJoin, DataFrame]:
        """Return the records that came too late for joins of streams, by join, without joins that have none."""
        return {join: rows for join, (rows, observation) in self._late.items() if observation.get["late"]}

    def number_late(self) -> int:
        """Return how many records came too late for joins of streams."""
        return sum(observation.get["late"] for _, observation in self._late.values())

    def records(self) -> tuple[int, dict[Source, int]]:
        """Return the number of records, and of the bad ones by source."""
        source_counts = [(source, observation.get) for source, observation in self._decoded.values()]
        bad_records = {
            source: counts["bad"] for source, counts in source_counts if isinstance(source, Source) and counts["bad"]
        }
        return sum(counts["records"] for _, counts in source_counts), bad_records


def fold_batch(
    table_fold: TableFold,
    read_stream: Callable[[RowCounter], DataFrame],
    read_rows: Callable[[], DataFrame],
    clock: ClockState | None,
    emitted_watermark: int | None = None,
) -> FoldedBatch:
    """Fold records of the table's stream, and count them in the same pass.

    read_stream: called once, returns the records, and passes each source's to the counter. read_rows: called if the
    fold needs the table's rows, returns those that it keeps now. clock: the table's clock; None for a table without
    one. emitted_watermark: the watermark up to which final results are out.
    """
    held_memory: list[InMemory] = []
    try:
        return _fold_counted(table_fold, read_stream, read_rows, clock, emitted_watermark, held_memory)
    except BaseException:
        for memory in held_memory:
            memory.release()
        raise


def _fold_counted(
    table_fold: TableFold,
    read_stream: Callable[[RowCounter], DataFrame],
    read_rows: Callable[[], DataFrame],
    clock: ClockState | None,
    emitted_watermark: int | None,
    held_memory: list[InMemory],
) -> FoldedBatch:
    """Fold as `fold_batch` does. held_memory: collects the frames that are held in memory."""
    table = table_fold.table
    batch_counter, null_key_observation, time_observation = BatchCounter(held_memory), Observation(), Observation()
    records = read_stream(batch_counter)
    records = records.observe(null_key_observation, F.count_if(table_fold.has_null_key(records)).alias("null_keys"))
    arrived_records = table_fold.arriving_records(records, clock)
    arrived_records = arrived_records.observe(
        time_observation, F.min("rowtime").alias("first"), F.max("rowtime").alias("last")
    )
    running_clock = RunningClock(clock) if clock is not None else None
    if running_clock is not None:
        arrived_records = running_clock.watch(arrived_records)
    folded_batch = FoldedBatch(held_memory=held_memory)
    key_bounds: KeyBounds = {}
    if table_fold.bound_columns or needs_watermark(table):
        # Only the watermark tells which rows have expired; a fold that needs bounds reads the records twice.
        held_arrivals = hold_with_bounds(arrived_records, table_fold.bound_columns)
        arrived_records, key_bounds = held_arrivals.frame, held_arrivals.bounds
        held_memory.append(held_arrivals.memory)
    folded_rows = table_fold.fold_batch(BatchInput(arrived_records, key_bounds, read_rows, batch_counter, held_memory))
    touched_rows, folded_batch.late_rows = folded_rows.rows, folded_rows.late_rows
    if needs_watermark(table) and running_clock is not None:
        is_leaving = is_unneeded(table_fold, running_clock.after().watermark, emitted_watermark)
        if is_leaving is not None:
            touched_rows = _remove_unneeded(table, touched_rows, read_rows, is_leaving, held_memory)
    folded_batch.batch = hold_with_bounds(touched_rows, table.key)
    for memory in held_memory:
        memory.finish_read()
    held_memory.append(folded_batch.batch.memory)
    folded_batch.records, folded_batch.bad = batch_counter.records()
    folded_batch.failures = batch_counter.collect_failures()
    folded_batch.null_keys = null_key_observation.get["null_keys"]
    event_times = time_observation.get
    folded_batch.times = None if event_times["first"] is None else (event_times["first"], event_times["last"])
    folded_batch.clock = running_clock.after() if running_clock is not None else None
    folded_batch.late = folded_rows.count_late() + batch_counter.number_late()
    folded_batch.late_joins = batch_counter.late_joins()
    return folded_batch


def _remove_unneeded(
    table: Table,
    folded_rows: DataFrame,
    read_rows: Callable[[], DataFrame],
    is_leaving: Column,
    held_memory: list[InMemory],
) -> DataFrame:
    """Remove unneeded rows: of windows past their retention, of windows whose final results are out, and markers of
    deletes past their retention."""
    if table.windows:
        # The batch's result for an expired row goes, too; removing a key that is absent does no harm.
        folded_rows = folded_rows.withColumn("_tombstone", F.col("_tombstone") | is_leaving)
    folded_rows = hold_frame(folded_rows, held_memory)
    leaving_rows = (
        read_rows()
        .where(is_leaving)
        .alias("o")
        .join(folded_rows.alias("f"), same_key(table.key, "o", "f"), "left_anti")
    )
    return folded_rows.unionByName(
        leaving_rows.select(*table.key, F.lit(True).alias("_tombstone")), allowMissingColumns=True
    )
