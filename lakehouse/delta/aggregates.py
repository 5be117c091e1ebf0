"""The common aggregates in Spark SQL: what a batch gives, how a row takes it in, what a reader sees.

Each is the second form of a rule in `lakehouse.semantics.aggregate`, held equal to it by a property test. An
aggregation `n` of a table uses these columns: `n`, which people see, `_acc_n`, the accumulator where the seen value
can't serve as one, and, in a batch, `_new_n`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

from lakehouse.plan.declare import NamedAggregation

INTEGERS = ("tinyint", "smallint", "int", "bigint")
# One digit below the largest DECIMAL, so that the sum of two accumulators keeps its scale.
ACCUMULATOR_DIGITS = 37


@dataclass(frozen=True, slots=True)
class SqlAggregate:
    """An aggregation on Spark. Columns of the row are read through `row`, those of the batch through `new`."""

    name: str
    kind: str
    type: str
    argument: str | None

    @property
    def column_type(self) -> str:
        """The type of the column that people see."""
        if self.kind == "count" or self.type in INTEGERS:
            return "bigint"
        if self.type in ("float", "double"):
            return "double"
        precision, scale = decimal_digits(self.type)
        return f"decimal({min(precision + 10, 38)}, {scale})"

    @property
    def accumulator_type(self) -> str | None:
        """The type of the hidden accumulator; None where the seen column is the accumulator."""
        if self.kind == "count" or self.type in ("float", "double"):
            return None
        return f"decimal({ACCUMULATOR_DIGITS}, {0 if self.type in INTEGERS else decimal_digits(self.type)[1]})"

    @property
    def accumulator(self) -> str:
        return self.name if self.accumulator_type is None else f"_acc_{self.name}"

    @property
    def is_ordered(self) -> bool:
        """True where the sum depends on the order of its additions."""
        return self.kind == "sum" and self.type in ("float", "double")

    def value(self) -> Column:
        """The aggregation's input, of one record."""
        if self.argument is None:
            return F.lit(1)
        column = F.expr(self.argument)
        if self.kind == "count":
            return column
        return column.cast("double") if self.is_ordered else column.cast(str(self.accumulator_type))

    def batch(self) -> Column:
        """What a batch's records of one key add up to; over the column `_in_<name>` that `value` made."""
        column = F.col(f"_in_{self.name}")
        if self.kind == "count":
            return F.count(column)
        if self.is_ordered:
            pair = F.struct(F.col("_position").alias("p"), column.alias("x"))
            return F.transform(F.array_sort(F.collect_list(F.when(column.isNotNull(), pair))), lambda item: item["x"])
        return F.coalesce(F.sum(column), F.lit(0)).cast(str(self.accumulator_type))

    def merged(self, old: Column | None, new: Column) -> Column:
        """The accumulator after a batch. `old` is the row's accumulator, None for a new row."""
        if self.is_ordered:
            return F.aggregate(new, F.lit(0.0) if old is None else old, lambda total, x: total + x)
        total = new if old is None else old + new
        return total if self.accumulator_type is None else total.cast(self.accumulator_type)

    def unit(self) -> Column:
        """What one record adds to the accumulator; null where it adds nothing."""
        if self.kind == "count":
            return F.when(self.value().isNotNull(), F.lit(1)).cast("bigint")
        return self.value()

    def running(self, units: Column, window: WindowSpec) -> Column:
        """The accumulator after each record, over `unit`s in a window by key in position order."""
        total = F.coalesce(F.sum(units).over(window), F.lit(0))
        return total.cast(self.accumulator_type or self.column_type)

    def shown(self, accumulator: Column) -> Column:
        """The column that people see, made from the accumulator; null where the type has no room for it."""
        return accumulator if self.accumulator_type is None else accumulator.try_cast(self.column_type)


def sql_aggregate(item: NamedAggregation, kind: str) -> SqlAggregate:
    """Return the SQL form of an aggregation whose argument has this Spark type ("" for COUNT)."""
    return SqlAggregate(item.name, item.kind, kind, item.argument.text if item.argument else None)


def decimal_digits(kind: str) -> tuple[int, int]:
    """Return precision and scale of a type text such as "decimal(10,2)"."""
    precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)
