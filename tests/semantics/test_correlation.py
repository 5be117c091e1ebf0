"""CORRELATION: Pearson's coefficient."""

from __future__ import annotations

import math
from statistics import correlation
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.aggregate.correlation import Correlation

NUMBERS = st.integers(-1000, 1000).map(lambda n: n / 8)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=12)


def folded(pairs: list[tuple[float | None, float | None]]) -> dict[str, Any]:
    rule = Correlation()
    accumulator = rule.empty_accumulator()
    for x, y in pairs:
        accumulator = rule.add(accumulator, {"x": x, "y": y}, None)
    return accumulator


@given(pairs=PAIRS, cut=st.integers(0, 12))
def test_it_is_the_coefficient_of_all_pairs_also_of_two_parts(pairs: list[tuple[float, float]], cut: int) -> None:
    rule = Correlation()
    actual = [rule.result(folded(pairs)), rule.result(rule.merge(folded(pairs[:cut]), folded(pairs[cut:])))]  # type: ignore[arg-type]
    xs, ys = zip(*pairs, strict=True)
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        assert math.isnan(actual[0])
    else:
        assert actual == pytest.approx([correlation(xs, ys)] * 2, abs=1e-9)


def test_pairs_with_a_null_are_skipped_and_of_one_pair_there_is_none() -> None:
    rule = Correlation()
    assert math.isnan(rule.result(rule.empty_accumulator()))
    assert math.isnan(rule.result(folded([(1, 2), (None, 3), (4, None)])))
    assert rule.add(rule.empty_accumulator(), None, None) == rule.empty_accumulator()
    assert rule.result(folded([(1, 2), (None, 3), (2, 4)])) == pytest.approx(1.0)
