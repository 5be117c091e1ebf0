"""Joins records with a small table that Spark sends whole to every task (rule 23): the records stay where they are.

The result is that of `lakehouse.spark.stream.table_join`: each row of the table comes with the places between which it
exists, and a record finds the row of its key that exists at its own place.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.origin import TableJoin
from lakehouse.spark.stream.table_join import ORDER, PLACE, UpstreamTables, split_column_names, with_join_key


def join_broadcast(join: TableJoin, records: DataFrame, tables: UpstreamTables) -> DataFrame:
    """Return a stream's records with the columns of the row that the table has when each of them arrives."""
    value_names = list(join.table.values)
    added_names = [(name, join.prefix + name) for name in value_names]
    visible_names, own_names = split_column_names(records)
    records, on_columns = with_join_key(join, records)
    records = records.withColumn("_place", F.struct(*[F.col(f"_position.{name}") for name in PLACE])).alias("r")
    rows = F.broadcast(_rows_with_lifetimes(join, tables, on_columns, value_names)).alias("b")
    record_place = F.col("r._place")
    is_there = F.col("b._from").isNull() | (F.col("b._from") <= record_place)
    is_there &= F.col("b._until").isNull() | (record_place < F.col("b._until"))
    same_key = [F.col(f"r.{name}") == F.col(f"b.{name}") for name in on_columns]  # a null equals no key
    joined_rows = records.join(
        rows, reduce(and_, [*same_key, is_there]), "left" if join.join_type == "left" else "inner"
    )
    row_columns = [F.col(f"b._row.`{a}`").alias(b) for a, b in added_names]
    if join.indicator:
        row_columns.append(F.when(F.col("b._row").isNotNull(), "both").otherwise("left").alias(join.indicator))
    return joined_rows.select(
        *[F.col(f"r.`{name}`") for name in visible_names], *row_columns,
        *[F.col(f"r.{name}") for name in own_names],
    )  # fmt: skip


def _rows_with_lifetimes(
    join: TableJoin, tables: UpstreamTables, on_columns: list[str], value_names: list[str]
) -> DataFrame:
    """Return the table's rows before the batch and after each change: `_row`, there from `_from` until `_until`."""
    table = join.table
    change_place = F.struct(*[F.col(f"_position.{name}") for name in PLACE])
    rows = tables.changes(table).withColumn("_from", change_place)
    if (earlier_rows := tables.rows(table, None)) is not None:
        null_place = F.lit(None).cast(dict(rows.dtypes)["_from"])
        earlier_rows = earlier_rows.withColumns({"_from": null_place, "_tombstone": F.lit(False), "_number": F.lit(0)})
        rows = rows.unionByName(earlier_rows, allowMissingColumns=True)
    key_columns = [F.col(f"`{name}`").alias(on_column) for name, on_column in zip(table.key, on_columns, strict=True)]
    ordinals = F.col("_position.ordinals").alias("_ordinals")
    rows = rows.select(*key_columns, F.struct(*value_names).alias("_row"), "_from", ordinals, "_number", "_tombstone")
    place_order = Window.partitionBy(*on_columns).orderBy(F.col("_from").asc_nulls_first(), *ORDER)
    rows = rows.withColumn("_until", F.lead("_from").over(place_order))
    return rows.where(~F.col("_tombstone")).drop("_tombstone", *ORDER)
