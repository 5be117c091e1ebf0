"""Aggregates over a stream's columns: their rules and types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import NeedsSpark, PlanError
from lakehouse.plan.aggregate_functions import AggregateOptions, Aggregation, aggregation_text
from lakehouse.plan.expression.expression import Expression, Json, expression_type, parse_expression, sql_part
from lakehouse.plan.expression.fit_values import TypeFit
from lakehouse.plan.expression.function import function_digest, value_text
from lakehouse.plan.expression.schema import POSITION_TYPE, Column, base_type, field_types, find_field, is_number_type
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
)
from lakehouse.semantics.aggregate.collection import (
    CollectList,
    CollectSet,
    CountDistinct,
    Histogram,
    OnlyValue,
    TopK,
)
from lakehouse.semantics.aggregate.correlation import TYPE as CORRELATION_TYPE
from lakehouse.semantics.aggregate.correlation import Correlation
from lakehouse.semantics.aggregate.custom import Custom, Reduce
from lakehouse.semantics.aggregate.ordered import EarliestValue, EarliestValues, LatestValue, LatestValues
from lakehouse.semantics.aggregate.undo import (
    EXACT_TYPE,
    AverageRows,
    RowRule,
    RowsByKey,
    SumRowDoubles,
    make_row_rule,
)
from lakehouse.semantics.aggregate.wide_sum import PART_DIGITS, PARTS, SumWideDecimals
from lakehouse.semantics.decimal_digits import DECIMAL_DIGITS_MAX

INTEGERS = ("tinyint", "smallint", "int", "bigint")
# One digit less than the largest DECIMAL, so that the sum of two accumulators keeps its scale. Sums of decimals with
# more than 18 digits could be larger: their accumulator has three of these.
SUM_DIGITS = 37
# Aggregates with a form in Spark SQL (`lakehouse.spark.fold.forms.aggregates`); the others run `lakehouse.semantics`.
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
        return f"{aggregation_text(self.kind, self.argument, self.options)} AS {self.name}"


def named_aggregation(
    name: str, aggregation: Aggregation, columns: Iterable[Column], subject: str, *, undoes: bool = False
) -> NamedAggregation:
    """Return an aggregation bound to columns. Raises PlanError if their types, as far as known, do not fit."""
    columns = list(columns)
    argument = (
        parse_expression(aggregation.argument, columns, f"{subject}: {aggregation}")
        if aggregation.argument is not None
        else None
    )
    if aggregation.kind == "correlation" and argument is not None:
        _check_pair_of_numbers(argument, columns, f"{subject}: {name}")
    bound_aggregation = NamedAggregation(name, aggregation.kind, argument, aggregation.options, undoes)
    argument_type = expression_type(argument, columns) if argument is not None else ""
    if argument_type is not None:
        try:
            bind_types(bound_aggregation, argument_type)
        except PlanError as error:
            raise PlanError(f"{subject}: {error}") from error
    return bound_aggregation


def _check_pair_of_numbers(pair: Expression, columns: list[Column], subject: str) -> None:
    """Raise PlanError for a correlation of what is no number: its cast would be null for nearly every record."""
    _, x_cast, _, y_cast = pair.written_tree.expressions
    for cast in (x_cast, y_cast):
        number = Expression(cast.this.sql("spark"))
        number_type = expression_type(number, columns)
        if number_type is not None and not is_number_type(number_type):
            raise PlanError(
                f"{subject}: correlation of {number}, a {number_type}; expected numbers. Cast a text that is one: "
                f"cast({number} AS double)."
            )


@dataclass(frozen=True, slots=True)
class BoundAggregation:
    """An aggregation's rule, its visible type, and the type of its accumulator (None: the visible type)."""

    rule: Rule | RowRule
    visible_type: str
    accumulator: str | None = None


def bind_types(aggregation: NamedAggregation, argument_type: str) -> BoundAggregation:
    """Return an aggregation's rule and types for an argument of this Spark type. Raises PlanError."""
    bound_rule = _bind_rule(aggregation, argument_type)
    return _bind_undoing(bound_rule, argument_type) if aggregation.undoes else bound_rule


