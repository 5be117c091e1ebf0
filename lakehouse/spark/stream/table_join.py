"""Streams that read tables, on Spark: gives a table's changes as records, and joins records with a table's rows.

The rules are those of `lakehouse.model.table_join`.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Protocol

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.plan.expression.schema import ORDINALS_TYPE, PSEUDO_COLUMNS
from lakehouse.plan.origin import TableJoin
from lakehouse.plan.table import Table
from lakehouse.spark.key_column import computed_keys
from lakehouse.spark.stream.as_of import find_as_of
from lakehouse.spark.stream.step import numbered_position

# A record's position without its ordinals: a change of a table by the same record comes before it.
PLACE = ("tick", "order_time", "topic", "partition", "offset")
# The order of the changes that one record makes: after a fan-out or an explode it may change a row several times.
ORDER = ("_ordinals", "_number")


class UpstreamTables(Protocol):
    """The tables that a stream reads, between two ticks; called while the stream's frame is made."""

    def changes(self, table: Table) -> DataFrame:
        """Return a table's changes per event: its columns, `_tombstone`, `_event_time_ms`, `_position`, `_number`.

        _number: counts the changes at one position, from 0.
        """

    def rows(self, table: Table, keys: DataFrame | None) -> DataFrame | None:
        """Return the visible rows of these keys, or of all, before the first of the ticks; None if there are none."""

    def history(self, table: Table, keys: DataFrame) -> tuple[DataFrame, DataFrame | None]:
        """Return all changes of these keys up to the last tick, in the form of `changes`, and the rows before them."""

    def hold(self, frame: DataFrame) -> DataFrame:
        """Return a frame that will be read several times; Spark keeps its result in memory as long as it is used."""


def changes_as_records(table: Table, changes: DataFrame) -> DataFrame:
    """Return a table's changes in the form of a stream's frame. A delete has the key alone."""
    value_columns = [
        F.when(~F.col("_tombstone"), F.col(column.name)).alias(column.name)
        for column in table.columns
        if column.name not in table.key
    ]
    return changes.select(
        *table.key, *value_columns, "_tombstone", F.lit(False).alias("_null_key"),
        numbered_position(F.col("_number")).alias("_position"), F.lit("").alias("_topic_id"),
        F.col("_event_time_ms").alias("rowtime"), F.col("_position.partition").alias("rowpartition"),
        F.col("_position.offset").alias("rowoffset"),
    )  # fmt: skip


def join_with_table(join: TableJoin, records: DataFrame, tables: UpstreamTables) -> DataFrame:
    """Return a stream's records, each with the columns of the row that the table has when the record arrives.

    If the join is by event time: of the row that the table had at the record's event time.
    """
    table = join.table
    value_names = list(table.values)
    added_names = [join.prefix + name for name in value_names]
    visible_names, own_names = split_column_names(records)
    records, on_columns = with_join_key(join, records)
    has_null_key = reduce(or_, [F.col(name).isNull() for name in on_columns])
    unjoined_records = records.where(has_null_key) if join.join_type == "left" else None  # a null equals no key
    records = records.where(~has_null_key)
    keys = records.select(*[F.col(a).alias(b) for a, b in zip(on_columns, table.key, strict=True)])
    is_by_time = join.as_of == "event time"
    changes, earlier_rows = (
        tables.history(table, keys) if is_by_time else (tables.changes(table), tables.rows(table, keys))
    )
    record_place = F.struct(*[F.col(f"_position.{name}") for name in PLACE])
    table_sides = [
        _table_side(table, changes.withColumn("_time", F.col("_event_time_ms")), on_columns, value_names, record_place)
    ]
    if earlier_rows is not None:
        event_time = F.unix_millis("_event_time")
        earlier_rows = earlier_rows.withColumns({"_tombstone": F.lit(False), "_number": F.lit(0), "_time": event_time})
        null_place = F.lit(None).cast(dict(table_sides[0].dtypes)["_place"])
        table_sides.append(_table_side(table, earlier_rows, on_columns, value_names, null_place))
    record_side = records.select(
        *on_columns,
        record_place.alias("_place"),
        F.lit(1).alias("_side"),
        F.lit(None).cast(ORDINALS_TYPE).alias("_ordinals"),
        F.lit(0).alias("_number"),
        F.col("rowtime").alias("_time"),
        F.struct(*visible_names, *own_names).alias("_record"),
    )
    all_rows = reduce(
        lambda first, second: first.unionByName(second, allowMissingColumns=True), [record_side, *table_sides]
    )
    matched_rows = find_as_of(all_rows, on_columns) if is_by_time else _with_last_changes(all_rows, on_columns)
    is_there = F.coalesce(F.col("_found._there"), F.lit(False))
    if join.join_type == "inner":
        matched_rows = matched_rows.where(is_there)
    row_columns = [
        F.when(is_there, F.col(f"_found._row.`{a}`")).alias(b) for a, b in zip(value_names, added_names, strict=True)
    ]
    if join.indicator:
        row_columns.append(F.when(is_there, "both").otherwise("left").alias(join.indicator))
    joined_rows = matched_rows.select(
        *[F.col(f"_record.`{name}`") for name in visible_names],
        *row_columns,
        *[F.col(f"_record.{n}") for n in own_names],
    )
    if unjoined_records is None:
        return joined_rows
    types_by_name = dict(joined_rows.dtypes)
    null_columns = [F.lit(None).cast(types_by_name[name]).alias(name) for name in added_names]
    null_columns += [F.lit("left").alias(join.indicator)] if join.indicator else []
    return joined_rows.unionByName(unjoined_records.select(*visible_names, *null_columns, *own_names))


def split_column_names(records: DataFrame) -> tuple[list[str], list[str]]:
    """Return the names of a stream's visible columns, and of the others that its frame has."""
    visible_names = [name for name in records.columns if not name.startswith("_") and name not in PSEUDO_COLUMNS]
    return visible_names, [name for name in records.columns if name not in visible_names]


def with_join_key(join: TableJoin, records: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return a stream's records without its deletes, with the key by which each looks up a row, and its columns."""
    on_columns = [f"_on_{number}" for number in range(len(join.table.key))]
    records = records.where(~F.col("_tombstone"))
    key_columns = computed_keys(records, list(join.key_expressions))
    return records.withColumns(dict(zip(on_columns, key_columns, strict=True))), on_columns


def _with_last_changes(all_rows: DataFrame, on_columns: list[str]) -> DataFrame:
    """Return the records, each with `_found`, the last change of its key before it."""
    place_order = Window.partitionBy(*on_columns).orderBy(F.col("_place").asc_nulls_first(), "_side", *ORDER)
    place_order = place_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return all_rows.withColumn("_found", F.last("_is", ignorenulls=True).over(place_order)).where("_side = 1")


def _table_side(
    table: Table, rows: DataFrame, on_columns: list[str], value_names: list[str], place: Column
) -> DataFrame:
    """Return the table's side of a join: its rows, each with its place in the order of the records."""
    row_struct = F.struct((~F.col("_tombstone")).alias("_there"), F.struct(*value_names).alias("_row"))
    key_columns = [F.col(name).alias(on_column) for name, on_column in zip(table.key, on_columns, strict=True)]
    return rows.select(
        *key_columns, place.alias("_place"), F.lit(0).alias("_side"), F.col("_position.ordinals").alias("_ordinals"),
        "_number", "_time", row_struct.alias("_is"),
    )  # fmt: skip
