"""The common part of the folds of histories: which rows a batch may change, and when a row holds.

A batch may change the rows of its keys that hold, or begin, after the key's first record. A history's row holds from
`valid_from` until `valid_to`; if `valid_to` is null, it still holds.
"""

from __future__ import annotations

from abc import abstractmethod

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, TimestampType

from lakehouse.plan.operator import VALID_FROM, VALID_TO
from lakehouse.spark.fold.bounds import KeyBounds, is_within
from lakehouse.spark.fold.forms.aggregates import same_key
from lakehouse.spark.fold.table_fold import BatchInput, OpeningRows, TableFold


def with_times(fields: list[StructField], key_count: int) -> list[StructField]:
    """Return the fields of a history's row, from those of the table's row, which begin with its key."""
    time_fields = [StructField(name, TimestampType()) for name in (VALID_FROM, VALID_TO)]
    return [*fields[:key_count], *time_fields, *fields[key_count:]]


def holds_after(first: Column) -> Column:
    """Return the condition on rows (t) that hold after a time, or begin there."""
    valid_to = F.col(f"t.{VALID_TO}")
    return valid_to.isNull() | (valid_to > first)


def may_change(bounds: KeyBounds, time_name: str) -> Column:
    """Return the condition on rows (t) that a batch may change, from its bounds: literals, so that Delta skips files.

    time_name: the records' column with their event times in milliseconds.
    """
    condition = is_within({name: edges for name, edges in bounds.items() if name != time_name}, "t")
    if time_name not in bounds:
        return condition
    return condition & holds_after(F.timestamp_millis(F.lit(bounds[time_name][0])))


class SqlHistoryFold(TableFold):
    """A fold of a history in SQL: of all that a batch changes at once."""

    @property
    def bound_columns(self) -> tuple[str, ...]:
        return (*self.table.group, "rowtime")

    @abstractmethod
    def changed_rows(self, records: DataFrame, rows: DataFrame | None) -> DataFrame:
        """Return the rows that timely records change: whole rows, or `_tombstone` for one that is gone.

        rows: the rows that the table keeps, of which those of the records' keys are read; None for none.
        """

    def fold_timely(self, records: DataFrame, batch: BatchInput) -> DataFrame:
        return self.changed_rows(records, batch.read_rows().alias("t").where(may_change(batch.bounds, "rowtime")))

    def rows_after(self, rows: DataFrame | None, records: DataFrame) -> DataFrame:
        return self.overlay_rows(rows, self.changed_rows(self.timely_records(records), rows))

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        raise NotImplementedError  # the plan refuses what reads them

    def touched_rows(self, rows: DataFrame, records: DataFrame) -> DataFrame:
        """Return the rows of the history that records may change."""
        group = self.table.group
        first_times = records.groupBy(*group).agg(F.min("rowtime").alias("_first"))
        condition = same_key(group, "t", "g") & holds_after(F.timestamp_millis("g._first"))
        return rows.alias("t").join(first_times.alias("g"), condition, "left_semi")
