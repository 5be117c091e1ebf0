"""Judges the rows that a batch changes by what is expected of a table's rows, before the batch is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.formats.key_text import write_key
from lakehouse.plan.expectation import Expectation
from lakehouse.semantics.failures import ERROR_LENGTH_MAX, EXPECTATION, OF_ROWS, FunctionFailures
from lakehouse.spark.fold.bounds import HeldFrame
from lakehouse.spark.fold.merge import rows_after_merge
from lakehouse.spark.fold.table_fold import TableFold
from lakehouse.spark.fold.visibility import is_visible
from lakehouse.spark.nullable import make_nullable
from lakehouse.spark.stream.decoded import is_met


class UnmetRows(NamedTuple):
    """The rows of a batch that do not meet an expectation: their number, and the first by its key, as text."""

    expectation: Expectation
    rows: int
    key: str
    reason: str

    def as_failed(self, table: str) -> FunctionFailures:
        """Return it as the table's commits count it."""
        own_reason = self.reason.removeprefix(self.expectation.reason_start)
        return FunctionFailures(
            f"{EXPECTATION}{table}.{self.expectation.name}{OF_ROWS}", self.rows, self.key, own_reason[:ERROR_LENGTH_MAX]
        )


def find_unmet_rows(table_fold: TableFold, batch: HeldFrame, read_rows: Callable[[], DataFrame]) -> list[UnmetRows]:
    """Return what the visible rows of a table do not meet after a batch. read_rows: returns those that it keeps now."""
    table = table_fold.table
    if not table.expectations or not batch.count:
        return []
    rows = rows_after_merge(table_fold, batch, read_rows()).where(is_visible(table_fold))
    metrics = []
    for number, expectation in enumerate(table.expectations):
        is_unmet = ~is_met(expectation)
        shown_columns = [F.col(f"`{name}`").alias(f"value {n}") for n, name in enumerate(expectation.shown_columns)]
        first_row = F.struct(
            *[F.col(f"`{name}`").alias(f"key {n}") for n, name in enumerate(table.key)], *shown_columns
        )
        # Arrow does not take a null struct, as where no row is unmet, whose fields can't be null.
        first_row = first_row.cast(make_nullable(rows.select(first_row.alias("row")).schema)["row"].dataType)
        metrics += [
            F.count_if(is_unmet).alias(f"rows {number}"), F.min(F.when(is_unmet, first_row)).alias(f"first {number}"),
        ]  # fmt: skip
    # Not by `collect`: it gives times in the zone of this process.
    (counts,) = rows.agg(*metrics).toArrow().to_pylist()
    unmet_rows = []
    for number, expectation in enumerate(table.expectations):
        if counts[f"rows {number}"]:
            first = counts[f"first {number}"]
            values = {name: first[f"value {n}"] for n, name in enumerate(expectation.shown_columns)}
            key = write_key([first[f"key {n}"] for n in range(len(table.key))])
            unmet_rows.append(UnmetRows(expectation, counts[f"rows {number}"], key, expectation.reason(values)))
    return unmet_rows
