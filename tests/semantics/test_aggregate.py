"""Aggregates: what they count, what they skip, and that a batch can go on from the accumulator."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.aggregate.aggregate import (
    LONG_MAX,
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
)
from lakehouse.semantics.aggregate.wide_sum import SumWideDecimals

NAN = float("nan")
INTEGERS = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20)
DOUBLES = st.lists(st.none() | st.floats(-1e6, 1e6), max_size=20)
EXACT = (
    CountAll(), Count(), SumIntegers(), Average(SumIntegers()), SumWideDecimals(38, 0), Min(), Max(),
)  # fmt: skip


def fold(rule: Rule, values: list[Any], start: Any = None) -> Any:
    accumulator = rule.empty_accumulator() if start is None else start
    for value in values:
        accumulator = rule.add(accumulator, value, None)
    return accumulator


def result(rule: Rule, *values: Any) -> Any:
    return rule.result(fold(rule, list(values)))


def test_count_all_counts_nulls_and_count_does_not() -> None:
    assert result(CountAll(), None, 1, "x") == 3
    assert result(Count(), None, 1, "x") == 2


@pytest.mark.parametrize("rule", [SumIntegers(), SumDoubles(), SumDecimals(10, 2), SumWideDecimals(38, 2)])
def test_sum_over_only_nulls_is_zero(rule: Rule) -> None:
    assert result(rule) == 0
    assert result(rule, None, None) == 0


def test_over_only_nulls_an_average_and_a_deviation_are_zero_and_the_extremes_null() -> None:
    for rule, nothing in ((Average(SumIntegers()), 0.0), (Deviation(), 0.0), (Min(), None), (Max(), None)):
        assert result(rule) == nothing
        assert result(rule, None, None) == nothing


def test_nulls_are_skipped() -> None:
    assert result(Average(SumIntegers()), 1, None, 2) == 1.5
    assert result(Average(SumDecimals(4, 2)), Decimal("1.00"), None, Decimal("0.50")) == 0.75
    assert result(Min(), 3, None, 1) == 1
    assert result(Max(), 3, None, 1) == 3
    assert result(Deviation(), 1, None, 5) == pytest.approx(math.sqrt(8))


def test_a_deviation_needs_two_values() -> None:
    assert result(Deviation(), 7) == 0.0
    assert result(Deviation(), 7, 7) == 0.0


def test_not_a_number_is_the_largest_double() -> None:
    assert result(Min(), NAN, 1.0) == 1.0
    assert math.isnan(result(Max(), 1.0, NAN, math.inf))
    assert math.isnan(result(SumDoubles(), 1.0, NAN))


def test_an_average_of_more_than_a_bigint_is_still_an_average() -> None:
    assert result(Average(SumIntegers()), LONG_MAX, LONG_MAX) == pytest.approx(LONG_MAX)


def test_sum_of_the_worked_example() -> None:
    assert result(SumIntegers(), 2, 5) == 7


def test_a_sum_outside_of_bigint_shows_null_and_comes_back() -> None:
    # LONG_MAX + 1 - 2
    rule = SumIntegers()
    over = fold(rule, [LONG_MAX, 1])
    assert rule.result(over) is None
    assert rule.result(rule.add(over, -2, None)) == LONG_MAX - 1


def test_a_sum_of_decimals_keeps_the_scale_and_ten_more_digits() -> None:
    rule = SumDecimals(2, 1)  # DECIMAL(12, 1): up to 99999999999.9
    assert str(result(rule)) == "0.0"
    assert str(result(rule, Decimal("9.9"), Decimal("0.2"))) == "10.1"
    assert rule.result(Decimal("99999999999.9")) == Decimal("99999999999.9")
    assert rule.result(Decimal("100000000000.0")) is None


@given(INTEGERS, st.integers(0, 20))
def test_a_fold_goes_on_from_its_accumulator(values: list[int | None], cut: int) -> None:
    for rule in EXACT:
        first = fold(rule, values[:cut])
        if first is not None:  # `fold` takes None as the zero
            assert fold(rule, values[cut:], first) == fold(rule, values)


@given(INTEGERS, st.integers(0, 20))
def test_two_halves_merge_to_the_whole_in_any_order(values: list[int | None], cut: int) -> None:
    for rule in EXACT:
        halves = fold(rule, values[:cut]), fold(rule, values[cut:])
        assert rule.merge(*halves) == rule.merge(*halves[::-1]) == fold(rule, values)


@given(INTEGERS, INTEGERS, INTEGERS)
def test_merging_is_associative(a: list[int | None], b: list[int | None], c: list[int | None]) -> None:
    for rule in EXACT:
        x, y, z = (fold(rule, values) for values in (a, b, c))
        assert rule.merge(rule.merge(x, y), z) == rule.merge(x, rule.merge(y, z))


@given(DOUBLES, st.integers(0, 20))
def test_over_doubles_two_halves_merge_to_nearly_the_whole(values: list[float | None], cut: int) -> None:
    for rule in (SumDoubles(), Average(SumDoubles()), Deviation()):
        merged = rule.merge(fold(rule, values[:cut]), fold(rule, values[cut:]))
        assert rule.result(merged) == pytest.approx(rule.result(fold(rule, values)), rel=1e-6, abs=1e-3)


@given(DOUBLES)
def test_a_deviation_is_that_of_the_statistics_module(values: list[float | None]) -> None:
    numbers = [value for value in values if value is not None]
    wanted = statistics.stdev(numbers) if len(numbers) > 1 else 0.0
    assert result(Deviation(), *values) == pytest.approx(wanted, rel=1e-6, abs=1e-3)


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_a_sum_of_integers_does_not_depend_on_their_order(values: list[int | None]) -> None:
    assert fold(SumIntegers(), values) == fold(SumIntegers(), values[::-1]) == sum(v for v in values if v is not None)


@given(st.lists(st.decimals(-(10**8), 10**8, places=10, allow_nan=False)))
def test_a_sum_of_decimals_is_exact(values: list[Decimal]) -> None:
    assert Fraction(fold(SumDecimals(18, 10), values)) == sum(map(Fraction, values))


@given(st.lists(st.decimals(-(10**28), 10**28, places=10, allow_nan=False)))
def test_a_sum_of_wide_decimals_is_exact(values: list[Decimal]) -> None:
    rule = SumWideDecimals(38, 10)
    assert Fraction(rule.total(fold(rule, values))) == sum(map(Fraction, values))


def test_a_wide_sum_outside_of_its_type_shows_null_and_comes_back() -> None:
    # 12345678.5 + 1 in DECIMAL(38, 30); then the largest of it and more, and less again
    rule, most = SumWideDecimals(38, 30), Decimal(f"99999999.{'9' * 30}")
    assert result(rule, Decimal("12345678.5"), Decimal(1)) == Decimal("12345679.5")
    over = fold(rule, [most, most])
    assert rule.result(over) is None
    assert rule.result(rule.add(over, most.copy_negate(), None)) == most
    assert Average(rule).result({"sum": over, "n": 2}) == float(most)
