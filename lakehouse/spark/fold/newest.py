"""Deletes that are newer than all that came before them, on Spark: see `lakehouse.semantics.tombstone.order_of_newest`.

Such a delete gets the largest order that its key had before it; then `order_by` treats it like any other record.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.operator import LatestBy
from lakehouse.plan.table import Table
from lakehouse.spark.fold.aggregates import same_key


def deletes_in_order(table: Table, arrived_records: DataFrame, rows: DataFrame | None = None) -> DataFrame:
    """Return arrived records, whose deletes get the order that decides; records with `_late` do not count.

    rows: those that the table keeps; None if it keeps none, or if they are among the records, with a null `_position`.
    Nothing changes for a table whose deletes have an order of their own.
    """
    if not isinstance(table.fold, LatestBy) or not table.fold.is_always_deleted:
        return arrived_records
    own_order = F.when(~F.col("_late"), F.col("_order")) if "_late" in arrived_records.columns else F.col("_order")
    so_far = Window.partitionBy(*table.key).orderBy(F.col("_position").asc_nulls_first())
    so_far = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    order_before = F.max(own_order).over(so_far)
    column_names = arrived_records.columns
    if rows is not None:
        kept_orders = rows.select(*table.key, F.col("_order").alias("_order_before")).alias("t")
        arrived_records = arrived_records.alias("a").join(kept_orders, same_key(table.key, "a", "t"), "left")
        arrived_records = arrived_records.select("a.*", "t._order_before")
        order_before = F.greatest(order_before, "_order_before")
    is_delete = F.col("_tombstone") & F.col("_position").isNotNull()
    return arrived_records.withColumn("_order", F.when(is_delete, order_before).otherwise(F.col("_order"))).select(
        *column_names
    )
