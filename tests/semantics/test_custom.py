"""Aggregates that users write in Python."""

from __future__ import annotations

import operator

import pytest

from lakehouse.semantics.aggregate.custom import Custom, Reduce

SPAN = Custom(
    initial=None,
    function=lambda seen, n: seen if n is None else (n, n) if seen is None else (min(seen[0], n), max(seen[1], n)),
    show_result=lambda seen: None if seen is None else seen[1] - seen[0],
    merge_accumulators=lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
)


def test_reduce_begins_with_the_first_value_and_skips_nulls() -> None:
    # null + 5 - 2 + null
    rule = Reduce(operator.sub)
    accumulator = rule.empty_accumulator()
    for value in (None, 5, 2, None):
        accumulator = rule.add(accumulator, value, None)
    assert rule.result(accumulator) == 3


def test_reduce_merges_with_the_same_function_and_nothing_with_something() -> None:
    rule = Reduce(operator.add)
    assert rule.merge("a", "b") == "ab"
    assert rule.merge(None, "b") == rule.merge("b", None) == "b"
    assert rule.result(rule.merge(None, None)) is None


def test_a_user_defined_aggregate_has_a_zero_an_add_a_result_and_a_merge() -> None:
    accumulator = SPAN.empty_accumulator()
    assert SPAN.result(accumulator) is None
    for value in (4, None, 9, 1):
        accumulator = SPAN.add(accumulator, value, None)
    assert accumulator == (1, 9)
    assert SPAN.result(accumulator) == 8
    assert SPAN.merge(accumulator, (0, 3)) == (0, 9)


def test_without_a_result_the_accumulator_shows_and_without_a_merge_there_are_no_sessions() -> None:
    plain = Custom(0, operator.add)
    assert plain.result(plain.add(plain.empty_accumulator(), 3, None)) == 3
    with pytest.raises(AssertionError, match="refused when it is declared"):
        plain.merge(1, 2)


def test_a_record_on_which_a_function_raises_is_left_out() -> None:
    # 8 / 2 / 0 / 4
    rule = Reduce(operator.truediv)
    accumulator = rule.empty_accumulator()
    for value in (8, 2, 0, 4):
        accumulator = rule.add(accumulator, value, None)
    assert accumulator == 1.0
    assert Reduce(operator.add).merge("a", 1) == "a"


def test_a_value_that_does_not_fit_its_type_is_left_out_and_a_result_that_raises_shows_null() -> None:
    def fit(value: int) -> int:
        if value > 9:
            raise ValueError(value)
        return value

    rule = Custom(0, operator.add, lambda total: 1 // (total - 3), fit=fit)
    total = rule.empty_accumulator()
    for value in (5, 7, "x", 2):
        total = rule.add(total, value, None)
    assert total == 7
    assert rule.result(7) == 0
    assert rule.result(3) is None
