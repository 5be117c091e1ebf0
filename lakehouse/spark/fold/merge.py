"""Merges a folded batch into the rows of a table: one MERGE, one commit."""

from __future__ import annotations

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.plan.table import Table
from lakehouse.spark.fold.aggregates import Form, same_key
from lakehouse.spark.fold.bounds import HeldFrame, is_within
from lakehouse.spark.transaction import is_empty

ROWS_PER_FILE = 50_000


def merge_batch(
    spark: SparkSession,
    table_path: str,
    table: Table,
    batch: HeldFrame,
    forms: list[Form] | None = None,
    *,
    fresh: bool = False,
    by_decision: bool = False,
) -> None:
    """Merge rows into the table at `table_path`: `_tombstone` deletes a key, other rows replace their key's row.

    forms: for a batch folded in SQL, whose `_new_<name>` are added to the row instead. fresh: no key is in the table
    yet. by_decision: the batch is an intervention's, so that a row with an older order replaces a newer one, too.
    """
    if fresh or is_empty(spark, table_path):
        _append_rows(spark, table_path, table, batch, forms)
        return
    frame = batch.frame
    condition = same_key(table.key, "t", "s") & is_within(batch.bounds, "t")
    merge_builder = DeltaTable.forPath(spark, table_path).alias("t").merge(frame.alias("s"), condition)
    key_columns = {name: F.col(f"s.`{name}`") for name in table.key}
    if forms is None:
        batch_columns = {name: F.col(f"s.`{name}`") for name in frame.columns if name not in (*table.key, "_tombstone")}
        updated_columns, inserted_columns = batch_columns, batch_columns
    else:
        updated_columns, inserted_columns = _row_columns(frame, forms, "t"), _row_columns(frame, forms, None)
    is_newer = None
    if "_order" in frame.columns and not by_decision:
        is_newer = F.struct("s._order", "s._position") > F.struct("t._order", "t._position")
    is_deleted = f"s.{_delete_condition(frame)}"
    merge_builder = merge_builder.whenMatchedDelete(is_deleted).whenMatchedUpdate(
        is_newer, set=_assignments(updated_columns)
    )
    merge_builder.whenNotMatchedInsert(
        f"NOT ({is_deleted})", values=_assignments({**key_columns, **inserted_columns})
    ).execute()


def _append_rows(
    spark: SparkSession, table_path: str, table: Table, batch: HeldFrame, forms: list[Form] | None
) -> None:
    """Append rows whose keys are new, in a third of the time of a MERGE."""
    frame = batch.frame.where(f"NOT ({_delete_condition(batch.frame)})")
    new_rows = frame if forms is None else rows_after_batch(table, forms, frame)
    table_schema = spark.read.format("delta").load(table_path).schema
    new_rows = new_rows.select(
        *[F.col(f"`{field.name}`").cast(field.dataType).alias(field.name) for field in table_schema]
    )
    if batch.count > ROWS_PER_FILE:
        # Neighbouring keys go into one file, above all the windows of one time: a later batch then rewrites few rows.
        new_rows = new_rows.orderBy(*table.windows, *table.group)
    new_rows.write.format("delta").mode("append").option("maxRecordsPerFile", ROWS_PER_FILE).save(table_path)


def _delete_condition(frame: DataFrame) -> str:
    """Return the condition on rows that delete their key; in a state of `order_by` a delete is a row, the marker."""
    return "_order IS NULL" if "_order" in frame.columns else "_tombstone"


def _row_columns(frame: DataFrame, forms: list[Form], old_alias: str | None) -> dict[str, Column]:
    """Return the columns of an aggregate's row after the batch. old_alias: of the row before it; None for no row."""
    row: dict[str, Column] = {}
    for form in forms:
        old_accumulator = (
            F.col(f"{old_alias}.`{form.accumulator}`") if old_alias else F.lit(None).cast(form.accumulator_type)
        )
        new_accumulator = form.merge(old_accumulator, F.col(f"s.`_new_{form.name}`"))
        row[form.accumulator] = new_accumulator
        row[form.name] = form.visible_value(new_accumulator)
    event_time = F.col("s._event_time")
    row["_event_time"] = F.greatest(F.col(f"{old_alias}._event_time"), event_time) if old_alias else event_time
    row["_position"] = F.col("s._position")
    return row


def rows_after_batch(
    table: Table, forms: list[Form], batch: DataFrame, rows_before: DataFrame | None = None
) -> DataFrame:
    """Return the rows that a batch folded in SQL touches, after it. rows_before: None for none."""
    joined_rows = batch.alias("s")
    if rows_before is not None:
        joined_rows = joined_rows.join(rows_before.alias("t"), same_key(table.key, "t", "s"), "left")
    aggregate_columns = [
        column.alias(name)
        for name, column in _row_columns(batch, forms, "t" if rows_before is not None else None).items()
    ]
    return joined_rows.select(*[F.col(f"s.`{name}`") for name in table.key], *aggregate_columns)


def overlay_rows(table: Table, rows_before: DataFrame | None, new_rows: DataFrame) -> DataFrame:
    """Return the rows after a batch: `rows_before`, but a key in `new_rows` has that row, or none if `_tombstone`."""
    if rows_before is None:
        return new_rows.where(~F.col("_tombstone")).drop("_tombstone")
    # One join, since `new_rows` is bronze decoded and folded: a union with an anti-join would do that twice.
    new_rows = new_rows.withColumn("_made", F.lit(True))
    joined_rows = rows_before.alias("b").join(new_rows.alias("m"), same_key(table.key, "b", "m"), "full_outer")
    joined_rows = joined_rows.where(~F.coalesce("m._tombstone", F.lit(False)))
    has_new_row = F.col("m._made").isNotNull()
    return joined_rows.select(
        *[
            F.when(has_new_row, F.col(f"m.`{name}`")).otherwise(F.col(f"b.`{name}`")).alias(name)
            for name in rows_before.columns
        ]
    )


def rows_of_other_keys(column_names: tuple[str, ...], rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the rows whose key is not among the keys."""
    return rows.alias("b").join(keys.alias("m"), same_key(column_names, "b", "m"), "left_anti")


def newest_rows(table: Table, rows_before: DataFrame, new_rows: DataFrame) -> DataFrame:
    """Return a state of `order_by` after a batch: for each key the row with the largest order."""
    all_rows = rows_before.unionByName(new_rows)
    row_struct = F.struct(*[f"`{name}`" for name in rows_before.columns if name not in table.key])
    last_row = F.max_by(row_struct, F.struct("_order", "_position")).alias("_last")
    return all_rows.groupBy(*table.key).agg(last_row).select(*table.key, "_last.*")


def _assignments(row: dict[str, Column]) -> dict[str, str | Column]:
    """Return a row for MERGE, which takes column names as SQL text: quoted, since a name may be a word of SQL."""
    return {f"`{name}`": column for name, column in row.items()}
