"""Aggregates: a zero, an add, a merge, and a result. Their meaning is defined in this package and nowhere else.

    accumulator = rule.zero()
    accumulator = rule.add(accumulator, value, order)       one record; `order` is its position
    accumulator = rule.merge(earlier, later)                two sessions become one
    shown       = rule.result(accumulator)                  the visible value

The accumulator is what the table keeps, so a batch can go on from the row itself. It is never changed in place: a
window may begin with another one's. A property test checks that the SQL forms in
`lakehouse.spark.operators.aggregates` are equivalent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, Protocol

from lakehouse.semantics.aggregate.wide_sum import SumWideDecimals

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class Rule(Protocol):
    """The methods that every aggregate has. Nulls are `None`; a rule that skips nulls says so."""

    def zero(self) -> Any: ...

    def add(self, accumulator: Any, value: Any, order: Any) -> Any: ...

    def merge(self, earlier: Any, later: Any) -> Any: ...

    def result(self, accumulator: Any) -> Any: ...


class Shown:
    """The accumulator is the visible value."""

    def result(self, accumulator: Any) -> Any:
        return accumulator


class Added:
    """Two accumulators are merged by adding them."""

    def merge(self, earlier: Any, later: Any) -> Any:
        return earlier + later


@dataclass(frozen=True, slots=True)
class CountAll(Shown, Added):
    """COUNT(*): the number of records of the group, whatever their columns hold (rule 5)."""

    def zero(self) -> int:
        return 0

    def add(self, accumulator: int, value: object, order: object) -> int:
        return accumulator + 1


@dataclass(frozen=True, slots=True)
class Count(Shown, Added):
    """COUNT(column): the number of records of the group in which the column is not null (rule 5)."""

    def zero(self) -> int:
        return 0

    def add(self, accumulator: int, value: object, order: object) -> int:
        return accumulator + (value is not None)


@dataclass(frozen=True, slots=True)
class SumIntegers(Added):
    """SUM over integers: exact. Over only nulls it is 0 (rule 5).

    The accumulator has room for more than a BIGINT, so it does not depend on the order of the records; a sum that is
    outside BIGINT shows as null, and comes back when later records bring it inside again.
    """

    def zero(self) -> int:
        return 0

    def add(self, accumulator: int, value: int | None, order: object) -> int:
        return accumulator if value is None else int(accumulator) + value

    def result(self, accumulator: int) -> int | None:
        return int(accumulator) if LONG_MIN <= accumulator <= LONG_MAX else None


@dataclass(frozen=True, slots=True)
class SumDecimals:
    """SUM over DECIMAL(p, s) of at most 18 digits: exact, as DECIMAL(p + 10, s) like Spark's own SUM.

    The accumulator is a DECIMAL(37, s), which has room for 10**19 of them. More digits: `SumWideDecimals`.
    """

    precision: int
    scale: int

    def zero(self) -> Decimal:
        return Decimal(0).scaleb(-self.scale)

    def add(self, accumulator: Decimal, value: Decimal | None, order: object) -> Decimal:
        return accumulator if value is None else self.merge(accumulator, value)

    def merge(self, earlier: Decimal, later: Decimal) -> Decimal:
        with localcontext(prec=60):
            return earlier + later

    def result(self, accumulator: Decimal) -> Decimal | None:
        return accumulator if abs(accumulator) < Decimal(10).scaleb(self.precision + 9 - self.scale) else None


@dataclass(frozen=True, slots=True)
class SumDoubles(Shown, Added):
    """SUM over DOUBLE: the records are added one by one, in position order, from the row's own sum.

    A sum of doubles depends on the order of its additions. This order is the lake's, so every batching, restart and
    rebuild gives the same bits; but it is not exact: declare the column DECIMAL if that matters.
    """

    def zero(self) -> float:
        return 0.0

    def add(self, accumulator: float, value: float | None, order: object) -> float:
        return accumulator if value is None else accumulator + value


@dataclass(frozen=True, slots=True)
class Average:
    """AVG(column): a DOUBLE; nulls are skipped, and over only nulls it is 0.0, as in ksqlDB (`AverageUdaf`).

    `sum` is the rule that adds the values: exact for integers and decimals, whatever the sum itself would show.
    """

    sum: SumIntegers | SumDecimals | SumWideDecimals | SumDoubles

    def zero(self) -> dict[str, Any]:
        return {"sum": self.sum.zero(), "n": 0}

    def add(self, accumulator: dict[str, Any], value: Any, order: object) -> dict[str, Any]:
        if value is None:
            return accumulator
        return {"sum": self.sum.add(accumulator["sum"], value, order), "n": accumulator["n"] + 1}

    def merge(self, earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        return {"sum": self.sum.merge(earlier["sum"], later["sum"]), "n": earlier["n"] + later["n"]}

    def result(self, accumulator: dict[str, Any]) -> float:
        total = accumulator["sum"]
        total = self.sum.total(total) if isinstance(self.sum, SumWideDecimals) else total
        return float(total) / accumulator["n"] if accumulator["n"] else 0.0


def sort_key(value: Any) -> Any:
    """Order values as Spark does: NaN is the largest double."""
    return (math.isnan(value), value) if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class Min(Shown):
    """MIN(column): nulls are skipped; over only nulls it is null (rule 5)."""

    def zero(self) -> None:
        return None

    def add(self, accumulator: Any, value: Any, order: object) -> Any:
        return self.merge(accumulator, value)

    def merge(self, earlier: Any, later: Any) -> Any:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        return self.chosen(earlier, later)

    def chosen(self, *values: Any) -> Any:
        return min(values, key=sort_key)


@dataclass(frozen=True, slots=True)
class Max(Min):
    """MAX(column): nulls are skipped; over only nulls it is null (rule 5)."""

    def chosen(self, *values: Any) -> Any:
        return max(values, key=sort_key)


@dataclass(frozen=True, slots=True)
class Deviation:
    """STDDEV_SAMPLE(column): the sample standard deviation, by Welford's method; nulls are skipped.

    Over fewer than two values it is 0.0, as in ksqlDB, whose older STDDEV_SAMP gives the variance instead.
    """

    def zero(self) -> dict[str, Any]:
        return {"n": 0, "mean": 0.0, "m2": 0.0}

    def add(self, accumulator: dict[str, Any], value: Any, order: object) -> dict[str, Any]:
        if value is None:
            return accumulator
        x, n = float(value), accumulator["n"] + 1
        delta = x - accumulator["mean"]
        mean = accumulator["mean"] + delta / n
        return {"n": n, "mean": mean, "m2": accumulator["m2"] + delta * (x - mean)}

    def merge(self, earlier: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
        if not (earlier["n"] and later["n"]):
            return later if later["n"] else earlier
        n = earlier["n"] + later["n"]
        delta = later["mean"] - earlier["mean"]
        mean = earlier["mean"] + delta * later["n"] / n
        m2 = earlier["m2"] + later["m2"] + delta * delta * earlier["n"] * later["n"] / n
        return {"n": n, "mean": mean, "m2": m2}

    def result(self, accumulator: dict[str, Any]) -> float:
        return math.sqrt(accumulator["m2"] / (accumulator["n"] - 1)) if accumulator["n"] > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Variance(Deviation):
    """STDDEV_SAMP(column) of ksqlDB: the square of STDDEV_SAMPLE."""

    def result(self, accumulator: dict[str, Any]) -> float:
        return accumulator["m2"] / (accumulator["n"] - 1) if accumulator["n"] > 1 else 0.0
