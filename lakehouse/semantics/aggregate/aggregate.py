"""Aggregates: a zero, an add, a merge, and a result. Their meaning is defined in this package and nowhere else.

    accumulator = rule.empty_accumulator()
    accumulator = rule.add(accumulator, value, position)    one record, with its position
    accumulator = rule.merge(earlier, later)                two sessions become one
    result      = rule.result(accumulator)                  the visible value

The table keeps the accumulator, so a batch can go on from the row itself. A rule never changes an accumulator in place,
since a window may begin with another window's. A property test checks that the SQL forms in
`lakehouse.spark.fold.forms.aggregates` are equivalent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, Protocol

from lakehouse.semantics.aggregate.wide_sum import SumWideDecimals

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class Rule(Protocol):
    """The methods that every aggregate has. Nulls are `None`; each rule documents whether it skips them.

    add: called once for each record, in position order. merge: called when two sessions become one. result: gives the
    visible value.
    """

    def empty_accumulator(self) -> Any: ...

    def add(self, accumulator: Any, value: Any, record_position: Any) -> Any: ...

    def merge(self, earlier: Any, later: Any) -> Any: ...

    def result(self, accumulator: Any) -> Any: ...


class VisibleAccumulator:
    """A rule whose accumulator is the visible value."""

    def result(self, accumulator: Any) -> Any:
        return accumulator


class AddedAccumulators:
    """A rule that merges two accumulators by adding them."""

    def merge(self, earlier: Any, later: Any) -> Any:
        return earlier + later


@dataclass(frozen=True, slots=True)
class CountAll(VisibleAccumulator, AddedAccumulators):
    """COUNT(*): the number of records of the group, whatever their columns contain (rule 5)."""

    def empty_accumulator(self) -> int:
        return 0

    def add(self, accumulator: int, value: object, record_position: object) -> int:
        return accumulator + 1


@dataclass(frozen=True, slots=True)
class Count(VisibleAccumulator, AddedAccumulators):
    """COUNT(column): the number of records of the group in which the column is not null (rule 5)."""

    def empty_accumulator(self) -> int:
        return 0

    def add(self, accumulator: int, value: object, record_position: object) -> int:
        return accumulator + (value is not None)


@dataclass(frozen=True, slots=True)
class SumIntegers(AddedAccumulators):
    """SUM over integers: exact. Over only nulls it is 0 (rule 5).

    The accumulator has room for more than a BIGINT, so the sum does not depend on the order of the records. A sum
    outside BIGINT shows as null, and shows again when later records bring it back inside.
    """

    def empty_accumulator(self) -> int:
        return 0

    def add(self, accumulator: int, value: int | None, record_position: object) -> int:
        return accumulator if value is None else int(accumulator) + value

    def result(self, accumulator: int) -> int | None:
        return int(accumulator) if LONG_MIN <= accumulator <= LONG_MAX else None


@dataclass(frozen=True, slots=True)
class SumDecimals:
    """SUM over DECIMAL(p, s) of at most 18 digits: exact, as DECIMAL(p + 10, s) like Spark's own SUM.

    The accumulator is a DECIMAL(37, s), which has room for 10**19 values. For more digits see `SumWideDecimals`.
    """

    precision: int
    scale: int

    def empty_accumulator(self) -> Decimal:
        return Decimal(0).scaleb(-self.scale)

    def add(self, accumulator: Decimal, value: Decimal | None, record_position: object) -> Decimal:
        return accumulator if value is None else self.merge(accumulator, value)

    def merge(self, earlier: Decimal, later: Decimal) -> Decimal:
        with localcontext(prec=60):
            return earlier + later

    def result(self, accumulator: Decimal) -> Decimal | None:
        return accumulator if abs(accumulator) < Decimal(10).scaleb(self.precision + 9 - self.scale) else None


@dataclass(frozen=True, slots=True)
class SumDoubles(VisibleAccumulator, AddedAccumulators):
    """SUM over DOUBLE: the records are added one by one, in position order, from the row's own sum.

    A sum of doubles depends on the order of the additions. This order is the lake's, so every batching, restart and
    rebuild gives the same bits. The sum is not exact: declare the column DECIMAL if that matters.
    """

    def empty_accumulator(self) -> float:
        return 0.0

    def add(self, accumulator: float, value: float | None, record_position: object) -> float:
        return accumulator if value is None else accumulator + value


@dataclass(frozen=True, slots=True)
class Average:
    """AVG(column): a DOUBLE; nulls are skipped, and over only nulls it is 0.0, as in ksqlDB (`AverageUdaf`).

    `sum` is the rule that adds the values. It is exact for integers and decimals, even where the sum itself shows null.
    """

    sum: SumIntegers | SumDecimals | SumWideDecimals | SumDoubles

    def empty_accumulator(self) -> dict[str, Any]:
        return {"sum": self.sum.empty_accumulator(), "n": 0}

    def add(self, accumulator: dict[str, Any], value: Any, record_position: object) -> dict[str, Any]:
        if value is None:
            return accumulator
        return {"sum": self.sum.add(accumulator["sum"], value, record_position), "n": accumulator["n"] + 1}

    def merge(self, earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        return {"sum": self.sum.merge(earlier["sum"], later["sum"]), "n": earlier["n"] + later["n"]}

    def result(self, accumulator: dict[str, Any]) -> float:
        sum_state = accumulator["sum"]
        sum_state = self.sum.total(sum_state) if isinstance(self.sum, SumWideDecimals) else sum_state
        return float(sum_state) / accumulator["n"] if accumulator["n"] else 0.0


def sort_key(value: Any) -> Any:
    """Return a value's sort key, which orders values as Spark does: NaN is the largest double."""
    return (math.isnan(value), value) if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class Min(VisibleAccumulator):
    """MIN(column): nulls are skipped; over only nulls it is null (rule 5)."""

    def empty_accumulator(self) -> None:
        return None

    def add(self, accumulator: Any, value: Any, record_position: object) -> Any:
        return self.merge(accumulator, value)

    def merge(self, earlier: Any, later: Any) -> Any:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        return self.choose_value(earlier, later)

    def choose_value(self, *values: Any) -> Any:
        return min(values, key=sort_key)


