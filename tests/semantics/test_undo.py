"""Aggregates over rows: what was put in can be taken out, and what is left shows as if nothing else had been there."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.aggregate.aggregate import (
    Average,
    Count,
    CountAll,
    Deviation,
    Max,
    Min,
    SumDecimals,
    SumDoubles,
    SumIntegers,
    Variance,
)
from lakehouse.semantics.aggregate.collection import CollectList, CollectSet, CountDistinct, Histogram, OnlyValue, TopK
from lakehouse.semantics.aggregate.custom import Custom, Reduce
from lakehouse.semantics.aggregate.growing import RowValues
from lakehouse.semantics.aggregate.ordered import EarliestValue, LatestValue, LatestValues
from lakehouse.semantics.aggregate.undo import ListRows, SumRowDoubles, make_row_rule
from lakehouse.semantics.aggregate.wide_sum import SumWideDecimals
from lakehouse.semantics.operators.cell import Arrival, Cells
from lakehouse.semantics.operators.undo import RowGroup, is_first_half
from lakehouse.semantics.position import Position

ROWS = ("a", "b", "c")
MANY = 2_000
INTEGERS = st.none() | st.integers(-3, 3)
DECIMALS = st.none() | st.decimals("-99999999", "99999999", places=2, allow_nan=False)
DOUBLES = st.none() | st.floats(width=64)


def histories(values: Any) -> Any:
    """Changes of rows: a row with its new value, or gone."""
    return st.lists(st.tuples(st.sampled_from(ROWS), st.tuples(values) | st.none()), max_size=14)


def changed(rule: Any, history: list[tuple[str, tuple[Any] | None]]) -> tuple[Any, dict[str, Any]]:
    """The accumulator after the changes, and the rows that are left, the last put in at the end."""
    accumulator, rows = rule.empty_accumulator(), {}
    for row, new in history:
        if row in rows:
            accumulator = rule.undo(accumulator, rows.pop(row), row)
        if new is not None:
            rows[row] = new[0]
            accumulator = rule.add(accumulator, new[0], row)
    return accumulator, rows


def over(rule: Any, values: list[Any]) -> Any:
    accumulator = rule.empty_accumulator()
    for number, value in enumerate(values):
        accumulator = rule.add(accumulator, value, number)
    return rule.result(accumulator)


def total(so_far: int, n: int | None) -> int:
    return so_far + (n or 0)


WHOLE = (
    CountAll(), Count(), SumIntegers(), Average(SumIntegers()), Min(), Max(), Deviation(), LatestValue(),
    LatestValue(ignore_nulls=False), EarliestValue(), EarliestValue(ignore_nulls=False), CollectSet(), CollectSet(2),
    CountDistinct(), TopK(2), TopK(2, distinct=True), Reduce(lambda so_far, n: so_far - n), Custom(0, total),
    OnlyValue(), LatestValues(2), Variance(), Custom(0, total, undo=lambda so_far, n: so_far - (n or 0)),
)  # fmt: skip


@pytest.mark.parametrize("rule", WHOLE, ids=lambda rule: type(rule).__name__)
@given(history=histories(INTEGERS))
def test_what_is_left_shows_as_if_it_had_been_alone(rule: Any, history: Any) -> None:
    form = make_row_rule(rule)
    accumulator, rows = changed(form, history)
    assert form.result(accumulator) == over(rule, list(rows.values()))


@pytest.mark.parametrize("rule", [SumDecimals(10, 2), SumWideDecimals(20, 2), Average(SumDecimals(10, 2))], ids=str)
@given(history=histories(DECIMALS))
def test_sums_of_decimals_are_exact(rule: Any, history: Any) -> None:
    form = make_row_rule(rule)
    accumulator, rows = changed(form, history)
    assert form.result(accumulator) == over(rule, list(rows.values()))


@given(history=histories(DOUBLES))
def test_sums_of_doubles_are_exact_and_rounded_once(history: Any) -> None:
    form, mean = make_row_rule(SumDoubles()), make_row_rule(Average(SumDoubles()))
    accumulator, rows = changed(form, history)
    values = [value for value in rows.values() if value is not None]
    actual = form.result(accumulator)
    if all(map(math.isfinite, values)):
        try:
            expected = math.fsum(values)
        except OverflowError:
            expected = math.inf if sum(map(int, values)) > 0 else -math.inf
        assert actual == expected
    elif any(map(math.isnan, values)) or {math.inf, -math.inf} <= {*values}:
        assert math.isnan(actual)
    else:
        assert actual == sum(value for value in values if math.isinf(value))
    if not values:
        assert (actual, mean.result(changed(mean, history)[0])) == (0.0, 0.0)


def test_a_mean_of_doubles_does_not_overflow() -> None:
    rule = make_row_rule(Average(SumDoubles()))
    accumulator, _ = changed(rule, [("a", (1e308,)), ("b", (1.5e308,))])
    assert rule.result(accumulator) == 1.25e308


@given(history=histories(INTEGERS))
def test_a_list_takes_out_the_last_equal_element(history: Any) -> None:
    rule = make_row_rule(CollectList())
    accumulator, rows = changed(rule, history)
    assert Counter(map(str, rule.result(accumulator))) == Counter(map(str, rows.values()))
    assert ListRows(CollectList()).undo([1, 2, 1, 3], 1, "a") == [1, 2, 3]
    assert ListRows(CollectList(2)).undo([1, 2], 3, "a") == [1, 2], "beyond the limit"


@given(history=histories(st.none() | st.sampled_from("xy")))
def test_a_histogram_forgets_what_is_left_nowhere(history: Any) -> None:
    rule = make_row_rule(Histogram())
    accumulator, rows = changed(rule, history)
    assert rule.result(accumulator) == Counter(value for value in rows.values() if value is not None)


@given(history=histories(INTEGERS), more=histories(INTEGERS))
def test_an_earlier_accumulator_stays_as_it_was(history: Any, more: Any) -> None:
    """The changelog shows each of them, and the table keeps the last of a tick."""
    rule = make_row_rule(LatestValue())
    accumulator, rows = changed(rule, history)
    kept = dict(accumulator.items())
    for row, new in more:
        if new is not None:
            rule.add(accumulator, new[0], row)
        elif row in rows:
            rule.undo(accumulator, rows[row], row)
        assert dict(accumulator.items()) == kept == rows
    assert list(accumulator) == list(rows)


def test_rows_that_are_put_in_are_not_folded_again() -> None:
    """A first batch of a large group is one fold, not one for each row."""
    calls = []
    rule: Any = make_row_rule(Reduce(lambda so_far, n: calls.append(n) or so_far + n))  # type: ignore[func-returns-value]
    values = RowValues()
    for number in range(100):
        values = rule.add(values, number, str(number))
        assert rule.result(values) == sum(range(number + 1))
    assert len(calls) == 99


class Compared(str):
    """A value that counts how often it is compared, or looked up."""

    times: ClassVar[int] = 0
    __slots__ = ()

    def _count(self) -> Compared:
        Compared.times += 1
        assert Compared.times < 40 * MANY
        return self

    def __hash__(self) -> int:
        return str.__hash__(self._count())

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self._count(), other)

    def __lt__(self, other: str) -> bool:
        return str.__lt__(self._count(), other)

    def __gt__(self, other: str) -> bool:
        return str.__gt__(self._count(), other)


@pytest.mark.parametrize(
    "rule", [Min(), Max(), CollectList(), CollectSet(), CountDistinct(), Histogram(), TopK(2)],
    ids=lambda rule: type(rule).__name__,
)  # fmt: skip
def test_a_change_of_many_rows_of_a_group_folds_it_once(rule: Any) -> None:
    """A row to which many others refer by a foreign key changes: each of them is taken out and put in again."""
    form = make_row_rule(rule)
    values, Compared.times = form.empty_accumulator(), 0
    for row in range(MANY):
        values = form.add(values, Compared(f"{row:06}"), str(row))
    for row in range(MANY):
        values = form.undo(values, Compared(f"{row:06}"), str(row))
        values = form.add(values, Compared(f"{row:06}"), str(row))
    actual = form.result(values)
    assert actual == over(rule, [f"{row:06}" for row in range(MANY)])


def test_a_failing_function_is_counted_once_a_row() -> None:
    errors: list[Exception] = []
    rule: Any = make_row_rule(Reduce(lambda so_far, n: so_far // n)).with_listener(errors.append)  # type: ignore[union-attr]
    values = rule.empty_accumulator()
    for row, n in (("a", 7), ("b", 0), ("c", 2)):
        values = rule.add(values, n, row)
    assert (rule.result(values), len(errors)) == (3, 1)
    assert (rule.result(rule.undo(values, 2, "c")), len(errors)) == (7, 1)


def test_units_of_a_double_are_kept_as_a_text() -> None:
    rule = SumRowDoubles()
    assert rule.add(rule.empty_accumulator(), -1.0, "a") == {"units": hex(-(2**1074)), "nans": 0, "ups": 0, "downs": 0}


def test_a_group_of_decimals_can_be_emptied() -> None:
    group = RowGroup((make_row_rule(SumDecimals(10, 2)),))  # type: ignore[arg-type]
    cells, place = Cells(), Position(1, 0, "t", 0, 0, (0, 1))
    group.apply(cells, Arrival(5, 0, place, (Decimal("1.50"),), "a"))
    group.apply(cells, Arrival(3, 0, place._replace(offset=1), (Decimal("1.50"),), "a", undo=True))
    cell = cells[None]
    assert (group.rules[0].result(cell.accumulators[0]), cell.time) == (Decimal("0.00"), 5)


def test_the_two_halves_of_a_change_stand_beside_each_other() -> None:
    def record(offset: int, *ordinals: int, undo: bool = False) -> Arrival:
        return Arrival(0, 0, Position(1, 0, "t", 0, offset, ordinals), (), "a", undo)

    assert is_first_half(record(0, 4, 0, undo=True), record(0, 4, 1))
    assert not is_first_half(record(0, 4, 1), record(0, 4, 1))
    assert not is_first_half(record(0, 4, 0, undo=True), record(0, 5, 1))
    assert not is_first_half(record(0, 4, 0, undo=True), record(1, 4, 1))
    assert not is_first_half(record(0, 4, 0, undo=True), None)
