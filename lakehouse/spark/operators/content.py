"""Compares the content of tables: a count of rows, and a hash that does not depend on their order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lakehouse.semantics.difference import Difference, Unlike

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
    """The number of rows, and the sum of their hashes. Equal contents have equal ones."""

    rows: int
    hash: int


def content(frame: DataFrame) -> Content:
    """Return the content of a table: of the visible columns only."""
    names = sorted(_seen(frame.columns))
    row = frame.select(F.xxhash64(image(frame, names)).cast("decimal(38, 0)").alias("h"))
    found = row.agg(F.count(F.lit(1)), F.coalesce(F.sum("h"), F.lit(0))).first()
    assert found is not None
    return Content(found[0], int(found[1]))


def difference(key: tuple[str, ...], before: DataFrame, after: DataFrame, limit: int = 0) -> Difference:
    """Compare two tables of one key, by their visible columns; a column that one of them lacks is null there.

    A row that is in one of them twice is a difference, too. limit: how many of the keys that differ are returned, the
    first by their text, with their rows.
    """
    sides = [_seen(frame.columns) for frame in (before, after)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    both = _images(key, before, names, -1).unionByName(_images(key, after, names, 1))
    left = both.groupBy(*_columns(key), "_row").agg(F.sum("_n").alias("_n")).where("_n <> 0")
    one = [F.max(F.when(F.col("_n") * sign > 0, F.col("_row"))).alias(side) for side, sign in SIDES]
    # The key as a text, since a missing row has none.
    unlike = left.groupBy(*_columns(key)).agg(*one).select(image(left, key).alias("key"), "before", "after").persist()
    try:
        added, removed = F.col("before").isNull(), F.col("after").isNull()
        counts = unlike.agg(F.count_if(added), F.count_if(removed), F.count_if(~added & ~removed)).first()
        assert counts is not None
        rows = unlike.orderBy("key").limit(limit).collect() if limit and any(counts) else []
    finally:
        unlike.unpersist()
    added_keys, removed_keys, changed_keys = map(int, counts)
    return Difference(added_keys, removed_keys, changed_keys, [_unlike(key, sides, row) for row in rows])


def _unlike(key: tuple[str, ...], sides: list[list[str]], row: Row) -> Unlike:
    """A key that differs: its rows, with the columns that each side has."""
    said = json.loads(row["key"], parse_float=Decimal)
    before, after = (
        None if text is None else {n: v for n, v in json.loads(text, parse_float=Decimal).items() if n in has}
        for text, has in zip((row["before"], row["after"]), (set(side) - set(key) for side in sides), strict=True)
    )
    return {"change": "added" if before is None else "removed" if after is None else "changed",
            "key": said, "before": before, "after": after}  # fmt: skip


def _images(key: tuple[str, ...], frame: DataFrame, names: list[str], count: int) -> DataFrame:
    """The key of each row, all of it as one text, and a number."""
    whole = frame.withColumns({name: F.lit(None) for name in names if name not in frame.columns})
    return whole.select(*_columns(key), image(whole, names).alias("_row"), F.lit(count).alias("_n"))


def image(rows: DataFrame, names: Iterable[str], side: str | None = None) -> Column:
    """Return columns of the rows as one text: maps can't be compared. The order of a map's entries makes no difference.

    side: the rows' name, where others stand beside them.
    """
    kinds = {field.name: field.dataType for field in rows.schema}
    columns = [_ordered(F.col(f"{side}.`{name}`" if side else f"`{name}`"), kinds[name]).alias(name) for name in names]
    return F.to_json(F.struct(*columns), AS_TEXT)


def _ordered(value: Column, kind: DataType) -> Column:
    """The value, with the entries of each map in it in the order of their keys."""
    if not _has_map(kind):
        return value
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda item: _ordered(item, kind.elementType))
    if isinstance(kind, MapType):
        entries = F.transform_values(value, lambda _, item: _ordered(item, kind.valueType))
        return F.map_from_entries(F.array_sort(F.map_entries(entries), _by_key))
    assert isinstance(kind, StructType)
    fields = [_ordered(value.getField(field.name), field.dataType).alias(field.name) for field in kind]
    return F.when(value.isNotNull(), F.struct(*fields))


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, MapType) or (isinstance(kind, StructType) and any(_has_map(f.dataType) for f in kind))


def _by_key(one: Column, other: Column) -> Column:
    before, after = one["key"] < other["key"], one["key"] > other["key"]
    return F.when(before, F.lit(-1)).when(after, F.lit(1)).otherwise(F.lit(0))


def _columns(names: Iterable[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]


def _seen(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]
