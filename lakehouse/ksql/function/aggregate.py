"""ksqlDB's aggregate functions: the aggregates of the graph under their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakehouse.errors import SqlError
from lakehouse.ksql.function.sql import Sql, exact_sum
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan import aggregate_functions as ours
from lakehouse.plan.aggregate_functions import Aggregation

# An option: a literal after the aggregated expressions, which is a whole number, true or false.
Option = int | bool
# The options of a function, in order; each tuple is one way to call it.
Options = tuple[tuple[type[Option], ...], ...]


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate function.

    takes: the type of the first argument: "any", "number", "text", "ordered" or "array of numbers"; COUNT may have
    none. make_aggregation: called with the Spark SQL of the arguments, and the options; gives the aggregate. gives:
    called with the types of the arguments, and the options; gives the type of the result. usage: the arguments, on the
    page. arguments: their least and greatest number. argument_sql: called with an argument; gives the Spark SQL to
    aggregate.
    """

    name: str
    takes: str
    make_aggregation: Callable[..., Aggregation]
    gives: Callable[..., Kind]
    nulls: str
    here: str
    differs: str = ""
    usage: str = ""
    options: Options = ((),)
    arguments: tuple[int, int] = (1, 1)
    argument_sql: Callable[[Sql], str] = lambda argument: argument.text

    @property
    def argument_form(self) -> str:
        """The arguments that it takes, in words."""
        argument_words = "an expression" if self.arguments == (1, 1) else "expressions"
        return argument_words if () in self.options else f"an expression and a literal: {self.usage}"

    def call(self, arguments: Sequence[Sql], options: Sequence[Option]) -> Aggregation:
        """Return the aggregate of arguments, with options."""
        return self.make_aggregation(*map(self._typed_text, arguments), *options)

    def _typed_text(self, argument: Sql) -> str:
        """Return the Spark SQL to aggregate; for a computed number it names the type."""
        argument_text = self.argument_sql(argument)
        is_computed = self.takes == "number" and not re.fullmatch(r"\w+|`[^`]*`", argument_text)
        return f"cast({argument_text} AS {argument.kind.spark})" if is_computed else argument_text


def _sum_kind(kind: Kind) -> Kind:
    if kind.name == "DECIMAL":
        return k.decimal_of(kind.digits[0] + 10, kind.digits[1])
    return k.DOUBLE if kind == k.DOUBLE else k.BIGINT


def _sum_of_list(list_value: Sql) -> str:
    item_kind = list_value.kind.inner[0]
    sum_kind = _sum_kind(item_kind)
    sum_type = sum_kind.wire_type
    left, right = Sql("_sum", sum_kind), Sql(f"coalesce(_one, cast(0 AS {item_kind.wire_type}))", item_kind)
    exact = exact_sum("+", left, right, sum_kind) if sum_kind.name == "DECIMAL" else None
    add_lambda = f"(_sum, _one) -> {exact or f'cast(_sum + coalesce(_one, 0) AS {sum_type})'}"
    return f"cast(reduce({list_value.text}, cast(0 AS {sum_type}), {add_lambda}) AS {sum_type})"


def _top_aggregation(*arguments: str | int, distinct: bool = False) -> Aggregation:
    *value_texts, count = arguments
    if len(value_texts) == 1:
        return ours.top_k(str(value_texts[0]), int(count), distinct=distinct)
    struct_members = ", ".join(
        f"'{name}', {text}" for name, text in zip(_top_names(len(value_texts)), value_texts, strict=True)
    )
    return ours.top_k(f"named_struct({struct_members})", int(count), by=_top_names(1)[0])


def _top_kind(*arguments: Kind | int) -> Kind:
    value_kinds = [argument for argument in arguments if isinstance(argument, Kind)]
    return k.array_of(
        value_kinds[0]
        if len(value_kinds) == 1
        else k.struct_of(dict(zip(_top_names(len(value_kinds)), value_kinds, strict=True)))
    )


def _top_names(count: int) -> list[str]:
    """Return the fields of a TOPK value with several columns: the one that orders, then the others."""
    return ["sort_col", *(f"col{number}" for number in range(count - 1))]


def _top_distinct(text: str, count: int) -> Aggregation:
    return _top_aggregation(text, count, distinct=True)


def _offset_aggregation(aggregate: Callable[..., Aggregation]) -> Callable[..., Aggregation]:
    def make_aggregation(column: str, *options: Option) -> Aggregation:
        count = next((option for option in options if not isinstance(option, bool)), None)
        return aggregate(
            column, count, ignore_nulls=next((option for option in options if isinstance(option, bool)), True)
        )

    return make_aggregation


def _offset_kind(kind: Kind, *options: Option) -> Kind:
    return k.array_of(kind) if any(not isinstance(option, bool) for option in options) else kind


