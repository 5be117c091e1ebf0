"""Aggregates as they are declared: their names, what they read, and which rule and types that gives them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import NeedsSpark, PlanError
from lakehouse.plan.expression import Expression, expression, expression_type
from lakehouse.plan.fitted import Fitted
from lakehouse.plan.schema import POSITION_TYPE, Column, base_type, is_number, parse_schema
from lakehouse.plan.step import function_text
from lakehouse.semantics.aggregate.aggregate import (
    Aggregate,
    Average,
    Count,
    CountAll,
    Deviation,
    Max,
    Min,
    SumDecimals,
    SumDoubles,
    SumIntegers,
)  # fmt: skip
from lakehouse.semantics.aggregate.collection import CollectList, CollectSet, CountDistinct, Histogram, TopK
from lakehouse.semantics.aggregate.custom import Custom, Reduce
from lakehouse.semantics.aggregate.ordered import Earliest, Latest
from lakehouse.semantics.aggregate.wide_sum import DECIMAL_DIGITS_MAX, PART_DIGITS, PARTS, SumWideDecimals

INTEGERS = ("tinyint", "smallint", "int", "bigint")
# One digit below the largest DECIMAL, so that the sum of two accumulators keeps its scale. Decimals of more than 18
# digits could add up to more: theirs has three of these.
SUM_DIGITS = 37
# These have a second form in Spark SQL (`lakehouse.spark.operators.aggregates`); the others run as they stand in
# semantics.
SQL_KINDS = ("count", "sum", "avg", "min", "max", "latest", "earliest")
Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate of a declaration: its kind, the expression that it reads (None for COUNT(*)), and its options."""

    kind: str
    argument: str | None = None
    options: Options = ()

    @property
    def can_merge(self) -> bool:
        """True where two accumulators can become one, which sessions need."""
        return self.kind != "aggregate" or dict(self.options)["merge"] is not None

    def __str__(self) -> str:
        return _text(self.kind, self.argument, self.options)


@dataclass(frozen=True, slots=True)
class NamedAggregation:
    """An aggregation bound to a stream's columns, and the name of its result."""

    name: str
    kind: str
    argument: Expression | None
    options: Options = ()

    def __str__(self) -> str:
        return f"{_text(self.kind, self.argument, self.options)} AS {self.name}"


def _text(kind: str, argument: object, options: Options) -> str:
    shown = [f"{name}={function_text(v) if callable(v) else repr(v)}" for name, v in options if v is not None]
    return f"{kind}({', '.join([str(argument or '*'), *shown])})"


def count(column: str | None = None) -> Aggregation:
    """COUNT(*), or COUNT(column): the records in which the expression is not null."""
    return Aggregation("count", column)


def count_distinct(column: str) -> Aggregation:
    """COUNT_DISTINCT(column): how many different values that are not null. Exact; the row keeps them all."""
    return Aggregation("count_distinct", column)


def sum(column: str) -> Aggregation:
    """SUM(column): exact over integers and decimals; over only nulls it is 0. Doubles: see SumDoubles."""
    return Aggregation("sum", column)


def avg(column: str) -> Aggregation:
    """AVG(column), as a double; over only nulls it is 0.0."""
    return Aggregation("avg", column)


def min(column: str) -> Aggregation:
    """MIN(column); over only nulls it is null."""
    return Aggregation("min", column)


def max(column: str) -> Aggregation:
    """MAX(column); over only nulls it is null."""
    return Aggregation("max", column)


def latest(column: str, *, ignore_nulls: bool = True) -> Aggregation:
    """LATEST_BY_OFFSET(column): the last record's value, in the order of arrival; nulls are skipped unless told."""
    return Aggregation("latest", column, (("ignore_nulls", ignore_nulls),))


def earliest(column: str, *, ignore_nulls: bool = True) -> Aggregation:
    """EARLIEST_BY_OFFSET(column): the first record's value, in the order of arrival; nulls are skipped unless told."""
    return Aggregation("earliest", column, (("ignore_nulls", ignore_nulls),))


def collect_list(column: str, *, limit: int | None = None) -> Aggregation:
    """COLLECT_LIST(column): every value, nulls too, in first-seen order; `limit` of them at the most."""
    return Aggregation("collect_list", column, (("limit", _least(limit, "collect_list: limit")),))


def collect_set(column: str, *, limit: int | None = None) -> Aggregation:
    """COLLECT_SET(column): every different value, null too, in first-seen order; `limit` of them at the most."""
    return Aggregation("collect_set", column, (("limit", _least(limit, "collect_set: limit")),))


def top_k(column: str, k: int, *, distinct: bool = False) -> Aggregation:
    """TOPK(column, k), or TOPKDISTINCT: the k largest values, the largest first; nulls are skipped."""
    return Aggregation("top_k", column, (("k", _least(k, "top_k: k")), ("distinct", distinct)))


def stddev(column: str) -> Aggregation:
    """STDDEV_SAMPLE(column): the sample standard deviation; over fewer than two values it is 0.0."""
    return Aggregation("stddev", column)


def histogram(column: str) -> Aggregation:
    """HISTOGRAM(column): how often each text came, as map<string, bigint>; nulls are skipped."""
    return Aggregation("histogram", column)


