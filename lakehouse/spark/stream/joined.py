"""Streams that read tables, on Spark: a table's changes as records, and records joined with a table's rows.

The rules are those of `lakehouse.model.joined`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Protocol

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.origin import TableJoin
from lakehouse.plan.schema import ORDINALS_TYPE, PSEUDO_COLUMNS
from lakehouse.plan.table import Table
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.stream.as_of import found_as_of
from lakehouse.spark.stream.step import numbered

# A record's position without its ordinals: a change of a table by the same record comes before it.
PLACE = ("tick", "order_time", "topic", "partition", "offset")
# The order of the changes that one record makes: by a fan-out, or when it is exploded, it changes a row several times.
ORDER = ("_ordinals", "_number")


class Tables(Protocol):
    """The tables that a stream reads, between two ticks."""

    def changes(self, table: Table) -> DataFrame:
        """Return a table's changes per event: its columns, `_tombstone`, `_event_time_ms`, `_position`, `_number`.

        _number: counts the changes at one position, from 0.
        """

    def rows(self, table: Table, keys: DataFrame | None) -> DataFrame | None:
        """Return the visible rows of these keys, or of all, before the first of the ticks; None if there are none."""

    def history(self, table: Table, keys: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """Return all changes of these keys up to the last of the ticks, as `changes` does, and the rows before them."""

    def held(self, frame: DataFrame) -> DataFrame:
        """Return a frame that is read several times: its result is held in memory as long as it is used."""


def changes_as_records(table: Table, changes: DataFrame) -> DataFrame:
    """Return a table's changes in the form of a stream's frame."""
    return changes.select(
        *[column.name for column in table.columns], "_tombstone", F.lit(False).alias("_null_key"),
        numbered(F.col("_number")).alias("_position"), F.lit("").alias("_topic_id"),
        F.col("_event_time_ms").alias("rowtime"), F.col("_position.partition").alias("rowpartition"),
        F.col("_position.offset").alias("rowoffset"),
    )  # fmt: skip


def joined(join: TableJoin, records: DataFrame, tables: Tables) -> DataFrame:
    """Return a stream's records with the columns of the row that the table has when each of them arrives.

    Or, if the join says so, of the row that it had at the record's event time.
    """
    table = join.table
    names = list(table.values)
    added = [join.prefix + name for name in names]
    shown = [name for name in records.columns if not name.startswith("_") and name not in PSEUDO_COLUMNS]
    own = [name for name in records.columns if name not in shown]
    on = [f"_on_{number}" for number in range(len(table.key))]
    records = records.where(~F.col("_tombstone"))
    records = records.withColumns(dict(zip(on, computed_keys(records, list(join.on)), strict=True)))
    no_key = reduce(or_, [F.col(name).isNull() for name in on])
    alone = records.where(no_key) if join.how == "left" else None  # a null equals no key
    records = records.where(~no_key)
    keys = records.select(*[F.col(a).alias(b) for a, b in zip(on, table.key, strict=True)])
    by_time = join.as_of == "event time"
    changes, before = tables.history(table, keys) if by_time else (tables.changes(table), tables.rows(table, keys))
    place = F.struct(*[F.col(f"_position.{name}") for name in PLACE])
    sides = [_side(table, changes.withColumn("_time", F.col("_event_time_ms")), on, names, place)]
    if before is not None:
        time = F.unix_millis("_event_time")
        before = before.withColumns({"_tombstone": F.lit(False), "_number": F.lit(0), "_time": time})
        nowhere = F.lit(None).cast(dict(sides[0].dtypes)["_place"])
        sides.append(_side(table, before, on, names, nowhere))
    left = records.select(
        *on, place.alias("_place"), F.lit(1).alias("_side"), F.lit(None).cast(ORDINALS_TYPE).alias("_ordinals"),
        F.lit(0).alias("_number"), F.col("rowtime").alias("_time"), F.struct(*shown, *own).alias("_record"),
    )  # fmt: skip
    both = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), [left, *sides])
    found = found_as_of(both, on) if by_time else _found(both, on)
    there = F.coalesce(F.col("_found._there"), F.lit(False))
    if join.how == "inner":
        found = found.where(there)
    row = [F.when(there, F.col(f"_found._row.`{a}`")).alias(b) for a, b in zip(names, added, strict=True)]
    if join.indicator:
        row.append(F.when(there, "both").otherwise("left").alias(join.indicator))
    made = found.select(*[F.col(f"_record.`{name}`") for name in shown], *row, *[F.col(f"_record.{n}") for n in own])
    if alone is None:
        return made
    kinds = dict(made.dtypes)
    nulls = [F.lit(None).cast(kinds[name]).alias(name) for name in added]
    nulls += [F.lit("left").alias(join.indicator)] if join.indicator else []
    return made.unionByName(alone.select(*shown, *nulls, *own))


def _found(both: DataFrame, on: list[str]) -> DataFrame:
    """The records, with the last change of their key that came before each, `_found`."""
    order = Window.partitionBy(*on).orderBy(F.col("_place").asc_nulls_first(), "_side", *ORDER)
    order = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return both.withColumn("_found", F.last("_is", ignorenulls=True).over(order)).where("_side = 1")


def _side(table: Table, rows: DataFrame, on: list[str], names: list[str], place: Column) -> DataFrame:
    """The table's side of a join: its rows, each with its place in the order of the records."""
    row = F.struct((~F.col("_tombstone")).alias("_there"), F.struct(*names).alias("_row"))
    keys = [F.col(name).alias(of) for name, of in zip(table.key, on, strict=True)]
    return rows.select(
        *keys, place.alias("_place"), F.lit(0).alias("_side"), F.col("_position.ordinals").alias("_ordinals"),
        "_number", "_time", row.alias("_is"),
    )  # fmt: skip
