"""LATEST and EARLIEST: by arrival, with and without nulls (rule 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.aggregate.ordered import EarliestValue, LatestValue, Marked

VALUES = st.lists(st.none() | st.integers(0, 5), max_size=8)


def folded(rule: LatestValue | EarliestValue, values: list[int | None], orders: list[int] | None = None) -> Marked:
    accumulator = rule.zero()
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
    assert rule.zero() is None
    assert folded(rule, [None]) == {"at": 0, "value": None}


@pytest.mark.parametrize("ignore_nulls", [True, False])
@given(values=VALUES, mask=st.lists(st.booleans(), min_size=8, max_size=8))
def test_two_parts_merge_by_arrival_whichever_comes_first(
    ignore_nulls: bool, values: list[int | None], mask: list[bool]
) -> None:
    for rule in (LatestValue(ignore_nulls), EarliestValue(ignore_nulls)):
        parts = [
            folded(rule, [v for v, own in zip(values, mask, strict=False) if own is side],
                   [n for n, (_, own) in enumerate(zip(values, mask, strict=False)) if own is side])
            for side in (True, False)
        ]  # fmt: skip
        assert rule.merge(*parts) == rule.merge(*parts[::-1]) == folded(rule, values)
