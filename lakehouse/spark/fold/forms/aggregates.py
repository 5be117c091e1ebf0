"""The common aggregates in Spark SQL: the result of a batch, how a row takes it in, the value that a reader sees.

Each is the second form of a rule in `lakehouse.semantics`; a property test holds both equal. An aggregation `n` of a
table uses these columns: `n`, the visible value; `_acc_n`, the accumulator if the visible value can't serve as one;
and, in a batch, `_arg_n` (its argument), `_in_n` (its input, one record) and `_new_n` (the batch's result for one row).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

from lakehouse.plan.aggregation import BoundAggregation, NamedAggregation, bind_types
from lakehouse.semantics.aggregate.aggregate import Average, SumDoubles
from lakehouse.semantics.aggregate.wide_sum import PARTS, SumWideDecimals
from lakehouse.spark.fold.forms import wide_decimal


@dataclass(frozen=True, slots=True)
class Form:
    """An aggregation with the types that Spark gives it. The subclasses are the forms in SQL."""

    name: str
    item: NamedAggregation
    bound: BoundAggregation

    @property
    def accumulator(self) -> str:
        """The column that holds the accumulator."""
        return self.name if self.bound.accumulator is None else f"_acc_{self.name}"

    @property
    def accumulator_type(self) -> str:
        return self.bound.accumulator or self.bound.visible_type

    def raw_input(self) -> Column:
        """Return the value that the aggregation reads from one record: the input of its rule."""
        return F.lit(1) if self.item.argument is None else F.col(f"_arg_{self.name}")

    def value(self) -> Column:
        """Return the input of the form in SQL."""
        return self.raw_input()

    def batch(self) -> Column:
        """Return the result of a batch's records for one row, from their inputs."""
        raise NotImplementedError

    def merge(self, old_accumulator: Column, batch_result: Column) -> Column:
        """Return the accumulator after a batch; `old_accumulator` is null for a new row."""
        raise NotImplementedError

    def unit(self) -> Column:
        """Return one record as an accumulator of its own."""
        return self.value()

    def running_value(self, units: Column, window: WindowSpec) -> Column:
        """Return the accumulator after each record. window: the records of one row, in position order."""
        raise NotImplementedError

    def visible_value(self, accumulator: Column) -> Column:
        """Return the visible column, computed from the accumulator."""
        return accumulator

    def total(self, accumulator: Column) -> Column:
        """Return a sum's accumulator as a double, however large."""
        return accumulator.cast("double")

    @property
    def _input(self) -> Column:
        return F.col(f"_in_{self.name}")


class CountForm(Form):
    def batch(self) -> Column:
        return F.count(self._input)

    def merge(self, old_accumulator: Column, batch_result: Column) -> Column:
        return F.coalesce(old_accumulator, F.lit(0)) + batch_result

    def unit(self) -> Column:
        return F.when(self.value().isNotNull(), F.lit(1)).cast("bigint")

    def running_value(self, units: Column, window: WindowSpec) -> Column:
        return F.coalesce(F.sum(units).over(window), F.lit(0)).cast("bigint")


class SumForm(Form):
    """Exact sums: the accumulator is a DECIMAL with more room than the visible value, which is null if it overflows."""

    def value(self) -> Column:
        return self.raw_input().cast(self.accumulator_type)

    def batch(self) -> Column:
        return F.coalesce(F.sum(self._input), F.lit(0)).cast(self.accumulator_type)

    def merge(self, old_accumulator: Column, batch_result: Column) -> Column:
        return (F.coalesce(old_accumulator, F.lit(0).cast(self.accumulator_type)) + batch_result).cast(
            self.accumulator_type
        )

    def running_value(self, units: Column, window: WindowSpec) -> Column:
        return F.coalesce(F.sum(units).over(window), F.lit(0)).cast(self.accumulator_type)

    def visible_value(self, accumulator: Column) -> Column:
        return accumulator.try_cast(self.bound.visible_type)