@dataclass(frozen=True, slots=True)
class Max(Min):
    """MAX(column): nulls are skipped; over only nulls it is null (rule 5)."""

    def choose_value(self, *values: Any) -> Any:
        return max(values, key=sort_key)


@dataclass(frozen=True, slots=True)
class Deviation:
    """STDDEV_SAMPLE(column): the sample standard deviation, by Welford's method; nulls are skipped.

    Over fewer than two values it is 0.0, as in ksqlDB, whose older STDDEV_SAMP gives the variance instead.
    """

    def empty_accumulator(self) -> dict[str, Any]:
        return {"n": 0, "mean": 0.0, "m2": 0.0}

    def add(self, accumulator: dict[str, Any], value: Any, record_position: object) -> dict[str, Any]:
        if value is None:
            return accumulator
        new_value, new_count = float(value), accumulator["n"] + 1
        mean_distance = new_value - accumulator["mean"]
        new_mean = accumulator["mean"] + mean_distance / new_count
        return {"n": new_count, "mean": new_mean, "m2": accumulator["m2"] + mean_distance * (new_value - new_mean)}

    def merge(self, earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        if not (earlier["n"] and later["n"]):
            return later if later["n"] else earlier
        total_count = earlier["n"] + later["n"]
        mean_distance = later["mean"] - earlier["mean"]
        new_mean = earlier["mean"] + mean_distance * later["n"] / total_count
        new_m2 = earlier["m2"] + later["m2"] + mean_distance * mean_distance * earlier["n"] * later["n"] / total_count
        return {"n": total_count, "mean": new_mean, "m2": new_m2}

    def result(self, accumulator: dict[str, Any]) -> float:
        return math.sqrt(accumulator["m2"] / (accumulator["n"] - 1)) if accumulator["n"] > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Variance(Deviation):
    """STDDEV_SAMP(column) of ksqlDB: the square of STDDEV_SAMPLE."""

    def result(self, accumulator: dict[str, Any]) -> float:
        return accumulator["m2"] / (accumulator["n"] - 1) if accumulator["n"] > 1 else 0.0
