"""Merges a folded batch into the rows of a table: one MERGE, one commit."""

from __future__ import annotations

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.plan.table import Table
from lakehouse.spark.operators.aggregates import Form, same_key
from lakehouse.spark.operators.bounds import Held, within
from lakehouse.spark.transaction import is_empty

ROWS_PER_FILE = 50_000


def merge(
    spark: SparkSession,
    path: str,
    table: Table,
    batch: Held,
    forms: list[Form] | None = None,
    *,
    fresh: bool = False,
    decided: bool = False,
) -> None:
    """Merge rows into the table at `path`: a row with `_tombstone` deletes its key, others replace their key's row.

    forms: for a batch folded in SQL, whose `_new_<name>` are added to the row instead. fresh: no key is in the table
    yet. decided: the batch is an intervention's, so that a row with an older order replaces a newer one, too.
    """
    if fresh or is_empty(spark, path):
        _append(spark, path, table, batch, forms)
        return
    frame = batch.frame
    condition = same_key(table.key, "t", "s") & within(batch.bounds, "t")
    merging = DeltaTable.forPath(spark, path).alias("t").merge(frame.alias("s"), condition)
    key = {name: F.col(f"s.`{name}`") for name in table.key}
    if forms is None:
        row = {name: F.col(f"s.`{name}`") for name in frame.columns if name not in (*table.key, "_tombstone")}
        updated, inserted = row, row
    else:
        updated, inserted = _row(frame, forms, "t"), _row(frame, forms, None)
    newer = None
    if "_order" in frame.columns and not decided:
        newer = F.struct("s._order", "s._position") > F.struct("t._order", "t._position")
    gone = f"s.{_gone(frame)}"
    merging = merging.whenMatchedDelete(gone).whenMatchedUpdate(newer, set=_set(updated))
    merging.whenNotMatchedInsert(f"NOT ({gone})", values=_set({**key, **inserted})).execute()


def _append(spark: SparkSession, path: str, table: Table, batch: Held, forms: list[Form] | None) -> None:
    """Append rows whose keys are new: this takes a third of the time of a MERGE."""
    frame = batch.frame.where(f"NOT ({_gone(batch.frame)})")
    made = frame if forms is None else rows(table, forms, frame)
    columns = spark.read.format("delta").load(path).schema
    made = made.select(*[F.col(f"`{field.name}`").cast(field.dataType).alias(field.name) for field in columns])
    if batch.count > ROWS_PER_FILE:
        # Neighbouring keys go into one file, above all the windows of one time: a later batch then rewrites few rows.
        made = made.orderBy(*table.windows, *table.group)
    made.write.format("delta").mode("append").option("maxRecordsPerFile", ROWS_PER_FILE).save(path)


def _gone(frame: DataFrame) -> str:
    """Which rows of a batch delete their key; in a state of `order_by` a delete is a row, the marker."""
    return "_order IS NULL" if "_order" in frame.columns else "_tombstone"


def _row(frame: DataFrame, forms: list[Form], old: str | None) -> dict[str, Column]:
    """The columns of an aggregate's row after the batch; `old` is the alias of the row before it, if there is one."""
    row: dict[str, Column] = {}
    for form in forms:
        before = F.col(f"{old}.`{form.accumulator}`") if old else F.lit(None).cast(form.accumulator_type)
        total = form.merged(before, F.col(f"s.`_new_{form.name}`"))
        row[form.accumulator] = total
        row[form.name] = form.shown(total)
    time = F.col("s._event_time")
    row["_event_time"] = F.greatest(F.col(f"{old}._event_time"), time) if old else time
    row["_position"] = F.col("s._position")
    return row


def rows(table: Table, forms: list[Form], batch: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """Return the rows that a batch folded in SQL touches, after it. before: the rows before it (None: no rows)."""
    both = batch.alias("s")
    if before is not None:
        both = both.join(before.alias("t"), same_key(table.key, "t", "s"), "left")
    made = [column.alias(name) for name, column in _row(batch, forms, "t" if before is not None else None).items()]
    return both.select(*[F.col(f"s.`{name}`") for name in table.key], *made)


def overlaid(table: Table, before: DataFrame | None, made: DataFrame) -> DataFrame:
    """Return rows after a batch: those `before` it, but keys in `made` have its row, or none if `_tombstone`."""
    if before is None:
        return made.where(~F.col("_tombstone")).drop("_tombstone")
    # One join, since `made` is bronze decoded and folded: a union with an anti-join would do that twice.
    made = made.withColumn("_made", F.lit(True))
    both = before.alias("b").join(made.alias("m"), same_key(table.key, "b", "m"), "full_outer")
    both = both.where(~F.coalesce("m._tombstone", F.lit(False)))
    taken = F.col("m._made").isNotNull()
    return both.select(
        *[F.when(taken, F.col(f"m.`{name}`")).otherwise(F.col(f"b.`{name}`")).alias(name) for name in before.columns]
    )


def others(names: tuple[str, ...], rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the rows whose key is not among the keys."""
    return rows.alias("b").join(keys.alias("m"), same_key(names, "b", "m"), "left_anti")


def newest(table: Table, before: DataFrame, made: DataFrame) -> DataFrame:
    """Return a state of `order_by` after a batch: of each key the row with the largest order."""
    both = before.unionByName(made)
    row = F.struct(*[f"`{name}`" for name in before.columns if name not in table.key])
    last = F.max_by(row, F.struct("_order", "_position")).alias("_last")
    return both.groupBy(*table.key).agg(last).select(*table.key, "_last.*")


def _set(row: dict[str, Column]) -> dict[str, str | Column]:
    """A row for MERGE, whose columns are SQL text: a name may be a word of SQL."""
    return {f"`{name}`": column for name, column in row.items()}
