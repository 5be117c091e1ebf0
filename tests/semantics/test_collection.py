"""Lists, sets, distinct counts, the largest k, histograms."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.aggregate.aggregate import Rule
from lakehouse.semantics.aggregate.collection import (
    CollectList,
    CollectSet,
    CountDistinct,
    Histogram,
    OnlyValue,
    TopK,
    hashable_form,
)  # fmt: skip
from lakehouse.semantics.operators.cell import Arrival, Cell, Cells, Plain
from lakehouse.semantics.operators.session import Sessions
from lakehouse.semantics.time.window import Session

NAN = float("nan")
VALUES = st.lists(st.none() | st.integers(0, 4), max_size=10)


def folded(rule: Rule, values: list[Any]) -> Any:
    accumulator = rule.empty_accumulator()
    for value in values:
        accumulator = rule.add(accumulator, value, None)
    return accumulator


@pytest.mark.parametrize(
    ("rule", "values", "shown"),
    [
        (CollectList(), [2, None, 2], [2, None, 2]),
        (CollectList(2), [2, None, 1], [2, None]),
        (CollectSet(), [2, None, 2, 1, None], [2, None, 1]),
        (CollectSet(2), [2, 2, None, 1], [2, None]),
        (CountDistinct(), [2, None, 2, 1], 2),
        (CollectSet(), [{"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 2, "y": 1}], [{"x": 1, "y": 2}, {"x": 2, "y": 1}]),
        (CollectSet(), [[{1: {"a": 0, "b": 1}}], [{1: {"b": 1, "a": 0}}], []], [[{1: {"a": 0, "b": 1}}], []]),
        (CountDistinct(), [{"x": NAN, "y": 2}, {"y": 2, "x": NAN}, {"x": 2}, {}], 3),
        (TopK(2), [1, None, 3, 2, 3], [3, 3]),
        (TopK(2, distinct=True), [1, None, 3, 2, 3], [3, 2]),
        (
            TopK(2, order_field="n"),
            [{"n": 1, "s": "a"}, {"n": None, "s": "b"}, {"n": 3, "s": "c"}, {"n": 3, "s": "d"}],
            [{"n": 3, "s": "c"}, {"n": 3, "s": "d"}],
        ),
        (OnlyValue(), [2, 2], 2),
        (OnlyValue(), [2, None], None),
        (OnlyValue(), [None, None], None),
        (OnlyValue(), [], None),
        (TopK(2), [1.0, NAN], [NAN, 1.0]),  # as in Spark, NaN is the largest
        (Histogram(), ["a", None, "b", "a"], {"a": 2, "b": 1}),
    ],
)
def test_what_shows(rule: Rule, values: list[Any], shown: Any) -> None:
    assert hashable_form(rule.result(folded(rule, values))) == hashable_form(shown)


@pytest.mark.parametrize("rule", [CollectList(), CollectSet(), TopK(3)])
def test_over_no_record_a_list_is_empty_and_not_null(rule: Rule) -> None:
    assert rule.result(rule.empty_accumulator()) == []


def test_equal_structs_arrays_and_nans_are_one_value() -> None:
    ada = {"first": "Ada", "tags": ["x", None]}
    assert folded(CollectSet(), [ada, dict(ada), {**ada, "tags": []}]) == [ada, {**ada, "tags": []}]
    assert CountDistinct().result(folded(CountDistinct(), [NAN, float("nan"), 1.0])) == 2


def test_the_first_of_equals_is_kept() -> None:
    first, second = {"n": 1}, {"n": 1}
    assert folded(CollectSet(), [first, second])[0] is first
    values = [{"n": 1, "t": letter} for letter in "abcd"]
    assert folded(TopK(2, distinct=True, order_field="n"), values) == values[:2]


@pytest.mark.parametrize("rule", [CollectList(), CollectSet(), CountDistinct(), TopK(2), Histogram()])
def test_an_accumulator_is_never_changed_in_place(rule: Rule) -> None:
    """A window may begin with another one's values: both grow, and each earlier state stays as it was."""
    before = folded(rule, ["a", "b"])
    shown = rule.result(before)
    one = rule.add(rule.add(before, "c", None), "a", None)
    two = rule.add(before, "d", None)
    rule.merge(before, one)
    assert rule.result(before) == shown
    assert rule.result(one) == rule.result(folded(rule, ["a", "b", "c", "a"]))
    assert rule.result(two) == rule.result(folded(rule, ["a", "b", "d"]))
    assert rule.result(rule.add(one, "e", None)) == rule.result(folded(rule, ["a", "b", "c", "a", "e"]))


@given(st.lists(st.tuples(st.integers(0, 10), st.sampled_from("abcde"))))
def test_states_that_branch_hold_what_copies_would(steps: list[tuple[int, str]]) -> None:
    for rule in (CollectList(), CollectSet(3), CountDistinct(), Histogram()):
        states, values = [rule.empty_accumulator()], [[]]
        for place, value in steps:
            at = place % len(states)
            states.append(rule.add(states[at], value, None))
            values.append([*values[at], value])
        for state, held in zip(states, values, strict=True):
            assert rule.result(state) == rule.result(folded(rule, held))


class Compared(str):
    """A text that counts how often its hash is asked for: each look at a value asks once."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Compared.looks += 1
        return str.__hash__(self)


@pytest.mark.parametrize("way", ["plain", "session", "from a row"])
def test_many_values_of_one_key_are_not_copied_for_each_record(way: str) -> None:
    """16,000 different values of one key took 54 s: each record looked at all that came before it."""
    for rule in (CountDistinct(), CollectSet(), Histogram()):
        values = [Compared(n) for n in range(2000)]
        operator = Sessions((rule,), Session(10, 0)) if way == "session" else Plain((rule,))
        cells = Cells()
        if way == "from a row":
            begun: Any = dict.fromkeys(values, 1) if isinstance(rule, Histogram) else list(values)
            cells[None] = Cell((begun,), 0, 0)
            values = [Compared(n) for n in range(2000, 4000)]
        Compared.looks = 0
        for n, value in enumerate(values):
            operator.apply(cells, Arrival(n, 0, n, (value,)))
        assert Compared.looks < 10 * len(values)


@given(VALUES, st.integers(0, 10), st.none() | st.integers(1, 4))
def test_two_halves_merge_to_the_whole(values: list[int | None], cut: int, limit: int | None) -> None:
    k = limit or 3
    for rule in (CollectList(limit), CollectSet(limit), CountDistinct(), TopK(k), TopK(k, distinct=True)):
        assert rule.merge(folded(rule, values[:cut]), folded(rule, values[cut:])) == folded(rule, values)


@given(VALUES, VALUES, VALUES)
def test_merging_is_associative(a: list[int | None], b: list[int | None], c: list[int | None]) -> None:
    for rule in (CollectList(3), CollectSet(3), CountDistinct(), TopK(3), TopK(3, distinct=True)):
        x, y, z = (folded(rule, values) for values in (a, b, c))
        assert rule.merge(rule.merge(x, y), z) == rule.merge(x, rule.merge(y, z))


@given(st.lists(st.none() | st.sampled_from("abc")), st.integers(0, 10))
def test_a_histogram_counts_as_a_counter_does(values: list[str | None], cut: int) -> None:
    rule = Histogram()
    assert folded(rule, values) == Counter(value for value in values if value is not None)
    assert rule.merge(folded(rule, values[:cut]), folded(rule, values[cut:])) == folded(rule, values)
