"""What a table holds, compared: a count of rows and a hash of the content that does not depend on their order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.spark.operators.aggregates import same_key

MICROSECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
# Spark would cut timestamps to milliseconds.
AS_TEXT = {
    "ignoreNullFields": "false",
    "timestampFormat": f"{MICROSECONDS}XX",
    "timestampNTZFormat": MICROSECONDS,
}


@dataclass(frozen=True, slots=True)
class Content:
    """The number of rows, and the sum of their hashes. Equal contents have equal ones."""

    rows: int
    hash: int


@dataclass(frozen=True, slots=True)
class Differing:
    """How many keys are in one of two tables only, or have another row in the second."""

    added: int
    removed: int
    changed: int

    @property
    def equal(self) -> bool:
        return not (self.added or self.removed or self.changed)


def content(frame: DataFrame) -> Content:
    """Return the content of a table: of what people see, without hidden columns."""
    names = sorted(_seen(frame.columns))
    row = frame.select(F.xxhash64(image(None, names)).cast("decimal(38, 0)").alias("h"))
    found = row.agg(F.count(F.lit(1)), F.coalesce(F.sum("h"), F.lit(0))).first()
    assert found is not None
    return Content(found[0], int(found[1]))


def differing(key: tuple[str, ...], before: DataFrame, after: DataFrame) -> Differing:
    """Compare two tables of one key, by what people see. A column that one of them lacks is null there."""
    both, there, here, other = _compared(key, before, after)
    found = both.agg(F.count_if(here & ~there), F.count_if(there & ~here), F.count_if(other)).first()
    assert found is not None
    return Differing(*found)


def examples(key: tuple[str, ...], before: DataFrame, after: DataFrame, limit: int) -> list[dict[str, Any]]:
    """Return the first differing keys, by their text: {"key", "before", "after"}, None where there is no row."""
    both, there, here, other = _compared(key, before, after)
    names = [sorted(set(_seen(frame.columns)) - set(key)) for frame in (before, after)]
    found = both.where((there != here) | other).select(
        F.when(there, image("b", key)).otherwise(image("a", key)).alias("key"),
        F.when(there, image("b", names[0])).alias("before"),
        F.when(here, image("a", names[1])).alias("after"),
    )
    rows = found.orderBy("key").limit(limit).collect()
    return [{name: text and json.loads(text) for name, text in row.asDict().items()} for row in rows]


def _compared(key: tuple[str, ...], before: DataFrame, after: DataFrame) -> tuple[DataFrame, Column, Column, Column]:
    """Both tables by key, and three conditions: a row was there, is here, is another one."""
    names = sorted(set(_seen(before.columns)) | set(_seen(after.columns)))
    # A mark, since key columns may be null.
    left, right = (_marked(frame, names).alias(side) for frame, side in ((before, "b"), (after, "a")))
    both = left.join(right, same_key(key, "b", "a"), "full_outer")
    there, here = F.col("b._there").isNotNull(), F.col("a._there").isNotNull()
    return both, there, here, there & here & ~image("b", names).eqNullSafe(image("a", names))


def image(side: str | None, names: Iterable[str]) -> Column:
    """Return the columns as one text: maps can't be compared."""
    columns = [F.col(f"{side}.`{name}`" if side else f"`{name}`") for name in names]
    return F.to_json(F.struct(*columns), AS_TEXT)


def _marked(frame: DataFrame, names: list[str]) -> DataFrame:
    missing = {name: F.lit(None) for name in names if name not in frame.columns}
    return frame.withColumns(missing).select(*[f"`{name}`" for name in names], F.lit(True).alias("_there"))


def _seen(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("_")]
