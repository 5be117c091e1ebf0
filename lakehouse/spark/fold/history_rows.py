"""Which rows of a history a batch may change: those of its keys that hold, or begin, after the key's first record.

A history's row holds from `valid_from` until `valid_to`; null is still.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, TimestampType

from lakehouse.plan.operator import VALID_FROM, VALID_TO
from lakehouse.spark.fold.bounds import KeyBounds, is_within
from lakehouse.spark.fold.forms.aggregates import same_key


def with_times(fields: list[StructField], key_count: int) -> list[StructField]:
    """Return the fields of a history's row, from those of the table's row, which begin with its key."""
    time_fields = [StructField(name, TimestampType()) for name in (VALID_FROM, VALID_TO)]
    return [*fields[:key_count], *time_fields, *fields[key_count:]]


def holds_after(first: Column, side: str = "t") -> Column:
    """Return the condition on rows that hold after a time, or begin there. side: the alias of the rows."""
    valid_to = F.col(f"{side}.{VALID_TO}")
    return valid_to.isNull() | (valid_to > first)


def may_change(bounds: KeyBounds, time_name: str) -> Column:
    """Return the condition on rows (t) that a batch may change, from its bounds: literals, so that Delta skips files.

    time_name: the records' column with their event times in milliseconds.
    """
    condition = is_within({name: edges for name, edges in bounds.items() if name != time_name}, "t")
    if time_name not in bounds:
        return condition
    return condition & holds_after(F.timestamp_millis(F.lit(bounds[time_name][0])))


def touched_rows(rows: DataFrame, records: DataFrame, group: tuple[str, ...], time_name: str) -> DataFrame:
    """Return the rows of a history that records may change."""
    first_times = records.groupBy(*group).agg(F.min(time_name).alias("_first"))
    condition = same_key(group, "t", "g") & holds_after(F.timestamp_millis("g._first"))
    return rows.alias("t").join(first_times.alias("g"), condition, "left_semi")
