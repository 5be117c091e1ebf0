"""Deletes that are newer than whatever came before them, on Spark: see `lakehouse.semantics.tombstone.order_of_newest`.

Such a delete gets the largest order that its key has had before it: then it is one of `order_by` like any other.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.operator import LatestBy
from lakehouse.plan.table import Table
from lakehouse.spark.operators.aggregates import same_key


def deletes_in_order(table: Table, arrived: DataFrame, rows: DataFrame | None = None) -> DataFrame:
    """Return arrived records, whose deletes then have the order that decides; `_late` ones, if told, do not count.

    rows: what the table keeps; None if nothing, or if its rows are among the records, with a null `_position`. Nothing
    changes for a table whose deletes have an order of their own.
    """
    if not isinstance(table.fold, LatestBy) or not table.fold.is_always_deleted:
        return arrived
    own = F.when(~F.col("_late"), F.col("_order")) if "_late" in arrived.columns else F.col("_order")
    so_far = Window.partitionBy(*table.key).orderBy(F.col("_position").asc_nulls_first())
    so_far = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = F.max(own).over(so_far)
    names = arrived.columns
    if rows is not None:
        kept = rows.select(*table.key, F.col("_order").alias("_order_before")).alias("t")
        arrived = arrived.alias("a").join(kept, same_key(table.key, "a", "t"), "left")
        arrived = arrived.select("a.*", "t._order_before")
        before = F.greatest(before, "_order_before")
    is_delete = F.col("_tombstone") & F.col("_position").isNotNull()
    return arrived.withColumn("_order", F.when(is_delete, before).otherwise(F.col("_order"))).select(*names)