def _bind_undoing(bound_rule: BoundAggregation, argument_type: str) -> BoundAggregation:
    """Return the same over the rows of a table: the accumulator must allow taking out a row again."""
    assert not isinstance(bound_rule.rule, RowRule)
    row_rule, kept_type = make_row_rule(bound_rule.rule), bound_rule.accumulator
    match row_rule:
        case RowsByKey():
            kept_type = f"map<string, {argument_type}>"
        case SumRowDoubles():
            kept_type = EXACT_TYPE
        case AverageRows(SumRowDoubles()):
            kept_type = f"struct<sum: {EXACT_TYPE}, n: bigint>"
    return BoundAggregation(row_rule, bound_rule.visible_type, kept_type)


def _bind_rule(aggregation: NamedAggregation, argument_type: str) -> BoundAggregation:
    options = dict(aggregation.options)
    match aggregation.kind:
        case "count":
            return BoundAggregation(CountAll() if aggregation.argument is None else Count(), "bigint")
        case "sum" | "avg" | "stddev" | "variance":
            return _bind_number_rule(aggregation, argument_type)
        case "top_k" if "by" in options:
            return _bind_top_by(aggregation, argument_type)
        case "min" | "max" | "top_k" if base_type(argument_type) in ("map", "array", "struct"):
            raise PlanError(f"{aggregation}: a {base_type(argument_type)} has no order; use one of its fields.")
        case "min" | "max":
            return BoundAggregation(Min() if aggregation.kind == "min" else Max(), argument_type)
        case "latest" | "earliest":
            rule_type = LatestValue if aggregation.kind == "latest" else EarliestValue
            return BoundAggregation(
                rule_type(options["ignore_nulls"]),
                argument_type,
                f"struct<at: {POSITION_TYPE}, value: {argument_type}>",
            )
        case "latest_k" | "earliest_k":
            list_rule_type = LatestValues if aggregation.kind == "latest_k" else EarliestValues
            kept_type = f"array<struct<at: {POSITION_TYPE}, value: {argument_type}>>"
            return BoundAggregation(
                list_rule_type(options["k"], options["ignore_nulls"]), f"array<{argument_type}>", kept_type
            )
        case "only":
            return BoundAggregation(OnlyValue(), argument_type, f"array<{argument_type}>")
        case "correlation":
            return BoundAggregation(Correlation(), "double", CORRELATION_TYPE)
        case "collect_list":
            return BoundAggregation(CollectList(options["limit"]), f"array<{argument_type}>")
        case "collect_set":
            return BoundAggregation(CollectSet(options["limit"]), f"array<{argument_type}>")
        case "count_distinct":
            return BoundAggregation(CountDistinct(), "bigint", f"array<{argument_type}>")
        case "top_k":
            return BoundAggregation(TopK(options["k"], options["distinct"]), f"array<{argument_type}>")
        case "histogram":
            if argument_type != "string":
                raise PlanError(
                    f'{aggregation} counts texts, but found a {argument_type}: histogram("cast({aggregation.argument} '
                    'AS string)").'
                )
            return BoundAggregation(Histogram(), "map<string, bigint>")
        case "reduce":
            return BoundAggregation(Reduce(options["function"], TypeFit(argument_type)), argument_type)
    user_functions = (options["add"], options["result"], options["merge"], options["undo"])
    custom_rule = Custom(
        options["zero"], *user_functions, TypeFit(options["accumulator"]), TypeFit(options["returns"] or "")
    )
    if options["returns"] is None:
        return BoundAggregation(custom_rule, options["accumulator"])
    return BoundAggregation(custom_rule, options["returns"], options["accumulator"])


def _bind_top_by(aggregation: NamedAggregation, argument_type: str) -> BoundAggregation:
    """Return a top-k by a field of structs. argument_type: empty if only Spark can tell it."""
    options = dict(aggregation.options)
    types_by_field = field_types(argument_type) if base_type(argument_type) == "struct" else {}
    options["by"] = find_field(types_by_field, options["by"]) or options["by"]
    if argument_type and options["by"] not in types_by_field:
        raise PlanError(f"{aggregation}: by={options['by']!r}; expected a field of a struct, found a {argument_type}.")
    if argument_type and (base_name := base_type(types_by_field.get(options["by"], ""))) in ("map", "array", "struct"):
        raise PlanError(f"{aggregation}: a {base_name} has no order; use one of its fields.")
    return BoundAggregation(TopK(options["k"], options["distinct"], options["by"]), f"array<{argument_type}>")


