"""Aggregates over a stream's columns: their rules and types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import NeedsSpark, PlanError
from lakehouse.plan.aggregates import AggregateOptions, Aggregation, as_text
from lakehouse.plan.expression import Expression, Json, expression, expression_type, sql
from lakehouse.plan.fitted import Fitted
from lakehouse.plan.function import digest, value_text
from lakehouse.plan.schema import POSITION_TYPE, Column, base_type, field_types, is_number
from lakehouse.semantics.aggregate.aggregate import (
    Average,
    Count,
    CountAll,
    Deviation,
    Max,
    Min,
    Rule,
    SumDecimals,
    SumDoubles,
    SumIntegers,
    Variance,
)  # fmt: skip
from lakehouse.semantics.aggregate.collection import (
    CollectList,
    CollectSet,
    CountDistinct,
    Histogram,
    OnlyValue,
    TopK,
)  # fmt: skip
from lakehouse.semantics.aggregate.correlation import TYPE as CORRELATION_TYPE
from lakehouse.semantics.aggregate.correlation import Correlation
from lakehouse.semantics.aggregate.custom import Custom, Reduce
from lakehouse.semantics.aggregate.ordered import EarliestValue, EarliestValues, LatestValue, LatestValues
from lakehouse.semantics.aggregate.undo import EXACT_TYPE, AverageRows, FromRows, RowRule, SumRowDoubles, undoing
from lakehouse.semantics.aggregate.wide_sum import DECIMAL_DIGITS_MAX, PART_DIGITS, PARTS, SumWideDecimals

INTEGERS = ("tinyint", "smallint", "int", "bigint")
# One digit below the largest DECIMAL, so that the sum of two accumulators keeps its scale. Sums over decimals of more
# than 18 digits could be larger: their accumulator has three of these.
SUM_DIGITS = 37
# These have a second form in Spark SQL (`lakehouse.spark.operators.aggregates`); the others run as semantics has them.
SQL_KINDS = ("count", "sum", "avg", "min", "max", "latest", "earliest")


@dataclass(frozen=True, slots=True)
class NamedAggregation:
    """An aggregation bound to a stream's columns, and the name of its result. undoes: over the rows of a table."""

    name: str
    kind: str
    argument: Expression | None
    options: AggregateOptions = ()
    undoes: bool = False

    def __str__(self) -> str:
        return f"{as_text(self.kind, self.argument, self.options)} AS {self.name}"


def named_aggregation(
    name: str, item: Aggregation, columns: Iterable[Column], what: str, *, undoes: bool = False
) -> NamedAggregation:
    """Return an aggregation bound to columns; PlanError if their types, as far as they are known, do not fit."""
    columns = list(columns)
    argument = expression(item.argument, columns, f"{what}: {item}") if item.argument is not None else None
    made = NamedAggregation(name, item.kind, argument, item.options, undoes)
    kind = expression_type(argument, columns) if argument is not None else ""
    if kind is not None:
        try:
            bind(made, kind)
        except PlanError as error:
            raise PlanError(f"{what}: {error}") from error
    return made


@dataclass(frozen=True, slots=True)
class Bound:
    """An aggregation with its types: the rule, the visible type, and the type that is kept (None: the visible one)."""

    rule: Rule | RowRule
    shown: str
    accumulator: str | None = None


def bind(item: NamedAggregation, kind: str) -> Bound:
    """Return an aggregation's rule and types, for an argument of the Spark type `kind`. Raises PlanError."""
    bound = _bound(item, kind)
    return _undoing(bound, kind) if item.undoes else bound


def _undoing(bound: Bound, kind: str) -> Bound:
    """The same over the rows of a table: what is kept must do to take one of them out again."""
    assert not isinstance(bound.rule, RowRule)
    rule, kept = undoing(bound.rule), bound.accumulator
    match rule:
        case FromRows():
            kept = f"map<string, {kind}>"
        case SumRowDoubles():
            kept = EXACT_TYPE
        case AverageRows(SumRowDoubles()):
            kept = f"struct<sum: {EXACT_TYPE}, n: bigint>"
    return Bound(rule, bound.shown, kept)


def _bound(item: NamedAggregation, kind: str) -> Bound:
    options = dict(item.options)
    match item.kind:
        case "count":
            return Bound(CountAll() if item.argument is None else Count(), "bigint")
        case "sum" | "avg" | "stddev" | "variance":
            return _over_numbers(item, kind)
        case "top_k" if "by" in options:
            return _top_by(item, kind)
        case "min" | "max" | "top_k" if base_type(kind) in ("map", "array", "struct"):
            raise PlanError(f"{item}: a {base_type(kind)} has no order; use one of its fields.")
        case "min" | "max":
            return Bound(Min() if item.kind == "min" else Max(), kind)
        case "latest" | "earliest":
            rule = LatestValue if item.kind == "latest" else EarliestValue
            return Bound(rule(options["ignore_nulls"]), kind, f"struct<at: {POSITION_TYPE}, value: {kind}>")
        case "latest_k" | "earliest_k":
            many = LatestValues if item.kind == "latest_k" else EarliestValues
            kept = f"array<struct<at: {POSITION_TYPE}, value: {kind}>>"
            return Bound(many(options["k"], options["ignore_nulls"]), f"array<{kind}>", kept)
        case "only":
            return Bound(OnlyValue(), kind, f"array<{kind}>")
        case "correlation":
            return Bound(Correlation(), "double", CORRELATION_TYPE)
        case "collect_list":
            return Bound(CollectList(options["limit"]), f"array<{kind}>")
        case "collect_set":
            return Bound(CollectSet(options["limit"]), f"array<{kind}>")
        case "count_distinct":
            return Bound(CountDistinct(), "bigint", f"array<{kind}>")
        case "top_k":
            return Bound(TopK(options["k"], options["distinct"]), f"array<{kind}>")
        case "histogram":
            if kind != "string":
                raise PlanError(
                    f'{item} counts texts, but found a {kind}: histogram("cast({item.argument} AS string)").'
                )
            return Bound(Histogram(), "map<string, bigint>")
        case "reduce":
            return Bound(Reduce(options["function"], Fitted(kind)), kind)
    functions = (options["add"], options["result"], options["merge"], options["undo"])
    made = Custom(options["zero"], *functions, Fitted(options["accumulator"]), Fitted(options["returns"] or ""))
    if options["returns"] is None:
        return Bound(made, options["accumulator"])
    return Bound(made, options["returns"], options["accumulator"])


