"""ksqlDB's aggregate functions: the aggregates of the graph under their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan import aggregates as ours
from lakehouse.plan.aggregates import Aggregation

# A literal after the aggregated expression: a whole number, true or false.
Option = int | bool


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate function. options: how many literals may follow its argument; gives: the type of its result.

    takes: "any", "number", "text" or "ordered". The argument may be left out of COUNT.
    """

    name: str
    takes: str
    options: int
    made: Callable[..., Aggregation]
    gives: Callable[[Kind], Kind]
    nulls: str
    here: str
    differs: str = ""


def _sum(of: Kind) -> Kind:
    if of.name == "DECIMAL":
        return k.decimal(of.digits[0] + 10, of.digits[1])
    return k.DOUBLE if of == k.DOUBLE else k.BIGINT


def _top(distinct: bool) -> Callable[..., Aggregation]:
    return lambda column, many: ours.top_k(column, many, distinct=distinct)


def _latest(column: str, ignore_nulls: bool = True) -> Aggregation:
    return ours.latest(column, ignore_nulls=ignore_nulls)


def _earliest(column: str, ignore_nulls: bool = True) -> Aggregation:
    return ours.earliest(column, ignore_nulls=ignore_nulls)


_SKIPPED = "nulls are skipped"
_SAME: Callable[[Kind], Kind] = lambda of: of  # noqa: E731
_RECORDS = (
    AggregateFunction("COUNT", "any", 0, ours.count, lambda of: k.BIGINT, _SKIPPED + "; COUNT(*) counts all", "count"),
    AggregateFunction(
        "SUM", "number", 0, ours.sum, _sum, "nulls are skipped; over nulls alone it is 0", "sum",
        "SUM of INTEGER is a BIGINT; a sum outside its type is null until it fits again",
    ),
    AggregateFunction(
        "AVG", "number", 0, ours.avg, lambda of: k.DOUBLE, "nulls are skipped; over nulls alone it is 0.0", "avg"
    ),
    AggregateFunction("MIN", "ordered", 0, ours.min, _SAME, _SKIPPED, "min"),
    AggregateFunction("MAX", "ordered", 0, ours.max, _SAME, _SKIPPED, "max"),
    AggregateFunction(
        "COUNT_DISTINCT", "any", 0, ours.count_distinct, lambda of: k.BIGINT, _SKIPPED, "count_distinct", "exact"
    ),
    AggregateFunction(
        "LATEST_BY_OFFSET", "any", 1, _latest, _SAME, "nulls are skipped, but for LATEST_BY_OFFSET(x, false)", "latest",
        "no form that gives the last N values",
    ),
    AggregateFunction(
        "EARLIEST_BY_OFFSET", "any", 1, _earliest, _SAME, "nulls are skipped, but for EARLIEST_BY_OFFSET(x, false)",
        "earliest", "no form that gives the first N values",
    ),
    AggregateFunction(
        "COLLECT_LIST", "any", 0, ours.collect_list, k.array, "nulls are kept", "collect_list",
        "no limit of 1,000 values",
    ),
    AggregateFunction(
        "COLLECT_SET", "any", 0, ours.collect_set, k.array, "null is kept", "collect_set", "no limit of 1,000 values"
    ),
    AggregateFunction("TOPK", "ordered", 1, _top(False), k.array, _SKIPPED, "top_k"),
    AggregateFunction("TOPKDISTINCT", "ordered", 1, _top(True), k.array, _SKIPPED, "top_k"),
    AggregateFunction(
        "HISTOGRAM", "text", 0, ours.histogram, lambda of: k.map_of(k.STRING, k.BIGINT), _SKIPPED, "histogram",
        "no limit of 1,000 texts",
    ),
    AggregateFunction("STDDEV_SAMPLE", "number", 0, ours.stddev, lambda of: k.DOUBLE, _SKIPPED, "stddev"),
)  # fmt: skip
AGGREGATES = {record.name: record for record in _RECORDS}
# Those that always have an option: how many values TOPK gives.
NEEDS_OPTION = ("TOPK", "TOPKDISTINCT")
