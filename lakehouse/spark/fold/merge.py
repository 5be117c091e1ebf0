"""Merges a folded batch into the rows of a table, in one commit: by Delta's MERGE, or in one pass if it is small."""

from __future__ import annotations

from functools import partial

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.plan.table import Table
from lakehouse.spark.fold.bounds import HeldFrame, is_within
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.jvm.table_rewrite import (
    CHANGE_TYPE,
    ROWS_MAX,
    RewrittenRows,
    TableRewriter,
    WriteNumber,
)
from lakehouse.spark.transaction import is_empty

ROWS_PER_FILE = 50_000
# The rows that are written for a key, by what becomes of its row (in the words of Delta's history): the old or the new
# row, as a row of the table (None) or as a kind of change in Delta's change data feed.
WRITTEN: dict[str, tuple[tuple[str, str | None], ...]] = {
    "Copied": (("old", None),),
    "Inserted": (("new", None), ("new", "insert")),
    "Updated": (("new", None), ("old", "update_preimage"), ("new", "update_postimage")),
    "Deleted": (("old", "delete"),),
}


class RowMerge:
    """How rows of a batch (s) go into a table (t): each replaces the row of its key. A fold may do something else."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def merged_columns(self, batch_rows: DataFrame, *, has_row: bool) -> dict[str, Column]:
        """Return a row's columns after the batch, but its key. has_row: whether the table has a row of that key."""
        return {
            name: F.col(f"s.`{name}`") for name in batch_rows.columns if name not in (*self.table.key, "_tombstone")
        }

    def inserted_columns(self, batch_rows: DataFrame) -> dict[str, Column]:
        """Return all columns of a row whose key the table does not have."""
        key_columns = {name: F.col(f"s.`{name}`") for name in self.table.key}
        return key_columns | self.merged_columns(batch_rows, has_row=False)

    def is_newer(self) -> Column | None:
        """Return the condition under which the batch's row counts if the table has one of its key; None for always."""
        return None


def merge_batch(
    spark: SparkSession,
    table_path: str,
    row_merge: RowMerge,
    batch: HeldFrame,
    number: WriteNumber,
    rewriter: TableRewriter,
    *,
    fresh: bool = False,
) -> None:
    """Merge rows into the table at `table_path`, in one commit of this number: `_tombstone` deletes a key.

    rewriter: of the same table. fresh: no key is in the table yet.
    """
    if fresh or is_empty(spark, table_path):
        _append_rows(spark, table_path, row_merge, batch)
    elif batch.count > ROWS_MAX or not rewriter.rewrite(spark, number, partial(_rewritten_rows, row_merge, batch)):
        _merge_rows(spark, table_path, row_merge, batch)


def _merge_rows(spark: SparkSession, table_path: str, row_merge: RowMerge, batch: HeldFrame) -> None:
    """Merge rows by Delta's MERGE."""
    table = row_merge.table
    condition = same_key(table.key, "t", "s") & is_within(batch.bounds, "t")
    merge_builder = DeltaTable.forPath(spark, table_path).alias("t").merge(batch.frame.alias("s"), condition)
    updated_columns = row_merge.merged_columns(batch.frame, has_row=True)
    inserted_columns = row_merge.inserted_columns(batch.frame)
    merge_builder = merge_builder.whenMatchedDelete("s._tombstone")
    merge_builder = merge_builder.whenMatchedUpdate(row_merge.is_newer(), set=_assignments(updated_columns))
    merge_builder.whenNotMatchedInsert("NOT s._tombstone", values=_assignments(inserted_columns)).execute()