def _top_by(item: NamedAggregation, kind: str) -> Bound:
    """kind: empty where only Spark can tell it."""
    options = dict(item.options)
    fields = field_types(kind) if base_type(kind) == "struct" else {}
    if kind and not {options["by"], options["by"].lower()} & {*fields}:
        raise PlanError(f"{item}: by={options['by']!r}; expected a field of a struct, found a {kind}.")
    if kind and (base := base_type(fields.get(options["by"], ""))) in ("map", "array", "struct"):
        raise PlanError(f"{item}: a {base} has no order; use one of its fields.")
    return Bound(TopK(options["k"], options["distinct"], options["by"]), f"array<{kind}>")


def _over_numbers(item: NamedAggregation, kind: str) -> Bound:
    if not is_number(kind):
        words = {"sum": "sums", "avg": "averages"}.get(item.kind, "is over")
        raise PlanError(f'{item} {words} a {kind}. Cast it: lh.{item.kind}("cast({item.argument} AS double)").')
    if item.kind in ("stddev", "variance"):
        rule_of_spread = Deviation() if item.kind == "stddev" else Variance()
        return Bound(rule_of_spread, "double", "struct<n: bigint, mean: double, m2: double>")
    rule: SumIntegers | SumDecimals | SumWideDecimals | SumDoubles
    if kind in INTEGERS:
        rule, shown, kept = SumIntegers(), "bigint", f"decimal({SUM_DIGITS}, 0)"
    elif kind in ("float", "double"):
        rule, shown, kept = SumDoubles(), "double", "double"
    else:
        precision, scale = decimal_digits(kind)
        shown, kept = (
            f"decimal({min(precision + 10, DECIMAL_DIGITS_MAX)}, {scale})",
            f"decimal({SUM_DIGITS}, {scale})",
        )
        rule = SumDecimals(precision, scale)
        if precision > PART_DIGITS:
            rule = SumWideDecimals(precision, scale)
            kept = f"struct<{', '.join(f'{part}: decimal({SUM_DIGITS}, 0)' for part in PARTS)}>"
    if item.kind == "avg":
        return Bound(Average(rule), "double", f"struct<sum: {kept}, n: bigint>")
    return Bound(rule, shown, None if shown == kept else kept)


def decimal_digits(kind: str) -> tuple[int, int]:
    """Return precision and scale of a type text such as "decimal(10,2)"."""
    precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",") if "(" in kind else ("10", "0")
    return int(precision), int(scale)


def subtracts(item: NamedAggregation, columns: Iterable[Column]) -> bool:
    """Say whether an aggregate over rows has a form in SQL: a count, a sum or a mean of a column whose sum is exact."""
    if item.kind == "count" or item.argument is None:
        return item.kind == "count"
    kind = expression_type(item.argument, columns) if item.argument.is_column else None
    if item.kind not in ("sum", "avg") or kind is None:
        return False
    return kind in INTEGERS or (base_type(kind) == "decimal" and decimal_digits(kind)[0] <= PART_DIGITS)


def rule(item: NamedAggregation, columns: Iterable[Column]) -> Any:
    """Return an aggregation's rule for the model; NeedsSpark if only Spark can tell the argument's type."""
    kind = expression_type(item.argument, columns) if item.argument is not None else ""
    if kind is None and item.kind in ("sum", "avg"):
        raise NeedsSpark(f"{item}: the model can't tell its type; write cast({item.argument} AS bigint), or use Spark.")
    return bind(item, kind or ("" if item.kind == "reduce" or dict(item.options).get("by") else "string")).rule


def shown_type(item: NamedAggregation, columns: Iterable[Column]) -> str | None:
    """Return the visible type, if it can be told without Spark."""
    kind = expression_type(item.argument, columns) if item.argument is not None else ""
    return None if kind is None else bind(item, kind).shown


def aggregation_fingerprint(item: NamedAggregation) -> Json:
    """Return an aggregation's part of a fingerprint."""
    options = {
        name: {"function": digest(value)} if callable(value) else value_text(value)
        for name, value in item.options
        if value is not None
    }
    argument = sql(item.argument) if item.argument is not None else None
    return {"kind": item.kind, "argument": argument, "options": options}
