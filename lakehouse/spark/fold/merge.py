"""Merges a folded batch into the rows of a table: one MERGE, one commit."""

from __future__ import annotations

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.plan.table import Table
from lakehouse.spark.fold.aggregates import same_key
from lakehouse.spark.fold.bounds import HeldFrame, is_within
from lakehouse.spark.transaction import is_empty

ROWS_PER_FILE = 50_000


class RowMerge:
    """How rows of a batch (s) go into a table (t): each replaces the row of its key. A fold may do something else."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def merged_columns(self, batch_rows: DataFrame, *, has_row: bool) -> dict[str, Column]:
        """Return a row's columns after the batch, but its key. has_row: whether the table has a row of that key."""
        return {
            name: F.col(f"s.`{name}`") for name in batch_rows.columns if name not in (*self.table.key, "_tombstone")
        }

    def is_newer(self) -> Column | None:
        """Return the condition under which the batch's row counts if the table has one of its key; None for always."""
        return None


def merge_batch(
    spark: SparkSession, table_path: str, row_merge: RowMerge, batch: HeldFrame, *, fresh: bool = False
) -> None:
    """Merge rows into the table at `table_path`: `_tombstone` deletes a key. fresh: no key is in the table yet."""
    if fresh or is_empty(spark, table_path):
        _append_rows(spark, table_path, row_merge, batch)
        return
    table = row_merge.table
    condition = same_key(table.key, "t", "s") & is_within(batch.bounds, "t")
    merge_builder = DeltaTable.forPath(spark, table_path).alias("t").merge(batch.frame.alias("s"), condition)
    key_columns = {name: F.col(f"s.`{name}`") for name in table.key}
    updated_columns = row_merge.merged_columns(batch.frame, has_row=True)
    inserted_columns = key_columns | row_merge.merged_columns(batch.frame, has_row=False)
    merge_builder = merge_builder.whenMatchedDelete("s._tombstone")
    merge_builder = merge_builder.whenMatchedUpdate(row_merge.is_newer(), set=_assignments(updated_columns))
    merge_builder.whenNotMatchedInsert("NOT s._tombstone", values=_assignments(inserted_columns)).execute()


def _append_rows(spark: SparkSession, table_path: str, row_merge: RowMerge, batch: HeldFrame) -> None:
    """Append rows whose keys are new, in a third of the time of a MERGE."""
    table = row_merge.table
    key_columns = [F.col(f"s.`{name}`") for name in table.key]
    row_columns = row_merge.merged_columns(batch.frame, has_row=False).items()
    new_rows = batch.frame.alias("s").where("NOT s._tombstone")
    new_rows = new_rows.select(*key_columns, *[column.alias(name) for name, column in row_columns])
    table_schema = spark.read.format("delta").load(table_path).schema
    new_rows = new_rows.select(
        *[F.col(f"`{field.name}`").cast(field.dataType).alias(field.name) for field in table_schema]
    )
    if batch.count > ROWS_PER_FILE:
        # Neighbouring keys go into one file, above all the windows of one time: a later batch then rewrites few rows.
        new_rows = new_rows.orderBy(*table.windows, *table.group)
    new_rows.write.format("delta").mode("append").option("maxRecordsPerFile", ROWS_PER_FILE).save(table_path)


def rows_of_other_keys(column_names: tuple[str, ...], rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the rows whose key is not among the keys."""
    return rows.alias("b").join(keys.alias("m"), same_key(column_names, "b", "m"), "left_anti")


def _assignments(row: dict[str, Column]) -> dict[str, str | Column]:
    """Return a row for MERGE, which takes column names as SQL text: quoted, since a name may be a word of SQL."""
    return {f"`{name}`": column for name, column in row.items()}
