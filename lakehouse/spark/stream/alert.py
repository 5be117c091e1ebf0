"""Alerts on Spark: the changes of a table at which its row crosses a condition, as records.

The rules are those of `lakehouse.model.alert`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.alert import Crossings
from lakehouse.spark.expressions import column_of
from lakehouse.spark.stream.joined import Tables
from lakehouse.spark.stream.rows import changes, there, with_before


def crossings(alert: Crossings, tables: Tables) -> DataFrame:
    """Return the crossings of a table's changes, in the form of a stream's frame."""
    table = alert.table
    frame = with_before(table, tables.held(changes(table, tables)), tables)
    for row in ("_was", "_row"):
        frame = _judged(alert, frame, row)
    found = F.when(~F.col("_was_meets") & F.col("_row_meets"), "enter")
    found = found.when(F.col("_was_meets") & ~F.col("_row_meets"), "leave")
    frame = frame.withColumn("_crossing", found)
    wanted = ("enter", "leave") if alert.on == "both" else (alert.on,)
    return frame.where(F.col("_crossing").isin(*wanted)).select(
        *[F.col(f"`{name}`") for name in table.key], F.lit(alert.alert).alias("alert"),
        F.col("_crossing").alias("crossing"), _values("_was", table.values).alias("before"),
        _values("_row", table.values).alias("after"),
        F.concat(F.lit(f"{alert.alert}/"), _text(F.col("_at"))).alias("alert_id"),
        F.lit(False).alias("_tombstone"), F.lit(False).alias("_null_key"), F.col("_at").alias("_position"),
        F.lit("").alias("_topic_id"), F.col("_row.time").alias("rowtime"), F.col("_at.partition").alias("rowpartition"),
        F.col("_at.offset").alias("rowoffset"),
    )  # fmt: skip


def _judged(alert: Crossings, frame: DataFrame, row: str) -> DataFrame:
    """The frame with the column `<row>_meets`: whether there is a row, and the condition is true of it."""
    values = alert.table.values
    frame = frame.select("*", *[F.col(f"{row}.values.`{name}`").alias(name) for name in values])
    meets = there(F.col(row)) & F.coalesce(column_of(alert.when), F.lit(False))
    return frame.withColumn(f"{row}_meets", meets).drop(*values)


def _values(row: str, names: Sequence[str]) -> Column:
    """The values of a row, null without one. A count is never null, but where there is no row it has no value."""
    is_there = there(F.col(row))
    values = [F.when(is_there, F.col(f"{row}.values.`{name}`")).alias(name) for name in names]
    return F.when(is_there, F.struct(*values))


def _text(at: Column) -> Column:
    """A position as text: see `Position.text`."""
    place = [at[name].cast("string") for name in ("tick", "topic", "partition", "offset")]
    return F.concat_ws("/", *place, F.array_join(at["ordinals"].cast("array<string>"), "."))
