"""Stream time on Spark: each commit records it, see `ClockState`, and each record of a batch gets it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

from lakehouse.plan.lineage.clocks import shared_clocks
from lakehouse.plan.table import Table
from lakehouse.semantics.time.clock import Clock, ClockState
from lakehouse.spark.expression.arrow_functions import literal_map

ALWAYS_MS = -(2**62)  # judged by this time, no record is late


class RunningClock:
    """Watches the records of a batch, and gives the clock's state after them."""

    def __init__(self, clock_state: ClockState) -> None:
        self._state, self._observation = clock_state, Observation()

    def watch(self, rows: DataFrame) -> DataFrame:
        """Return the records of `with_stream_time`, watched; Spark must compute them once."""
        return rows.observe(self._observation, F.collect_set("_tail").alias("tails"), F.max("_watermark").alias("mark"))

    def after(self) -> ClockState:
        """Return the clock's state after the batch; call it when Spark has computed the records."""
        return self._state.after(self._observation.get["tails"], self._observation.get["mark"])


def needs_watermark(table: Table) -> bool:
    """Say whether the smallest of the partitions' stream times matters: for final results, and to let rows expire."""
    return table.lag is not None


def with_stream_time(table: Table, rows: DataFrame, clock_state: ClockState, moves: Column | None = None) -> DataFrame:
    """Add `_horizon` (the stream time that decides what is late), `_tail` (a partition's last record), `_watermark`.

    rows: with `_part`, `_time` (milliseconds), `_position`. `_watermark` is null if the table needs none. moves: the
    condition on records that move the clock; None if all do.
    """
    # Within one topic the offset is enough, and sorts faster.
    order_by = ["_position"] if shared_clocks(table.stream) else ["_position.offset", "_position.ordinals"]
    partition_window = Window.partitionBy("_part").orderBy(*order_by)
    carried_time = F.element_at(literal_map(clock_state.stream_times, "bigint"), F.col("_part"))
    order_time = F.col("_position.order_time")
    tail = F.struct(
        F.col("_part").alias("part"), F.col("_horizon").alias("time"), order_time.alias("order"), "_position.tick"
    )
    moving_time = F.col("_time") if moves is None else F.when(moves, F.col("_time"))
    rows = rows.withColumn("_horizon", F.greatest(carried_time, F.max(moving_time).over(partition_window)))
    rows = rows.withColumn(
        "_tail", F.when(F.lead("_part").over(partition_window).isNull() & F.col("_horizon").isNotNull(), tail)
    )
    if (lag := table.lag) is None:
        return rows.withColumn("_watermark", F.lit(None).cast("bigint"))
    # The watermark looks at all partitions, record by record in the order of the lake: one task does that.
    # A null, so that the column is nullable: before the first record that moves the clock there is no watermark.
    null_watermark = F.lit(None).cast("bigint")
    rows = rows.withColumn("_watermark", null_watermark).repartition(1).sortWithinPartitions("_position")
    rows = rows.mapInArrow(_watermark_mapper(table.idle, clock_state), rows.schema)
    # A partition that lags behind the watermark must not bring back rows that left by it.
    return rows.withColumn("_horizon", F.greatest("_horizon", F.col("_watermark") - lag))


def _watermark_mapper(idle_ms: int | None, clock_state: ClockState) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock = Clock(idle_ms, dict(clock_state.stream_times), dict(clock_state.order_times), clock_state.watermark)
        for batch in batches:
            watermarks = []
            parts, times = batch.column("_part").to_pylist(), batch.column("_horizon").to_pylist()
            for part, time, order_time in zip(parts, times, _order_times(batch), strict=True):
                if time is not None:  # the first records of `order_by` may have no order
                    clock.observe(part, time, order_time)
                watermarks.append(clock.watermark)
            column_index = batch.schema.get_field_index("_watermark")
            yield batch.set_column(column_index, batch.schema.field(column_index), pa.array(watermarks, pa.int64()))

    return run


def _order_times(batch: pa.RecordBatch) -> list[int]:
    position = batch.column("_position")
    order_times: list[int] = position.field("order_time").to_pylist()
    return order_times
