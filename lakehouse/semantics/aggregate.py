"""Aggregates: a zero, an add, and a result. This is the one place where their meaning stands.

The accumulator is what the table keeps in its hidden columns, so a batch can go on from the row itself. The SQL forms
in ``lakehouse.delta.aggregates`` are held equal to these by a property test.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext

Number = int | float | Decimal

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
DECIMAL_DIGITS_MAX = 38


@dataclass(frozen=True, slots=True)
class CountAll:
    """COUNT(*): the records of the group, whatever their columns hold (rule 5)."""

    def zero(self) -> int:
        return 0

    def add(self, accumulator: int, value: object) -> int:
        return accumulator + 1

    def result(self, accumulator: int) -> int:
        return accumulator


@dataclass(frozen=True, slots=True)
class Count:
    """COUNT(column): the records of the group in which the column is not null (rule 5)."""

    def zero(self) -> int:
        return 0

    def add(self, accumulator: int, value: object) -> int:
        return accumulator + (value is not None)

    def result(self, accumulator: int) -> int:
        return accumulator


@dataclass(frozen=True, slots=True)
class SumIntegers:
    """SUM over integers: exact. Over only nulls it is 0 (rule 5).

    The accumulator has room for more than a BIGINT, so it does not depend on the order of the records; a sum that is
    outside of BIGINT shows as null and comes back when later records bring it inside again.
    """

    def zero(self) -> int:
        return 0

    def add(self, accumulator: int, value: int | None) -> int:
        return accumulator if value is None else accumulator + value

    def result(self, accumulator: int) -> int | None:
        return accumulator if LONG_MIN <= accumulator <= LONG_MAX else None


@dataclass(frozen=True, slots=True)
class SumDecimals:
    """SUM over DECIMAL(p, s): exact, as DECIMAL(p + 10, s) like Spark's own SUM; outside of it, null."""

    precision: int
    scale: int

    def zero(self) -> Decimal:
        return Decimal(0).scaleb(-self.scale)

    def add(self, accumulator: Decimal, value: Decimal | None) -> Decimal:
        if value is None:
            return accumulator
        with localcontext(prec=60):
            return accumulator + value

    def result(self, accumulator: Decimal) -> Decimal | None:
        digits_max = min(self.precision + 10, DECIMAL_DIGITS_MAX)
        return accumulator if abs(accumulator) < Decimal(10).scaleb(digits_max - self.scale - 1) else None


@dataclass(frozen=True, slots=True)
class SumDoubles:
    """SUM over DOUBLE: the records are added one by one, in position order, from the row's own sum.

    A sum of doubles depends on the order of its additions. This order is the lake's, so every batching, restart and
    rebuild gives the same bits; but it is not exact: declare the column DECIMAL where that matters.
    """

    def zero(self) -> float:
        return 0.0

    def add(self, accumulator: float, value: float | None) -> float:
        return accumulator if value is None else accumulator + value

    def result(self, accumulator: float) -> float:
        return accumulator


Aggregate = CountAll | Count | SumIntegers | SumDecimals | SumDoubles
