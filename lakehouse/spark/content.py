"""Compares the content of tables: a count of rows, and a hash that does not depend on their order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lakehouse.semantics.difference import Difference, RowDifference

MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
# Spark would cut timestamps to milliseconds.
AS_TEXT = {
    "ignoreNullFields": "false",
    "timestampFormat": f"{MICROSECONDS}XX",
    "timestampNTZFormat": MICROSECONDS,
}

SIDES = (("before", -1), ("after", 1))


@dataclass(frozen=True, slots=True)
class Content:
    """The number of rows, and the sum of their hashes. Tables with equal contents have equal numbers and sums."""

    rows: int
    hash: int


def content_of(frame: DataFrame) -> Content:
    """Return the content of a table: of the visible columns only."""
    column_names = sorted(_visible_names(frame.columns))
    hashed_rows = frame.select(F.xxhash64(row_image(frame, column_names)).cast("decimal(38, 0)").alias("h"))
    totals = hashed_rows.agg(F.count(F.lit(1)), F.coalesce(F.sum("h"), F.lit(0))).first()
    assert totals is not None
    return Content(totals[0], int(totals[1]))


def compare_tables(key: tuple[str, ...], before: DataFrame, after: DataFrame, limit: int = 0) -> Difference:
    """Compare two tables of one key, by their visible columns; a column that one of them lacks is null there.

    A row that stands in one table twice is a difference, too. limit: how many differing keys to return with their
    rows, the first by their text.
    """
    side_columns = [_visible_names(frame.columns) for frame in (before, after)]
    column_names = list(dict.fromkeys([*side_columns[0], *side_columns[1]]))
    signed_images = _row_images(key, before, column_names, -1).unionByName(_row_images(key, after, column_names, 1))
    unmatched_images = (
        signed_images.groupBy(*_quoted_columns(key), "_row").agg(F.sum("_n").alias("_n")).where("_n <> 0")
    )
    side_images = [F.max(F.when(F.col("_n") * sign > 0, F.col("_row"))).alias(side) for side, sign in SIDES]
    # The key as a text, since a missing row has none.
    differing_keys = (
        unmatched_images.groupBy(*_quoted_columns(key))
        .agg(*side_images)
        .select(row_image(unmatched_images, key).alias("key"), "before", "after")
        .persist()
    )
    try:
        is_added, is_removed = F.col("before").isNull(), F.col("after").isNull()
        key_counts = differing_keys.agg(
            F.count_if(is_added), F.count_if(is_removed), F.count_if(~is_added & ~is_removed)
        ).first()
        assert key_counts is not None
        sample_rows = differing_keys.orderBy("key").limit(limit).collect() if limit and any(key_counts) else []
    finally:
        differing_keys.unpersist()
    added_keys, removed_keys, changed_keys = map(int, key_counts)
    return Difference(
        added_keys, removed_keys, changed_keys, [_parse_difference(key, side_columns, row) for row in sample_rows]
    )


def _parse_difference(key_columns: tuple[str, ...], side_columns: list[list[str]], row: Row) -> RowDifference:
    """Return one differing key with its rows: of each side the columns that it has."""
    key_values = json.loads(row["key"], parse_float=Decimal)
    before, after = (
        None if text is None else {n: v for n, v in json.loads(text, parse_float=Decimal).items() if n in value_columns}
        for text, value_columns in zip(
            (row["before"], row["after"]), (set(side) - set(key_columns) for side in side_columns), strict=True
        )
    )
    return {
        "change": "added" if before is None else "removed" if after is None else "changed",
        "key": key_values,
        "before": before,
        "after": after,
    }


def _row_images(key_columns: tuple[str, ...], frame: DataFrame, column_names: list[str], sign: int) -> DataFrame:
    """Return of each row the key, the whole row as one text, and a number, the sign of its side."""
    padded_frame = frame.withColumns({name: F.lit(None) for name in column_names if name not in frame.columns})
    return padded_frame.select(
        *_quoted_columns(key_columns), row_image(padded_frame, column_names).alias("_row"), F.lit(sign).alias("_n")
    )


def row_image(rows: DataFrame, column_names: Iterable[str], side: str | None = None) -> Column:
    """Return columns of the rows as one text: Spark can't compare maps. The order of a map's entries does not matter.

    side: the alias of the rows in a join.
    """
    data_types = {field.name: field.dataType for field in rows.schema}
    ordered_columns = [
        _with_ordered_maps(F.col(f"{side}.`{name}`" if side else f"`{name}`"), data_types[name]).alias(name)
        for name in column_names
    ]
    return F.to_json(F.struct(*ordered_columns), AS_TEXT)


def _with_ordered_maps(value: Column, data_type: DataType) -> Column:
    """Return the value, with the entries of each map in it in the order of their keys."""
    if not _has_map(data_type):
        return value
    if isinstance(data_type, ArrayType):
        return F.transform(value, lambda item: _with_ordered_maps(item, data_type.elementType))
    if isinstance(data_type, MapType):
        entries = F.transform_values(value, lambda _, item: _with_ordered_maps(item, data_type.valueType))
        return F.map_from_entries(F.array_sort(F.map_entries(entries), _compare_keys))
    assert isinstance(data_type, StructType)
    fields = [_with_ordered_maps(value.getField(field.name), field.dataType).alias(field.name) for field in data_type]
    return F.when(value.isNotNull(), F.struct(*fields))


def _has_map(data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType):
        return _has_map(data_type.elementType)
    return isinstance(data_type, MapType) or (
        isinstance(data_type, StructType) and any(_has_map(f.dataType) for f in data_type)
    )


def _compare_keys(left: Column, right: Column) -> Column:
    is_before, is_after = left["key"] < right["key"], left["key"] > right["key"]
    return F.when(is_before, F.lit(-1)).when(is_after, F.lit(1)).otherwise(F.lit(0))


def _quoted_columns(column_names: Iterable[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in column_names]


def _visible_names(column_names: Iterable[str]) -> list[str]:
    return [name for name in column_names if not name.startswith("_")]
