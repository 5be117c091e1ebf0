"""The changes that a table's operators let through, out of the changes of the rows that it keeps."""

from __future__ import annotations

from functools import singledispatch

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.operator import Having, Operator, Suppress
from lakehouse.plan.table import Table
from lakehouse.spark.content import row_image
from lakehouse.spark.fold.visibility import is_qualifying


@singledispatch
def filter_changes(operator: Operator, table: Table, changes: DataFrame) -> DataFrame:
    """Return the changes that an operator lets through, out of the changes of the kept rows."""
    return changes


@filter_changes.register
def _filter_by_having(operator: Having, table: Table, changes: DataFrame) -> DataFrame:
    """Turn the change by which a row stops qualifying into a tombstone; drop rows that never qualified (rule 11)."""
    qualifies = ~F.col("_tombstone") & is_qualifying(operator)
    changes = changes.withColumn("_qualifies", qualifies)
    changes = changes.withColumn("_did", F.coalesce(_value_before(table, F.col("_qualifies"), changes), F.lit(False)))
    is_kept = F.col("_qualifies") | F.col("_did") | F.col("_position").isNull()
    changes = changes.where(is_kept).withColumn("_tombstone", ~F.col("_qualifies"))
    return changes.drop("_qualifies", "_did")


@filter_changes.register
def _filter_suppressed(operator: Suppress, table: Table, changes: DataFrame) -> DataFrame:
    """Leave out the changes that change no visible column."""
    value_columns = [name for name in changes.columns if not name.startswith("_") and name not in table.key]
    changes = changes.withColumn("_image", F.when(~F.col("_tombstone"), row_image(changes, value_columns)))
    is_same = F.col("_image").eqNullSafe(_value_before(table, F.col("_image"), changes))
    return (
        changes.withColumn("_same", is_same)
        .where(~F.col("_same") | F.col("_position").isNull())
        .drop("_image", "_same")
    )


def _value_before(table: Table, value: Column, changes: DataFrame) -> Column:
    steps = [F.col("_step")] if "_step" in changes.columns else []
    return F.lag(value).over(Window.partitionBy(*table.key).orderBy(F.col("_position").asc_nulls_first(), *steps))
