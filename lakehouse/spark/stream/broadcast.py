"""Records joined with a small table that is sent to every task whole (rule 23): the records stay where they are.

The result is that of `lakehouse.spark.stream.joined`: each row of the table goes with the places between which it
is there, and a record finds the row of its key that is there at its own place.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.origin import TableJoin
from lakehouse.plan.schema import PSEUDO_COLUMNS
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.stream.joined import ORDER, PLACE, Tables


def joined_everywhere(join: TableJoin, records: DataFrame, tables: Tables) -> DataFrame:
    """Return a stream's records with the columns of the row that the table has when each of them arrives."""
    names = list(join.table.values)
    added = [(name, join.prefix + name) for name in names]
    shown = [name for name in records.columns if not name.startswith("_") and name not in PSEUDO_COLUMNS]
    own = [name for name in records.columns if name not in shown]
    on = [f"_on_{number}" for number in range(len(join.table.key))]
    records = records.where(~F.col("_tombstone"))
    records = records.withColumns(dict(zip(on, computed_keys(records, list(join.on)), strict=True)))
    records = records.withColumn("_place", F.struct(*[F.col(f"_position.{name}") for name in PLACE])).alias("r")
    rows = F.broadcast(_lasting(join, tables, on, names)).alias("b")
    place = F.col("r._place")
    there = F.col("b._from").isNull() | (F.col("b._from") <= place)
    there &= F.col("b._until").isNull() | (place < F.col("b._until"))
    same = [F.col(f"r.{name}") == F.col(f"b.{name}") for name in on]  # a null equals no key
    found = records.join(rows, reduce(and_, [*same, there]), "left" if join.how == "left" else "inner")
    row = [F.col(f"b._row.`{a}`").alias(b) for a, b in added]
    if join.indicator:
        row.append(F.when(F.col("b._row").isNotNull(), "both").otherwise("left").alias(join.indicator))
    return found.select(
        *[F.col(f"r.`{name}`") for name in shown], *row,
        *[F.col(f"r.{name}") for name in own],
    )  # fmt: skip


def _lasting(join: TableJoin, tables: Tables, on: list[str], names: list[str]) -> DataFrame:
    """The table's rows, before the batch and after each change in it: `_row`, there from `_from` to before `_until`."""
    table = join.table
    place = F.struct(*[F.col(f"_position.{name}") for name in PLACE])
    rows = tables.changes(table).withColumn("_from", place)
    if (before := tables.rows(table, None)) is not None:
        nowhere = F.lit(None).cast(dict(rows.dtypes)["_from"])
        before = before.withColumns({"_from": nowhere, "_tombstone": F.lit(False), "_number": F.lit(0)})
        rows = rows.unionByName(before, allowMissingColumns=True)
    keys = [F.col(f"`{name}`").alias(of) for name, of in zip(table.key, on, strict=True)]
    ordinals = F.col("_position.ordinals").alias("_ordinals")
    rows = rows.select(*keys, F.struct(*names).alias("_row"), "_from", ordinals, "_number", "_tombstone")
    order = Window.partitionBy(*on).orderBy(F.col("_from").asc_nulls_first(), *ORDER)
    rows = rows.withColumn("_until", F.lead("_from").over(order))
    return rows.where(~F.col("_tombstone")).drop("_tombstone", *ORDER)
