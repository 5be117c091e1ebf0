"""Folds one batch into one table: the records of each touched key, in position order, into the key's new row.

The table is the state: a row's own columns are the accumulators from which the batch goes on. Three ways:

    latest    the last record of each key
    in SQL    the common aggregates, without a window or in tumbling and hopping ones: Spark folds the batch here,
              and MERGE adds its result to the row
    keyed     everything else: `lakehouse.spark.fold.keyed` reads the old rows and returns the new ones
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from lakehouse.lake.commit_metadata import RecordCounts
from lakehouse.plan.origin import Source
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.clock import ClockState
from lakehouse.semantics.failures import Failed
from lakehouse.spark.fold import keyed, merge
from lakehouse.spark.fold.aggregates import Form, batch_columns, same_key
from lakehouse.spark.fold.arrivals import (
    arriving_records,
    can_be_late,
    has_null_key,
    timely_records,
    with_lateness,
)
from lakehouse.spark.fold.bounds import HeldFrame, KeyBounds, hold_with_bounds
from lakehouse.spark.fold.clock import RunningClock, needs_watermark
from lakehouse.spark.fold.failing import FailureCounter
from lakehouse.spark.fold.fold_way import FoldWay, fold_way_of
from lakehouse.spark.fold.newest import deletes_in_order
from lakehouse.spark.fold.visibility import is_unneeded
from lakehouse.spark.jvm.in_memory import InMemory, hold_frame
from lakehouse.spark.stream.streams import RowCounter


@dataclass(slots=True)
class FoldedBatch:
    """A batch, folded to one row for each touched row of the table. It is held in memory: `release` it.

    forms: of a batch folded in SQL, see `merge_batch`. bad: the bad records by source. late_rows: the late records (see
    `lakehouse.spark.table.late`); read them only if `late` is not 0. late_joins: the records too late for joins of
    streams. times: the smallest and the largest event time (milliseconds) of the records that reach the table. failed:
    the users' functions that failed on some of them.
    """

    batch: HeldFrame = field(init=False)
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

    def held(self, join: StreamJoin, rows: DataFrame) -> DataFrame:
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
    table: Table,
    forms: list[Form],
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
        return _fold_counted(table, forms, read_stream, read_rows, clock, emitted_watermark, held_memory)
    except BaseException:
        for memory in held_memory:
            memory.release()
        raise


def _fold_counted(
    table: Table,
    forms: list[Form],
    read_stream: Callable[[RowCounter], DataFrame],
    read_rows: Callable[[], DataFrame],
    clock: ClockState | None,
    emitted_watermark: int | None,
    held_memory: list[InMemory],
) -> FoldedBatch:
    """Fold as `fold_batch` does. held_memory: collects the frames that are held in memory."""
    batch_counter, null_key_observation, time_observation = BatchCounter(held_memory), Observation(), Observation()
    records = read_stream(batch_counter)
    records = records.observe(null_key_observation, F.count_if(has_null_key(table, records)).alias("null_keys"))
    arrived_records = arriving_records(table, forms, records, clock)
    arrived_records = arrived_records.observe(
        time_observation, F.min("rowtime").alias("first"), F.max("rowtime").alias("last")
    )
    running_clock = RunningClock(clock) if clock is not None else None
    if running_clock is not None:
        arrived_records = running_clock.watch(arrived_records)
    folded_batch = FoldedBatch(held_memory=held_memory)
    fold_way = fold_way_of(table)
    key_bounds: KeyBounds = {}
    if fold_way is FoldWay.PYTHON or needs_watermark(table):
        # Only the watermark tells which rows have expired; the keyed fold reads the records twice.
        bound_columns = [*table.group, "_time"] if fold_way is FoldWay.PYTHON else []
        held_arrivals = hold_with_bounds(arrived_records, bound_columns)
        arrived_records, key_bounds = held_arrivals.frame, held_arrivals.bounds
        folded_batch.held_memory.append(held_arrivals.memory)
    late_observation = Observation()
    if fold_way is FoldWay.PYTHON:
        touched_rows = read_rows().alias("t").where(keyed.may_change(table, key_bounds))
        folded_rows = _fold_by_key(table, forms, arrived_records, touched_rows, folded_batch, batch_counter)
    else:
        if can_be_late(table):
            arrived_records = deletes_in_order(
                table, with_lateness(table, arrived_records), read_rows() if fold_way is FoldWay.LATEST_BY else None
            )
            arrived_records = arrived_records.observe(late_observation, F.count_if("_late").alias("late"))
            folded_batch.late_rows = arrived_records.where("_late").select(*table.key, "_position")
            arrived_records = arrived_records.where(~F.col("_late"))
        folded_rows = (
            _aggregate_in_sql(table, forms, arrived_records)
            if fold_way is FoldWay.SQL
            else _last_records(table, arrived_records)
        )
        folded_batch.forms = forms if fold_way is FoldWay.SQL else None
    if needs_watermark(table) and running_clock is not None:
        folded_rows = _remove_expired(
            table, folded_rows, read_rows, running_clock.after().watermark, emitted_watermark, folded_batch
        )
    folded_batch.batch = hold_with_bounds(folded_rows, table.key)
    for memory in folded_batch.held_memory:
        memory.was_read()
    folded_batch.held_memory.append(folded_batch.batch.memory)
    folded_batch.records, folded_batch.bad = batch_counter.records()
    folded_batch.failed = batch_counter.result()
    folded_batch.null_keys = null_key_observation.get["null_keys"]
    event_times = time_observation.get
    folded_batch.times = None if event_times["first"] is None else (event_times["first"], event_times["last"])
    folded_batch.clock = running_clock.after() if running_clock is not None else None
    if folded_batch.late_rows is not None and fold_way is not FoldWay.PYTHON:
        folded_batch.late = late_observation.get["late"]
    folded_batch.late_joins = batch_counter.late_joins()
    folded_batch.late += batch_counter.number_late()
    return folded_batch


def _last_records(table: Table, arrived_records: DataFrame) -> DataFrame:
    """Return the last record of each key, tombstones too. For their effect see `lakehouse.semantics.tombstone`."""
    value_names = [column.name for column in table.stream.columns if column.name not in table.key]
    hidden_columns = [F.timestamp_millis("rowtime").alias("_event_time"), F.col("_position")]
    record_order = F.col("_position")
    if "_order" in arrived_records.columns:  # `order_by`: a delete is then a row, the marker
        hidden_columns += [F.col("_order"), F.col("_tombstone").alias("_deleted")]
        record_order = F.struct("_order", "_position")
    last_record = F.max_by(F.struct(*value_names, "_tombstone", *hidden_columns), record_order).alias("_last")
    return arrived_records.groupBy(*table.key).agg(last_record).select(*table.key, "_last.*")


def _aggregate_in_sql(table: Table, forms: list[Form], arrived_records: DataFrame) -> DataFrame:
    return aggregate_batch(table, forms, arrived_records).withColumn("_tombstone", F.lit(False))


def rows_after(table: Table, forms: list[Form], rows: DataFrame | None, arrived_records: DataFrame) -> DataFrame:
    """Return the rows that a table keeps after arrived records; no row expires. rows: those before; None for none."""
    match fold_way_of(table):
        case FoldWay.PYTHON:
            new_rows = keyed.changed_rows(table, forms, keyed.fold_keys(table, forms, arrived_records, rows)).drop(
                "_step"
            )
        case FoldWay.SQL:
            new_rows = merge.rows_after_batch(
                table, forms, aggregate_batch(table, forms, timely_records(table, arrived_records)), rows
            )
            new_rows = new_rows.withColumn("_tombstone", F.lit(False))
        case FoldWay.LATEST:
            new_rows = _last_records(table, arrived_records)
        case FoldWay.LATEST_BY:
            new_rows = _last_records(table, deletes_in_order(table, timely_records(table, arrived_records), rows)).drop(
                "_tombstone"
            )
            return new_rows if rows is None else merge.newest_rows(table, rows, new_rows)
    return merge.overlay_rows(table, rows, new_rows)


def aggregate_batch(table: Table, forms: list[Form], arrived_records: DataFrame) -> DataFrame:
    """Fold arrived records to one row for each row of the table: its key, `_new_<name>`, `_event_time`, `_position`."""
    event_time = F.timestamp_millis(F.max("rowtime")).alias("_event_time")
    return arrived_records.groupBy(*table.key).agg(
        *batch_columns(forms), event_time, F.max("_position").alias("_position")
    )


def _fold_by_key(
    table: Table,
    forms: list[Form],
    arrived_records: DataFrame,
    rows: DataFrame,
    folded_batch: FoldedBatch,
    failure_counter: FailureCounter,
) -> DataFrame:
    folded_keys = hold_frame(
        failure_counter.count_folded(forms, keyed.fold_keys(table, forms, arrived_records, rows)),
        folded_batch.held_memory,
    )
    if table.windows:
        folded_batch.late = folded_keys.agg(F.coalesce(F.sum(F.size("_late")), F.lit(0))).first()[0]  # type: ignore[index]
        folded_batch.late_rows = keyed.late_records(table, folded_keys)
    return keyed.changed_rows(table, forms, folded_keys).drop("_step")


def _remove_expired(
    table: Table,
    folded_rows: DataFrame,
    read_rows: Callable[[], DataFrame],
    watermark: int | None,
    emitted_watermark: int | None,
    folded_batch: FoldedBatch,
) -> DataFrame:
    """Remove unneeded rows: of windows past their retention, of windows whose final results are out (by
    `emitted_watermark`), and markers of deletes past their retention."""
    is_leaving = is_unneeded(table, watermark, emitted_watermark)
    if is_leaving is None:
        return folded_rows
    if table.windows:
        # The batch's result for an expired row goes, too; removing a key that is absent does no harm.
        folded_rows = folded_rows.withColumn("_tombstone", F.col("_tombstone") | is_leaving)
    folded_rows = hold_frame(folded_rows, folded_batch.held_memory)
    leaving_rows = (
        read_rows()
        .where(is_leaving)
        .alias("o")
        .join(folded_rows.alias("f"), same_key(table.key, "o", "f"), "left_anti")
    )
    return folded_rows.unionByName(
        leaving_rows.select(*table.key, F.lit(True).alias("_tombstone")), allowMissingColumns=True
    )
