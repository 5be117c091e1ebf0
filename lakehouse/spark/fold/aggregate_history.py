"""The history of an aggregate: each row that a group had, by `lakehouse.semantics.operators.row_history` in Python."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.plan.operator import VALID_FROM, VALID_TO, Aggregate, RowHistory
from lakehouse.spark.fold import history_rows
from lakehouse.spark.fold.bounds import KeyBounds
from lakehouse.spark.fold.python_aggregates import PythonFold
from lakehouse.spark.fold.table_fold import OpeningRows

TIMES = (("_start", VALID_FROM), ("_end", VALID_TO))


class AggregateHistoryFold(PythonFold):
    """The rows that a group had."""

    @property
    def _operator(self) -> Aggregate:
        assert isinstance(self.table.fold, RowHistory)
        assert isinstance(self.table.fold.of, Aggregate)
        return self.table.fold.of

    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        return history_rows.with_times(super().visible_fields(stream_rows), len(self.table.group))

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, kept: bool, final: bool) -> DataFrame:
        raise NotImplementedError  # the plan refuses what reads them

    def _may_change(self, bounds: KeyBounds) -> Column:
        return history_rows.may_change(bounds, "_time")

    def _row_span(self) -> tuple[Column, Column]:
        point = F.unix_millis(f"t.{VALID_FROM}")
        return point, point

    def _is_reached(self) -> Column:
        return history_rows.holds_after(F.timestamp_millis("g._first"))

    def _changed_rows(self, folded_keys: DataFrame) -> DataFrame:
        """Return the changed rows. Those of a group lie side by side up to its last row, so each ends where the next
        begins. They come in the order of their windows."""
        ended_steps = F.transform(
            "_steps", lambda step, number: step.withField("_end", F.get("_steps", number + 1)["_start"])
        )
        step_rows = folded_keys.select(*self.table.group, F.explode(ended_steps).alias("_s"))
        times = [F.timestamp_millis(f"_s.{bound}").alias(name) for bound, name in TIMES]
        return step_rows.select(*self.table.group, *times, *self._step_columns())