_OFFSET: Options = ((), (bool,), (int,), (int, bool))
_SKIPPED = "nulls are skipped"
_SAME: Callable[[Kind], Kind] = lambda kind: kind  # noqa: E731
_DOUBLE: Callable[..., Kind] = lambda *kind: k.DOUBLE  # noqa: E731
_RECORDS = (
    AggregateFunction("COUNT", "any", ours.count, lambda kind: k.BIGINT, _SKIPPED + "; COUNT(*) counts all", "count"),
    AggregateFunction(
        "SUM", "number", ours.sum, _sum_kind, "nulls are skipped; over nulls alone it is 0", "sum",
        "SUM of INTEGER is a BIGINT; of DECIMAL(p, s) it is a DECIMAL(p + 10, s): CAST(SUM(x) AS DECIMAL(p, s)) gives "
        "ksqlDB's type; a sum outside its type is null until it fits again",
    ),
    AggregateFunction(
        "SUM_LIST", "array of numbers", ours.sum, lambda kind: _sum_kind(kind.inner[0]),
        "null arrays and null elements are skipped; over nulls alone it is 0", "sum", "as for SUM",
        argument_sql=_sum_of_list,
    ),
    AggregateFunction("AVG", "number", ours.avg, _DOUBLE, "nulls are skipped; over nulls alone it is 0.0", "avg"),
    AggregateFunction("MIN", "ordered", ours.min, _SAME, _SKIPPED, "min"),
    AggregateFunction("MAX", "ordered", ours.max, _SAME, _SKIPPED, "max"),
    AggregateFunction(
        "COUNT_DISTINCT", "any", ours.count_distinct, lambda kind: k.BIGINT, _SKIPPED, "count_distinct", "exact"
    ),
    AggregateFunction(
        "LATEST_BY_OFFSET", "any", _offset_aggregation(ours.latest), _offset_kind,
        "nulls are skipped, but for LATEST_BY_OFFSET(x, false)", "latest", usage="any, k?, boolean?", options=_OFFSET,
    ),
    AggregateFunction(
        "EARLIEST_BY_OFFSET", "any", _offset_aggregation(ours.earliest), _offset_kind,
        "nulls are skipped, but for EARLIEST_BY_OFFSET(x, false)", "earliest", usage="any, k?, boolean?",
        options=_OFFSET,
    ),
    AggregateFunction("ATTR", "any", ours.only, _SAME, "null is a value like any other", "only"),
    AggregateFunction(
        "COLLECT_LIST",
        "any",
        ours.collect_list,
        k.array_of,
        "nulls are kept",
        "collect_list",
        "no limit of 1,000 values",
    ),
    AggregateFunction(
        "COLLECT_SET", "any", ours.collect_set, k.array_of, "null is kept", "collect_set", "no limit of 1,000 values"
    ),
    AggregateFunction(
        "TOPK", "ordered", _top_aggregation, _top_kind, _SKIPPED, "top_k", usage="ordered, any*, k", options=((int,),),
        arguments=(1, 99),
    ),
    AggregateFunction(
        "TOPKDISTINCT", "ordered", _top_distinct, _top_kind, _SKIPPED, "top_k", usage="ordered, k", options=((int,),)
    ),
    AggregateFunction(
        "HISTOGRAM", "text", ours.histogram, lambda kind: k.map_of(k.STRING, k.BIGINT), _SKIPPED, "histogram",
        "no limit of 1,000 texts",
    ),
    AggregateFunction(
        "CORRELATION", "number", ours.correlation, _DOUBLE, "records in which one is null are skipped", "correlation",
        usage="number, number", arguments=(2, 2),
    ),
    AggregateFunction("STDDEV_SAMPLE", "number", ours.stddev, _DOUBLE, _SKIPPED, "stddev"),
    AggregateFunction("STDDEV_SAMP", "number", ours.variance, _DOUBLE, _SKIPPED + "; it is the variance", "variance"),
    AggregateFunction("STD_DEV_SAMP", "number", ours.variance, _DOUBLE, _SKIPPED + "; it is the variance", "variance"),
)  # fmt: skip
AGGREGATES = {record.name: record for record in _RECORDS}


# The argument types of aggregates in words, for messages.
TAKES = {
    "number": "a number: CAST(... AS DOUBLE), or AS DECIMAL(10, 2), of a text that has one",
    "text": "a text: CAST(... AS VARCHAR)",
    "ordered": "what has an order: a number, a text, bytes, a date or a time",
    "array of numbers": "an array of numbers",
}
ORDERED = ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL", "STRING", "BYTES", "DATE", "TIME", "TIMESTAMP")


def check_argument_kinds(record: AggregateFunction, kinds: list[Kind], position: int) -> None:
    """Raise SqlError for arguments that an aggregate does not take. position: the place of its call."""
    checked_kinds = kinds if record.takes == "number" else kinds[:1]
    for kind in checked_kinds:
        is_taken = {
            "any": True, "number": kind.is_number, "text": kind.name == "STRING", "ordered": kind.name in ORDERED,
            "array of numbers": kind.name == "ARRAY" and kind.inner[0].is_number,
        }[record.takes]  # fmt: skip
        if not is_taken:
            kind_texts = ", ".join(map(str, kinds))
            expected_words = TAKES[record.takes]
            raise SqlError(
                f"function '{record.name}' does not accept parameters ({kind_texts})", position, expected=expected_words
            )
