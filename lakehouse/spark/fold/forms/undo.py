"""Aggregates over rows in Spark SQL that can subtract: the second form of `lakehouse.semantics.aggregate.undo`.

A record's unit has a sign, negative for a row that is taken out. So a batch's result, and a running result, are sums.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.plan.aggregation import BoundAggregation, NamedAggregation
from lakehouse.semantics.aggregate.undo import AverageRows, CountRows, SumRows
from lakehouse.spark.fold.forms.aggregates import AverageForm, CountForm, Form, SumForm, average_accumulator
from lakehouse.spark.stream.step import UNDO


def row_form(item: NamedAggregation, bound: BoundAggregation) -> Form:
    """Return the form of an aggregate over rows; a plain `Form`, without SQL, if it can't subtract there."""
    forms_by_rule: dict[type, type[Form]] = {CountRows: RowCountForm, SumRows: RowSumForm, AverageRows: RowAverageForm}
    return forms_by_rule.get(type(bound.rule), Form)(item.name, item, bound)


def _with_sign(value: Column) -> Column:
    return F.when(F.col(UNDO), -value).otherwise(value)


class RowCountForm(CountForm):
    def value(self) -> Column:
        return F.when(self.raw_input().isNotNull(), _with_sign(F.lit(1))).cast("bigint")

    def batch(self) -> Column:
        return F.coalesce(F.sum(self._input), F.lit(0))

    def unit(self) -> Column:
        return self.value()


class RowSumForm(SumForm):
    def value(self) -> Column:
        return _with_sign(self.raw_input().cast(self.accumulator_type)).cast(self.accumulator_type)


class RowAverageForm(AverageForm):
    @property
    def _sum_part(self) -> Form:
        assert isinstance(self.bound.rule, AverageRows)
        return RowSumForm(self.name, self.item, BoundAggregation(self.bound.rule.sum, self._sum_type))

    def value(self) -> Column:
        value = self._sum_part.value()
        return F.when(value.isNotNull(), average_accumulator(value, _with_sign(F.lit(1)).cast("bigint")))

    def batch(self) -> Column:
        total = F.coalesce(F.sum(self._input["sum"]), F.lit(0)).cast(self._sum_part.accumulator_type)
        return average_accumulator(total, F.coalesce(F.sum(self._input["n"]), F.lit(0)))

    def unit(self) -> Column:
        return self.value()
