"""The aggregates of declarations: count, sum, latest and the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot.expressions import Alias

from lakehouse.errors import PlanError
from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.expression.fit_values import TypeFit
from lakehouse.plan.expression.function import function_text
from lakehouse.plan.one_type import parse_one_type
from lakehouse.plan.refused.arguments import check_flag, check_function
from lakehouse.plan.written.canonical import without_comments

AggregateOptions = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """An aggregate of a declaration: its kind, the expression that it reads (None for COUNT(*)), and its options."""

    kind: str
    argument: str | None = None
    options: AggregateOptions = ()

    def __post_init__(self) -> None:
        if self.argument is None and self.kind != "count":
            name = {"latest_k": "latest", "earliest_k": "earliest"}.get(self.kind, self.kind)
            raise PlanError(f'{name}: found None, expected a column or an expression: lh.{name}("amount").')

    @property
    def can_merge(self) -> bool:
        """True if two accumulators can be merged, which sessions need."""
        return self.kind != "aggregate" or dict(self.options)["merge"] is not None

    def __str__(self) -> str:
        return aggregation_text(self.kind, self.argument, self.options)


def aggregation_text(kind: str, argument: object, options: AggregateOptions) -> str:
    """Return an aggregate as text, with each function as its name and digest."""
    option_texts = [
        f"{name}={function_text(value) if callable(value) else repr(value)}"
        for name, value in options
        if value is not None
    ]
    return f"{kind}({', '.join([str(argument or '*'), *option_texts])})"


def count(column: str | None = None) -> Aggregation:
    """COUNT(*), or COUNT(column): the records in which the expression is not null."""
    return Aggregation("count", column)


def count_distinct(column: str) -> Aggregation:
    """COUNT_DISTINCT(column): the number of different values, nulls excluded. Exact; the row keeps all values."""
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


def latest(column: str, k: int | None = None, *, ignore_nulls: bool = True) -> Aggregation:
    """LATEST_BY_OFFSET(column): the last record's value, in order of arrival; nulls are skipped by default.

    k: a list of the last k values instead, the oldest of them first.
    """
    return _by_offset("latest", column, k, ignore_nulls)


def earliest(column: str, k: int | None = None, *, ignore_nulls: bool = True) -> Aggregation:
    """EARLIEST_BY_OFFSET(column): the first record's value, in order of arrival; nulls are skipped by default.

    k: a list of the first k values instead.
    """
    return _by_offset("earliest", column, k, ignore_nulls)


def _by_offset(kind: str, column: str, k: int | None, ignore_nulls: bool) -> Aggregation:
    check_flag(ignore_nulls, f"{kind}: ignore_nulls")
    nulls_option = ("ignore_nulls", ignore_nulls)
    if k is None:
        return Aggregation(kind, column, (nulls_option,))
    return Aggregation(f"{kind}_k", column, (("k", _check_least(k, f"{kind}: k")), nulls_option))


def only(column: str) -> Aggregation:
    """ATTR(column): the value that all records have; null if they have several values, null being one."""
    return Aggregation("only", column)


def collect_list(column: str, *, limit: int | None = None) -> Aggregation:
    """COLLECT_LIST(column): every value, nulls too, in first-seen order; at most `limit` of them."""
    return Aggregation("collect_list", column, (("limit", _check_least(limit, "collect_list: limit")),))


def collect_set(column: str, *, limit: int | None = None) -> Aggregation:
    """COLLECT_SET(column): every different value, null too, in first-seen order; at most `limit` of them."""
    return Aggregation("collect_set", column, (("limit", _check_least(limit, "collect_set: limit")),))


def top_k(column: str, k: int, *, distinct: bool = False, by: str | None = None) -> Aggregation:
    """TOPK(column, k), or TOPKDISTINCT: the k largest values, the largest first; nulls are skipped.

    by: of structs, the field that orders them: top_k("struct(price, id)", 3, by="price").
    """
    check_flag(distinct, "top_k: distinct")
    if not isinstance(by, str | None):
        raise PlanError(f'top_k: by={by!r}: expected the name of a field: top_k("struct(price, id)", 3, by="price").')
    order_option = (("by", by),) if by is not None else ()
    return Aggregation("top_k", column, (("k", _check_least(k, "top_k: k")), ("distinct", distinct), *order_option))


def stddev(column: str) -> Aggregation:
    """STDDEV_SAMPLE(column): the sample standard deviation; over fewer than two values it is 0.0."""
    return Aggregation("stddev", column)


def variance(column: str) -> Aggregation:
    """The square of `stddev`; ksqlDB calls it STDDEV_SAMP."""
    return Aggregation("variance", column)


def correlation(x: str, y: str) -> Aggregation:
    """CORRELATION(x, y): Pearson's coefficient of two numbers; NaN over fewer than two records, or without spread."""
    texts = []
    for sql_text in (x, y):
        if isinstance(Expression(sql_text).tree, Alias):
            raise PlanError(f"correlation: {sql_text!r} names a column with AS, where only a value is expected.")
        texts.append(without_comments(sql_text))
    return Aggregation("correlation", "named_struct('x', cast({} AS double), 'y', cast({} AS double))".format(*texts))


def histogram(column: str) -> Aggregation:
    """HISTOGRAM(column): how often each text occurs, as map<string, bigint>; nulls are skipped."""
    return Aggregation("histogram", column)


def reduce(column: str, function: Callable[[Any, Any], Any]) -> Aggregation:
    """Fold the values that are not null with function(so far, value), beginning with the first one.

    The function must give the same result for the same input, and be associative for session windows. A value on which
    it raises, or for which its result does not fit the column's type, is left out like a null.
    """
    check_function(function, "reduce: function")
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
    """A user-defined aggregate: begin with `zero`, add(accumulator, value) for each record (nulls too), show `result`.

    accumulator, returns: their Spark types ("struct<n: bigint, total: double>"); without `result` the accumulator is
    visible. merge(earlier, later): needed for sessions. undo(accumulator, value): takes out a value again, for
    aggregates over tables. The functions must give the same result for the same input, and not change their arguments.
    A record on which `add` raises, or gives a value that does not fit, is left out; a `result` that raises shows null.
    """
    check_function(add, "aggregate: add")
    for name, function in (("result", result), ("merge", merge), ("undo", undo)):
        if function is not None:
            check_function(function, f"aggregate: {name}")
    if (result is None) != (returns is None):
        raise PlanError("aggregate: result and returns go together: the function, and the type that it gives.")
    for parameter, type_text in (("accumulator", accumulator), ("returns", returns)):
        if type_text is not None:
            parse_one_type(type_text, f"aggregate: {parameter}")
    try:
        TypeFit(accumulator)(zero)
    except (ValueError, ArithmeticError) as error:
        raise PlanError(f"aggregate: zero={zero!r} does not fit accumulator={accumulator!r}; expected one.") from error
    options = {"zero": zero, "add": add, "accumulator": accumulator, "result": result, "returns": returns}
    return Aggregation("aggregate", column, (*options.items(), ("merge", merge), ("undo", undo)))


def _check_least(value: int | None, subject: str) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise PlanError(f"{subject}={value!r}; expected a whole number from 1.")
    return value