def _rewritten_rows(row_merge: RowMerge, batch: HeldFrame, table_rows: DataFrame) -> RewrittenRows:
    """Return the rows of the table after the batch, and the changes: what `_merge_rows` leaves, by the same rules."""
    # Each side is one struct, so that no column has the name of another, and a missing row is a null.
    table_side = table_rows.select(F.struct("*").alias("t")).coalesce(1)
    batch_side = batch.frame.select(F.struct("*").alias("s")).coalesce(1)
    joined_rows = table_side.join(batch_side, same_key(row_merge.table.key, "t", "s"), "full_outer")
    is_missing, is_deleted = F.col("t").isNull(), F.col("s._tombstone")
    condition = row_merge.is_newer()
    change = (
        F.when(F.col("s").isNull(), "Copied")
        .when(is_missing, F.when(~is_deleted, "Inserted"))
        .when(is_deleted, "Deleted")
        .when(F.lit(True) if condition is None else condition, "Updated")
        .otherwise("Copied")
    )
    counts = Observation()
    judged_rows = joined_rows.withColumn("change", change)
    judged_rows = judged_rows.observe(counts, *[F.count_if(F.col("change") == name).alias(name) for name in WRITTEN])
    # A row that is only copied is computed from nothing: its accumulators may be large.
    inserted_row, updated_row = _written_rows(row_merge, batch, table_rows)
    new = F.when(F.col("change") == "Inserted", inserted_row).when(F.col("change") == "Updated", updated_row)
    rows_of_keys = judged_rows.select("change", F.col("t").alias("old"), new.alias("new"))
    kinds_of_rows = F.lit(None)
    for name, sides in WRITTEN.items():
        rows = [
            F.struct(F.lit(kind).cast("string").alias(CHANGE_TYPE), F.col(side).alias("row")) for side, kind in sides
        ]
        kinds_of_rows = F.when(F.col("change") == name, F.array(*rows)).otherwise(kinds_of_rows)
    written_rows = rows_of_keys.select(F.explode(kinds_of_rows).alias("written"))
    columns = [F.col(f"written.row.`{name}`").alias(name) for name in table_rows.columns]
    frame = written_rows.select(*columns, F.col(f"written.{CHANGE_TYPE}").alias(CHANGE_TYPE))
    return RewrittenRows(frame, counts, batch.count)


def _append_rows(spark: SparkSession, table_path: str, row_merge: RowMerge, batch: HeldFrame) -> None:
    """Append rows whose keys are new, in a third of the time of a MERGE."""
    table = row_merge.table
    table_schema = spark.read.format("delta").load(table_path).schema
    new_rows = batch.frame.alias("s").where("NOT s._tombstone")
    new_rows = new_rows.select(*_table_columns(table_schema, row_merge.inserted_columns(batch.frame)))
    if batch.count > ROWS_PER_FILE:
        # Neighbouring keys go into one file, above all the windows of one time: a later batch then rewrites few rows.
        new_rows = new_rows.orderBy(*table.windows, *table.group)
    new_rows.write.format("delta").mode("append").option("maxRecordsPerFile", ROWS_PER_FILE).save(table_path)


def _table_columns(table_schema: StructType, columns: dict[str, Column]) -> list[Column]:
    """Return a row's columns as the table has them, found by their names in any case; those that it lacks are null."""
    columns_by_name = {name.lower(): column for name, column in columns.items()}
    return [
        columns_by_name.get(field.name.lower(), F.lit(None)).cast(field.dataType).alias(field.name)
        for field in table_schema
    ]


def rows_after_merge(row_merge: RowMerge, batch: HeldFrame, table_rows: DataFrame) -> DataFrame:
    """Return the rows that a batch changes, and leaves there, as they stand after `merge_batch`."""
    table_side = table_rows.alias("t").where(is_within(batch.bounds, "t")).select(F.struct("t.*").alias("t"))
    batch_side = batch.frame.where(~F.col("_tombstone")).select(F.struct("*").alias("s"))
    joined_rows = batch_side.join(table_side, same_key(row_merge.table.key, "t", "s"), "left")
    condition = row_merge.is_newer()
    if condition is not None:
        joined_rows = joined_rows.where(F.col("t").isNull() | condition)
    inserted_row, updated_row = _written_rows(row_merge, batch, table_rows)
    written_row = F.when(F.col("t").isNull(), inserted_row).otherwise(updated_row)
    return joined_rows.select(written_row.alias("row")).select("row.*")


def _written_rows(row_merge: RowMerge, batch: HeldFrame, table_rows: DataFrame) -> tuple[Column, Column]:
    """Return what a key gets that has no row, and what one gets that has: structs over the sides `t` and `s`."""
    kept_columns = {name: F.col(f"t.`{name}`") for name in table_rows.columns}
    updated_columns = kept_columns | row_merge.merged_columns(batch.frame, has_row=True)
    inserted_row = F.struct(*_table_columns(table_rows.schema, row_merge.inserted_columns(batch.frame)))
    return inserted_row, F.struct(*_table_columns(table_rows.schema, updated_columns))


def rows_of_other_keys(column_names: tuple[str, ...], rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the rows whose key is not among the keys."""
    return rows.alias("b").join(keys.alias("m"), same_key(column_names, "b", "m"), "left_anti")


def _assignments(row: dict[str, Column]) -> dict[str, str | Column]:
    """Return a row for MERGE, which takes column names as SQL text: quoted, since a name may be a word of SQL."""
    return {f"`{name}`": column for name, column in row.items()}
