"""Alerts on Spark: the changes of a table at which its row crosses a condition, as records.

The rules are those of `lakehouse.model.alert`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.alert import Crossings
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.stream.rows import read_changes, row_exists, with_row_before
from lakehouse.spark.stream.table_join import UpstreamTables


def find_crossings(alert: Crossings, tables: UpstreamTables) -> DataFrame:
    """Return the changes of a table that cross the alert's condition, in the form of a stream's frame."""
    table = alert.table
    frame = with_row_before(table, tables.hold(read_changes(table, tables)), tables)
    for row in ("_was", "_row"):
        frame = _with_condition(alert, frame, row)
    direction = F.when(~F.col("_was_meets") & F.col("_row_meets"), "enter")
    direction = direction.when(F.col("_was_meets") & ~F.col("_row_meets"), "leave")
    frame = frame.withColumn("_crossing", direction)
    directions = ("enter", "leave") if alert.direction == "both" else (alert.direction,)
    return frame.where(F.col("_crossing").isin(*directions)).select(
        *[F.col(f"`{name}`") for name in table.key], F.lit(alert.alert).alias("alert"),
        F.col("_crossing").alias("crossing"), _row_values("_was", table.values).alias("before"),
        _row_values("_row", table.values).alias("after"),
        F.concat(F.lit(f"{alert.alert}/"), _format_position(F.col("_at"))).alias("alert_id"),
        F.lit(False).alias("_tombstone"), F.lit(False).alias("_null_key"), F.col("_at").alias("_position"),
        F.lit("").alias("_topic_id"), F.col("_row.time").alias("rowtime"), F.col("_at.partition").alias("rowpartition"),
        F.col("_at.offset").alias("rowoffset"),
    )  # fmt: skip


def _with_condition(alert: Crossings, frame: DataFrame, row: str) -> DataFrame:
    """Return the frame with the column `<row>_meets`: whether the row exists and meets the condition."""
    value_names = alert.table.values
    frame = frame.select("*", *[F.col(f"{row}.values.`{name}`").alias(name) for name in value_names])
    meets_condition = row_exists(F.col(row)) & F.coalesce(column_of(alert.when), F.lit(False))
    return frame.withColumn(f"{row}_meets", meets_condition).drop(*value_names)


def _row_values(row: str, names: Sequence[str]) -> Column:
    """Return the values of a row; null where there is no row, also for a count, which is never null in a row."""
    is_there = row_exists(F.col(row))
    value_columns = [F.when(is_there, F.col(f"{row}.values.`{name}`")).alias(name) for name in names]
    return F.when(is_there, F.struct(*value_columns))


def _format_position(position: Column) -> Column:
    """Return a position as text: see `Position.text`."""
    place_parts = [position[name].cast("string") for name in ("tick", "topic", "partition", "offset")]
    return F.concat_ws("/", *place_parts, F.array_join(position["ordinals"].cast("array<string>"), "."))
