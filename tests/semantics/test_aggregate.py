"""Aggregates: what they count, what they skip, and that a batch can go on from the accumulator."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.aggregate import LONG_MAX, Aggregate, Count, CountAll, SumDecimals, SumDoubles, SumIntegers


def fold(rule: Aggregate, values: list[Any], start: Any = None) -> Any:
    accumulator = rule.zero() if start is None else start
    for value in values:
        accumulator = rule.add(accumulator, value)
    return accumulator


def result(rule: Aggregate, *values: Any) -> Any:
    return rule.result(fold(rule, list(values)))


def test_count_all_counts_nulls_and_count_does_not() -> None:
    assert result(CountAll(), None, 1, "x") == 3
    assert result(Count(), None, 1, "x") == 2


@pytest.mark.parametrize("rule", [SumIntegers(), SumDoubles(), SumDecimals(10, 2)])
def test_sum_over_only_nulls_is_zero(rule: Aggregate) -> None:
    assert result(rule) == 0
    assert result(rule, None, None) == 0


def test_sum_of_the_worked_example() -> None:
    assert result(SumIntegers(), 2, 5) == 7


def test_a_sum_outside_of_bigint_shows_null_and_comes_back() -> None:
    # LONG_MAX + 1 - 2
    rule = SumIntegers()
    over = fold(rule, [LONG_MAX, 1])
    assert rule.result(over) is None
    assert rule.result(rule.add(over, -2)) == LONG_MAX - 1


def test_a_sum_of_decimals_keeps_the_scale_and_ten_more_digits() -> None:
    rule = SumDecimals(2, 1)  # DECIMAL(12, 1): up to 99999999999.9
    assert str(result(rule)) == "0.0"
    assert str(result(rule, Decimal("9.9"), Decimal("0.2"))) == "10.1"
    assert rule.result(Decimal("99999999999.9")) == Decimal("99999999999.9")
    assert rule.result(Decimal("100000000000.0")) is None


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.integers(0, 20))
def test_a_fold_goes_on_from_its_accumulator(values: list[int | None], cut: int) -> None:
    for rule in (CountAll(), Count(), SumIntegers()):
        assert fold(rule, values[cut:], fold(rule, values[:cut])) == fold(rule, values)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_a_sum_of_integers_does_not_depend_on_their_order(values: list[int | None]) -> None:
    assert fold(SumIntegers(), values) == fold(SumIntegers(), values[::-1]) == sum(v for v in values if v is not None)


@given(st.lists(st.decimals(-(10**28), 10**28, places=10, allow_nan=False)))
def test_a_sum_of_decimals_is_exact(values: list[Decimal]) -> None:
    assert Fraction(fold(SumDecimals(38, 10), values)) == sum(map(Fraction, values))