def _bind_number_rule(aggregation: NamedAggregation, argument_type: str) -> BoundAggregation:
    if not is_number_type(argument_type):
        verb_text = {"sum": "sums", "avg": "averages"}.get(aggregation.kind, "is over")
        raise PlanError(
            f'{aggregation} {verb_text} a {argument_type}. Cast it: lh.{aggregation.kind}("cast({aggregation.argument} '
            'AS double)").'
        )
    if aggregation.kind in ("stddev", "variance"):
        rule_of_spread = Deviation() if aggregation.kind == "stddev" else Variance()
        return BoundAggregation(rule_of_spread, "double", "struct<n: bigint, mean: double, m2: double>")
    sum_rule: SumIntegers | SumDecimals | SumWideDecimals | SumDoubles
    if argument_type in INTEGERS:
        sum_rule, result_type, kept_type = SumIntegers(), "bigint", f"decimal({SUM_DIGITS}, 0)"
    elif argument_type in ("float", "double"):
        sum_rule, result_type, kept_type = SumDoubles(), "double", "double"
    else:
        precision, scale = decimal_digits(argument_type)
        result_type, kept_type = (
            f"decimal({min(precision + 10, DECIMAL_DIGITS_MAX)}, {scale})",
            f"decimal({SUM_DIGITS}, {scale})",
        )
        sum_rule = SumDecimals(precision, scale)
        if precision > PART_DIGITS:
            sum_rule = SumWideDecimals(precision, scale)
            kept_type = f"struct<{', '.join(f'{part}: decimal({SUM_DIGITS}, 0)' for part in PARTS)}>"
    if aggregation.kind == "avg":
        return BoundAggregation(Average(sum_rule), "double", f"struct<sum: {kept_type}, n: bigint>")
    return BoundAggregation(sum_rule, result_type, None if result_type == kept_type else kept_type)


def decimal_digits(type_text: str) -> tuple[int, int]:
    """Return the precision and scale in a type text such as "decimal(10,2)"."""
    precision, scale = (
        type_text.removeprefix("decimal(").removesuffix(")").split(",") if "(" in type_text else ("10", "0")
    )
    return int(precision), int(scale)


def can_subtract(aggregation: NamedAggregation, columns: Iterable[Column]) -> bool:
    """Say whether an aggregate over rows has a form in SQL: a count, or a sum or mean of a column with exact sums."""
    if aggregation.kind == "count" or aggregation.argument is None:
        return aggregation.kind == "count"
    argument_type = expression_type(aggregation.argument, columns) if aggregation.argument.is_column else None
    if aggregation.kind not in ("sum", "avg") or argument_type is None:
        return False
    return argument_type in INTEGERS or (
        base_type(argument_type) == "decimal" and decimal_digits(argument_type)[0] <= PART_DIGITS
    )


def rule_for_model(aggregation: NamedAggregation, columns: Iterable[Column]) -> Any:
    """Return an aggregation's rule for the model. Raises NeedsSpark if only Spark can tell the argument's type."""
    argument_type = expression_type(aggregation.argument, columns) if aggregation.argument is not None else ""
    if argument_type is None and aggregation.kind in ("sum", "avg"):
        raise NeedsSpark(
            f"{aggregation}: the model can't tell its type; write cast({aggregation.argument} AS bigint), or use Spark."
        )
    return bind_types(
        aggregation,
        argument_type or ("" if aggregation.kind == "reduce" or dict(aggregation.options).get("by") else "string"),
    ).rule


def shown_type(aggregation: NamedAggregation, columns: Iterable[Column]) -> str | None:
    """Return the visible type; None if only Spark can tell it."""
    argument_type = expression_type(aggregation.argument, columns) if aggregation.argument is not None else ""
    return None if argument_type is None else bind_types(aggregation, argument_type).visible_type


def aggregation_fingerprint(aggregation: NamedAggregation) -> Json:
    """Return an aggregation's part of a fingerprint."""
    values = dict(aggregation.options)
    if "zero" in values:  # as the functions get it: a struct's fields in their order
        values["zero"] = TypeFit(values["accumulator"])(values["zero"])
    options = {
        name: {"function": function_digest(value)} if callable(value) else value_text(value)
        for name, value in values.items()
        if value is not None
    }
    argument = sql_part(aggregation.argument) if aggregation.argument is not None else None
    return {"kind": aggregation.kind, "argument": argument, "options": options}