class WideSumForm(Form):
    """Exact sums of decimals too wide for any DECIMAL: three sums, each of 18 digits of every value."""

    @property
    def _scale(self) -> int:
        rule = self.bound.rule
        assert isinstance(rule, SumWideDecimals)
        return rule.scale

    def value(self) -> Column:
        return wide_decimal.split_into_parts(self.raw_input(), self._scale)

    def batch(self) -> Column:
        return self._parts(lambda name: F.coalesce(F.sum(self._input[name]), F.lit(0)))

    def merge(self, old_accumulator: Column, batch_result: Column) -> Column:
        return self._parts(
            lambda name: F.coalesce(old_accumulator[name], F.lit(0).cast(wide_decimal.PART_TYPE)) + batch_result[name]
        )

    def running_value(self, units: Column, window: WindowSpec) -> Column:
        return self._parts(lambda name: F.coalesce(F.sum(units[name]).over(window), F.lit(0)))

    def visible_value(self, accumulator: Column) -> Column:
        return wide_decimal.sum_as_text(accumulator, self._scale).try_cast(self.bound.visible_type)

    def total(self, accumulator: Column) -> Column:
        return wide_decimal.sum_as_text(accumulator, self._scale).cast("double")

    def _parts(self, sum_of: Callable[[str], Column]) -> Column:
        return wide_decimal.parts_struct(tuple(map(sum_of, PARTS)))


class DoubleSumForm(Form):
    """Sums of doubles depend on the order of the additions: a batch's values are collected and added one by one."""

    def value(self) -> Column:
        return self.raw_input().cast("double")

    def batch(self) -> Column:
        return collect_in_order(self._input)

    def merge(self, old_accumulator: Column, batch_result: Column) -> Column:
        return F.aggregate(batch_result, F.coalesce(old_accumulator, F.lit(0.0)), lambda total, addend: total + addend)

    def running_value(self, units: Column, window: WindowSpec) -> Column:
        return F.coalesce(F.sum(units).over(window), F.lit(0.0))


class AverageForm(Form):
    """The sum in its own form, and the number of values."""

    @property
    def _sum_part(self) -> Form:
        assert isinstance(self.bound.rule, Average)
        return _sum_form(self.bound.rule.sum)(
            self.name, self.item, BoundAggregation(self.bound.rule.sum, self._sum_type)
        )

    @property
    def _sum_type(self) -> str:
        return self.accumulator_type.removeprefix("struct<sum: ").removesuffix(", n: bigint>")

    def value(self) -> Column:
        return self._sum_part.value()

    def batch(self) -> Column:
        return average_accumulator(self._sum_part.batch(), F.count(self._input))

    def merge(self, old_accumulator: Column, batch_result: Column) -> Column:
        return average_accumulator(
            self._sum_part.merge(old_accumulator["sum"], batch_result["sum"]),
            F.coalesce(old_accumulator["n"], F.lit(0)) + batch_result["n"],
        )

    def unit(self) -> Column:
        value = self.value()
        return F.when(value.isNotNull(), average_accumulator(value, F.lit(1).cast("bigint")))

    def running_value(self, units: Column, window: WindowSpec) -> Column:
        value_counts = F.coalesce(F.sum(units["n"]).over(window), F.lit(0)).cast("bigint")
        return average_accumulator(self._sum_part.running_value(units["sum"], window), value_counts)

    def visible_value(self, accumulator: Column) -> Column:
        total = self._sum_part.total(accumulator["sum"])
        return F.when(accumulator["n"] == 0, 0.0).otherwise(total / accumulator["n"])


class ExtremeForm(Form):
    """MIN and MAX."""

    def batch(self) -> Column:
        extreme = F.min(self._input) if self.item.kind == "min" else F.max(self._input)
        if self.bound.visible_type not in ("double", "float"):
            return extreme
        # The two zeros are equal: the one that came first counts.
        first_zero = F.min_by(self._input, F.when(self._input == 0, F.col("_position")))
        return F.when(extreme == 0, first_zero).otherwise(extreme)

    def merge(self, old_accumulator: Column, batch_result: Column) -> Column:
        return (
            F.least(old_accumulator, batch_result)
            if self.item.kind == "min"
            else F.greatest(old_accumulator, batch_result)
        )

    def running_value(self, units: Column, window: WindowSpec) -> Column:
        return (F.min(units) if self.item.kind == "min" else F.max(units)).over(window)


