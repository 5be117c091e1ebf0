"""When windows close: final results appear at the position of the record that moved the watermark past their end."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.table import Table
from lakehouse.semantics.time.clock import ClockState
from lakehouse.spark.fold.visibility import closes_after


def closed_windows(table: Table, window_rows: DataFrame, arrived_records: DataFrame, clock: ClockState) -> DataFrame:
    """Return the windows that arrived records closed, each with the closing record's `_position`.

    window_rows: a row a window, with window_end. arrived_records: with `_watermark`. clock: its state before them.
    """
    window_rows = window_rows.withColumn("_when", F.unix_millis("window_end") + closes_after(table))
    if clock.watermark is not None:
        window_rows = window_rows.where(F.col("_when") > clock.watermark)
    passed_watermarks = arrived_records.groupBy(F.col("_watermark").alias("_when")).agg(F.min("_position").alias("_at"))
    # From the latest time down: the last watermark above a window's end is the first that passed it.
    time_order = Window.orderBy(F.desc("_when"), F.col("_at").asc_nulls_last())
    time_order = time_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    combined_rows = passed_watermarks.unionByName(window_rows, allowMissingColumns=True)
    closed_rows = combined_rows.withColumn("_position", F.last("_at", ignorenulls=True).over(time_order))
    return closed_rows.where("window_end IS NOT NULL AND _position IS NOT NULL").drop("_when", "_at")
