"""LATEST and EARLIEST: by arrival, with and without nulls (rule 6)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.aggregate.ordered import EarliestValue, EarliestValues, LatestValue, LatestValues

VALUES = st.lists(st.none() | st.integers(0, 5), max_size=8)


def folded(rule: Any, values: list[int | None], orders: list[int] | None = None) -> Any:
    accumulator = rule.empty_accumulator()
    for order, value in zip(orders or range(len(values)), values, strict=True):
        accumulator = rule.add(accumulator, value, order)
    return accumulator


@pytest.mark.parametrize(
    ("values", "latest", "latest_or_null", "earliest", "earliest_or_null"),
    [
        ([], None, None, None, None),
        ([1, 2], 2, 2, 1, 1),
        ([None, 1], 1, 1, 1, None),  # a first null stays, once it is not ignored
        ([1, None], 1, None, 1, 1),
        ([None], None, None, None, None),
    ],
)
def test_what_shows(
    values: list[int | None],
    latest: int | None,
    latest_or_null: int | None,
    earliest: int | None,
    earliest_or_null: int | None,
) -> None:
    rules = (LatestValue(), LatestValue(ignore_nulls=False), EarliestValue(), EarliestValue(ignore_nulls=False))
    shown = [rule.result(folded(rule, values)) for rule in rules]
    assert shown == [latest, latest_or_null, earliest, earliest_or_null]


def test_a_null_that_is_not_ignored_is_not_an_empty_accumulator() -> None:
    rule = EarliestValue(ignore_nulls=False)
    assert rule.empty_accumulator() is None
    assert folded(rule, [None]) == {"at": 0, "value": None}


@pytest.mark.parametrize("ignore_nulls", [True, False])
@given(values=VALUES, mask=st.lists(st.booleans(), min_size=8, max_size=8))
def test_two_parts_merge_by_arrival_whichever_comes_first(
    ignore_nulls: bool, values: list[int | None], mask: list[bool]
) -> None:
    nulls = ignore_nulls
    for rule in (LatestValue(nulls), EarliestValue(nulls), LatestValues(2, nulls), EarliestValues(2, nulls)):
        parts = [
            folded(rule, [v for v, own in zip(values, mask, strict=False) if own is side],
                   [n for n, (_, own) in enumerate(zip(values, mask, strict=False)) if own is side])
            for side in (True, False)
        ]  # fmt: skip
        assert rule.merge(*parts) == rule.merge(*parts[::-1]) == folded(rule, values)


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (LatestValues(2), [3, 4]),
        (LatestValues(2, ignore_nulls=False), [None, 4]),
        (EarliestValues(2), [1, 3]),
        (EarliestValues(2, ignore_nulls=False), [1, None]),
        (EarliestValues(9), [1, 3, 4]),
    ],
)
def test_several_values_are_in_order_of_arrival(rule: Any, shown: list[int | None]) -> None:
    assert rule.result(folded(rule, [1, None, 3, None, 4])) == shown
    assert rule.result(rule.empty_accumulator()) == []