def reduce(column: str, function: Callable[[Any, Any], Any]) -> Aggregation:
    """Fold the values that are not null with function(so far, value), beginning with the first of them.

    The function must give the same again for the same input, and be associative where the window is a session. A value
    on which it raises, or gives what does not fit the column's type, is left out as a null is.
    """
    return Aggregation("reduce", column, (("function", function),))


def aggregate(
    column: str,
    *,
    zero: Any,
    add: Callable[[Any, Any], Any],
    accumulator: str,
    result: Callable[[Any], Any] | None = None,
    returns: str | None = None,
    merge: Callable[[Any, Any], Any] | None = None,
    undo: Callable[[Any, Any], Any] | None = None,
) -> Aggregation:
    """A user-defined aggregate: begin with `zero`, add(accumulator, value) each record (nulls too), show `result`.

    accumulator, returns: their Spark types ("struct<n: bigint, total: double>"); without `result` the accumulator is
    what people see. merge(earlier, later): needed for sessions. undo(accumulator, value): takes a value out again, for
    aggregates over tables. The functions must give the same again, and not change their arguments. A record on which
    `add` raises, or gives what does not fit, is left out; a `result` that raises shows null.
    """
    if (result is None) != (returns is None):
        raise PlanError("aggregate: result and returns go together: the function, and the type that it gives.")
    for what, kind in (("accumulator", accumulator), ("returns", returns)):
        if kind is not None:
            parse_schema(f"x {kind}", f"aggregate: {what}")
    try:
        Fitted(accumulator)(zero)
    except (ValueError, ArithmeticError) as error:
        raise PlanError(f"aggregate: zero={zero!r} does not fit accumulator={accumulator!r}; expected one.") from error
    options = {"zero": zero, "add": add, "accumulator": accumulator, "result": result, "returns": returns}
    return Aggregation("aggregate", column, (*options.items(), ("merge", merge), ("undo", undo)))


def _least(value: int | None, what: str) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise PlanError(f"{what}={value!r}; expected a whole number from 1.")
    return value


def named_aggregation(name: str, item: Aggregation, columns: Iterable[Column], what: str) -> NamedAggregation:
    """Return an aggregation bound to columns; PlanError where their types, as far as they can be told, do not fit."""
    columns = list(columns)
    argument = expression(item.argument, columns, f"{what}: {item}") if item.argument is not None else None
    made = NamedAggregation(name, item.kind, argument, item.options)
    kind = expression_type(argument, columns) if argument is not None else ""
    if kind is not None:
        bind(made, kind)
    return made


@dataclass(frozen=True, slots=True)
class Bound:
    """An aggregation with its types: the rule, what people see, and what is kept (None: what people see)."""

    rule: Aggregate
    shown: str
    accumulator: str | None = None


def bind(item: NamedAggregation, kind: str) -> Bound:
    """Return an aggregation's rule and types, for an argument of the Spark type `kind`. Raises PlanError."""
    options = dict(item.options)
    match item.kind:
        case "count":
            return Bound(CountAll() if item.argument is None else Count(), "bigint")
        case "sum" | "avg" | "stddev":
            return _over_numbers(item, kind)
        case "min" | "max" | "top_k" if base_type(kind) in ("map", "array", "struct"):
            raise PlanError(f"{item}: a {base_type(kind)} has no order; take one of its fields.")
        case "min" | "max":
            return Bound(Min() if item.kind == "min" else Max(), kind)
        case "latest" | "earliest":
            rule = Latest if item.kind == "latest" else Earliest
            return Bound(rule(options["ignore_nulls"]), kind, f"struct<at: {POSITION_TYPE}, value: {kind}>")
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


def _over_numbers(item: NamedAggregation, kind: str) -> Bound:
    if not is_number(kind):
        words = {"sum": "sums", "avg": "averages"}.get(item.kind, "is over")
        raise PlanError(f'{item} {words} a {kind}. Cast it: lh.{item.kind}("cast({item.argument} AS double)").')
    if item.kind == "stddev":
        return Bound(Deviation(), "double", "struct<n: bigint, mean: double, m2: double>")
    rule: SumIntegers | SumDecimals | SumWideDecimals | SumDoubles
    if kind in INTEGERS:
        rule, shown, kept = SumIntegers(), "bigint", f"decimal({SUM_DIGITS}, 0)"
    elif kind in ("float", "double"):
        rule, shown, kept = SumDoubles(), "double", "double"
    else:
        precision, scale = decimal_digits(kind)
        shown, kept = (
            f"decimal({builtins.min(precision + 10, DECIMAL_DIGITS_MAX)}, {scale})",
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


def rule(item: NamedAggregation, columns: Iterable[Column]) -> Aggregate:
    """Return an aggregation's rule for the model; NeedsSpark where only Spark can tell the argument's type."""
    kind = expression_type(item.argument, columns) if item.argument is not None else ""
    if kind is None and item.kind in ("sum", "avg"):
        raise NeedsSpark(f"{item}: the model can't tell its type; write cast({item.argument} AS bigint), or use Spark.")
    return bind(item, kind or ("" if item.kind == "reduce" else "string")).rule


def shown_type(item: NamedAggregation, columns: Iterable[Column]) -> str | None:
    """Return the type of what people see, where it can be told without Spark."""
    kind = expression_type(item.argument, columns) if item.argument is not None else ""
    return None if kind is None else bind(item, kind).shown
