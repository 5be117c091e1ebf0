"""The histories of aggregates: each row that a group had, see `lakehouse.semantics.operators.row_history`.

Aggregates that do not depend on the order of their values are computed in SQL, for all points of a batch at once: the
row at a point is the row that the table kept there, with all of the batch's records up to its time. Others go through
the rule in Python, record by record: each record changes all later rows of its group.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.plan.operator import VALID_FROM, VALID_TO, Aggregate, Fold, RowHistory
from lakehouse.semantics.aggregate.aggregate import Average, SumDoubles
from lakehouse.spark.fold import history_rows
from lakehouse.spark.fold.aggregate_fold import AggregateFold
from lakehouse.spark.fold.bounds import KeyBounds
from lakehouse.spark.fold.forms.aggregates import (
    AverageForm,
    CountForm,
    ExtremeForm,
    Form,
    OrderedForm,
    SumForm,
    WideSumForm,
)
from lakehouse.spark.fold.python_aggregates import PythonFold
from lakehouse.spark.fold.table_fold import OpeningRows
from lakehouse.spark.padded_struct import padded_struct

TIMES = (("_start", VALID_FROM), ("_end", VALID_TO))


def depends_on_order(form: Form) -> bool:
    """Say whether an aggregate's result depends on the order of its values, or SQL can't compute it."""
    match form:
        case AverageForm():
            assert isinstance(form.bound.rule, Average)
            return isinstance(form.bound.rule.sum, SumDoubles)
        case ExtremeForm():  # of the two zeros of a double, the first counts
            return form.bound.visible_type in ("double", "float")
        case OrderedForm() | CountForm() | SumForm() | WideSumForm():
            return False
    return True


class AggregateHistoryFold(history_rows.SqlHistoryFold, AggregateFold):
    """The rows that a group had, for aggregates that do not depend on the order of their values.

    The columns while a batch is folded: `_from`, the time of a point in milliseconds; `_kept`, the accumulators of a
    row of the table; `_kept_to`, when that ends.
    """

    @property
    def _operator(self) -> Aggregate:
        return _operator_of(self.table.fold)

    def input_of(self, form: Form, *, units: bool) -> Column:
        return form.unit()

    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        return history_rows.with_times(AggregateFold.visible_fields(self, stream_rows), len(self.table.group))

    def changed_rows(self, records: DataFrame, rows: DataFrame | None) -> DataFrame:
        group = self.table.group
        units = [f"_in_{form.name}" for form in self.forms]
        points = records.select(*group, F.col("rowtime").alias("_from"), "_position", F.lit(1).alias("_new"), *units)
        if rows is not None:
            accumulators = padded_struct(*[f"`{form.accumulator}`" for form in self.forms]).alias("_kept")
            times = [F.unix_millis(VALID_FROM).alias("_from"), F.unix_millis(VALID_TO).alias("_kept_to")]
            kept_points = self.touched_rows(rows, records).select(*group, *times, "_position", accumulators)
            points = points.unionByName(kept_points, allowMissingColumns=True)
        # Records of one time are peers: each has the values after all of them.
        until_now = Window.partitionBy(*group).orderBy("_from").rangeBetween(Window.unboundedPreceding, 0)
        totals = {f"_total_{form.name}": _total_by_time(form, until_now) for form in self.forms}
        points = points.withColumns(
            {**totals, "_position": F.max("_position").over(until_now), "_news": F.sum("_new").over(until_now)}
        )
        if rows is not None:
            points = points.withColumn("_before", F.last("_kept", ignorenulls=True).over(until_now))
        carried = [*totals, "_position", "_news", *(["_before"] if rows is not None else [])]
        is_kept = F.lit(False) if rows is None else F.max(F.col("_kept").isNotNull())
        kept_to = F.lit(None).cast("bigint") if rows is None else F.max("_kept_to")
        points = points.groupBy(*group, "_from").agg(
            *[F.first(name).alias(name) for name in carried], is_kept.alias("_is_kept"), kept_to.alias("_kept_to")
        )
        next_time = F.lead("_from").over(Window.partitionBy(*group).orderBy("_from"))
        points = points.withColumn("_next", next_time)
        is_same = F.col("_is_kept") & F.col("_news").isNull() & F.col("_kept_to").eqNullSafe(F.col("_next"))
        return points.where(~is_same).select(*group, *self._row_columns(has_kept=rows is not None))

    def _row_columns(self, *, has_kept: bool) -> list[Column]:
        """Return the columns of a point's row after those of its group. has_kept: `_before` has what was kept there."""
        merged = {
            form.name: form.merge(
                F.col("_before")[form.accumulator] if has_kept else F.lit(None).cast(form.accumulator_type),
                F.col(f"_total_{form.name}"),
            )
            for form in self.forms
        }
        accumulators = [merged[form.name].alias(form.accumulator) for form in self.forms if form.bound.accumulator]
        return [
            F.timestamp_millis("_from").alias(VALID_FROM),
            F.timestamp_millis("_next").alias(VALID_TO),
            F.lit(False).alias("_tombstone"),
            *[form.visible_value(merged[form.name]).alias(form.name) for form in self.forms],
            *accumulators,
            F.timestamp_millis("_from").alias("_event_time"),
            F.col("_position"),
        ]


def _operator_of(fold: Fold) -> Aggregate:
    assert isinstance(fold, RowHistory)
    assert isinstance(fold.row_fold, Aggregate)
    return fold.row_fold


def _total_by_time(form: Form, until_now: WindowSpec) -> Column:
    """Return an aggregate of a batch's records up to each point's time. until_now: in the order of time."""
    units = F.col(f"_in_{form.name}")
    if isinstance(form, OrderedForm):  # the first or the last by position, not by time
        pick = F.min_by if form.item.kind == "earliest" else F.max_by
        return pick(units, units["at"]).over(until_now)
    return form.running_value(units, until_now)


class OrderedHistoryFold(PythonFold):
    """The rows that a group had, for other aggregates."""

    @property
    def _operator(self) -> Aggregate:
        return _operator_of(self.table.fold)

    def visible_fields(self, stream_rows: DataFrame) -> list[StructField]:
        return history_rows.with_times(super().visible_fields(stream_rows), len(self.table.group))

    def changes(self, records: DataFrame, opening_rows: OpeningRows, *, of_state: bool, final_only: bool) -> DataFrame:
        raise NotImplementedError  # the plan refuses what reads them

    def _may_change(self, bounds: KeyBounds) -> Column:
        return history_rows.may_change(bounds, "_time")

    def _row_span(self) -> tuple[Column, Column]:
        point = F.unix_millis(f"t.{VALID_FROM}")
        return point, point

    def _is_reached(self) -> Column:
        return history_rows.holds_after(F.timestamp_millis("g._first"))

    def _changed_rows(self, folded_keys: DataFrame) -> DataFrame:
        """Return the changed rows of groups. In a group they lie side by side up to its last row, so each ends where
        the next begins. They come in the order of their windows."""
        ended_steps = F.transform(
            "_steps", lambda step, number: step.withField("_end", F.get("_steps", number + 1)["_start"])
        )
        step_rows = folded_keys.select(*self.table.group, F.explode(ended_steps).alias("_s"))
        times = [F.timestamp_millis(f"_s.{bound}").alias(name) for bound, name in TIMES]
        return step_rows.select(*self.table.group, *times, *self._step_columns())