class OrderedForm(Form):
    """LATEST and EARLIEST: the value with its position; null where no record has qualified yet."""

    @property
    def takes_nulls(self) -> bool:
        """Whether every record qualifies."""
        return not dict(self.item.options)["ignore_nulls"]

    def value(self) -> Column:
        return self.raw_input() if self.takes_nulls else self.unit()

    def unit(self) -> Column:
        value = self.raw_input()
        positioned_value = self._with_position(F.col("_position"), value)
        return positioned_value if self.takes_nulls else F.when(value.isNotNull(), positioned_value)

    def batch(self, ordered_forms: Sequence[OrderedForm] = ()) -> Column:
        """ordered_forms: the forms of this kind that take every record. All want one record; Spark picks it once."""
        pick = F.min_by if self.item.kind == "earliest" else F.max_by
        if not self.takes_nulls:
            return pick(self._input, self._input["at"])
        inputs = [F.col(f"_in_{form.name}") for form in ordered_forms or [self]]
        record = pick(F.struct(F.col("_position"), *inputs), F.col("_position"))
        return self._with_position(record["_position"], record[f"_in_{self.name}"])

    def _with_position(self, position: Column, value: Column) -> Column:
        # The cast makes the fields nullable: Arrow does not take a null struct whose fields can't be null.
        return F.struct(position.alias("at"), value.alias("value")).cast(self.accumulator_type)

    def merge(self, old_accumulator: Column, batch_result: Column) -> Column:
        return (
            F.coalesce(old_accumulator, batch_result)
            if self.item.kind == "earliest"
            else F.coalesce(batch_result, old_accumulator)
        )

    def running_value(self, units: Column, window: WindowSpec) -> Column:
        pick = F.first if self.item.kind == "earliest" else F.last
        return pick(units, ignorenulls=True).over(window)

    def visible_value(self, accumulator: Column) -> Column:
        return accumulator["value"]


def batch_columns(forms: list[Form]) -> list[Column]:
    """Return the result of a batch's records for one row: for each form, its `_new_<name>`."""
    null_taking_forms = [form for form in forms if isinstance(form, OrderedForm) and form.takes_nulls]
    result_columns = []
    for form in forms:
        same_kind_forms = [
            ordered_form for ordered_form in null_taking_forms if ordered_form.item.kind == form.item.kind
        ]
        column = form.batch(same_kind_forms) if isinstance(form, OrderedForm) else form.batch()
        result_columns.append(column.alias(f"_new_{form.name}"))
    return result_columns


def average_accumulator(total: Column, value_count: Column) -> Column:
    """Return the accumulator of an average."""
    return F.struct(total.alias("sum"), value_count.alias("n"))


def collect_in_order(value: Column) -> Column:
    """Collect a group's values that are not null, in position order."""
    positioned_value = F.struct(F.col("_position").alias("p"), value.alias("x"))
    return F.transform(
        F.array_sort(F.collect_list(F.when(value.isNotNull(), positioned_value))), lambda item: item["x"]
    )


def _sum_form(rule: object) -> type[Form]:
    if isinstance(rule, SumDoubles):
        return DoubleSumForm
    return WideSumForm if isinstance(rule, SumWideDecimals) else SumForm


def form_of(item: NamedAggregation, argument_type: str) -> Form:
    """Return an aggregation's form, for an argument of this Spark type ("" for COUNT(*))."""
    bound = bind_types(item, argument_type)
    match item.kind:
        case "count":
            form: type[Form] = CountForm
        case "sum":
            form = _sum_form(bound.rule)
        case "avg":
            form = AverageForm
        case "min" | "max":
            form = ExtremeForm
        case "latest" | "earliest":
            form = OrderedForm
        case _:
            form = Form
    return form(item.name, item, bound)


def same_key(column_names: tuple[str, ...], left: str, right: str) -> Column:
    """Return the condition under which two aliased rows have one key."""
    return reduce(and_, [F.col(f"{left}.`{name}`").eqNullSafe(F.col(f"{right}.`{name}`")) for name in column_names])
