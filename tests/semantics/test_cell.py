"""Rows without windows, and in tumbling and hopping windows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.operators.cell import Arrival, Cell, Plain, TimeWindows, add_record
from lakehouse.semantics.time.window import Hopping, Span

from .windowed import LISTED, applied, held, shown

TIMES = st.lists(st.integers(-20, 60), max_size=12)


def test_without_a_window_nothing_is_late_and_the_largest_time_stays() -> None:
    cells, steps, late = applied(Plain(LISTED), [5, 100, 3])
    assert shown(step for some in steps for step in some) == [
        (None, [5], 5), (None, [5, 100], 100), (None, [5, 100, 3], 100),
    ]  # fmt: skip
    assert late == [[], [], []]
    assert held(cells) == {None: [3, 5, 100]}


def test_a_row_is_never_changed_in_place() -> None:
    before = Cell(([1],), 5, 0)
    after = add_record(LISTED, before, Arrival(3, 5, 1, (3,)))
    assert before.accumulators == ([1],)
    assert after == Cell(([1, 3],), 5, 1)


def test_a_record_is_late_for_one_window_and_not_for_another() -> None:
    # size 10, advance 5, grace 5        stream time 20
    #      5----------15                 15 + 5 <= 20: closed
    #           10----------20           open
    #             o 12
    _, steps, late = applied(TimeWindows(LISTED, Hopping(10, 5, 5)), [20, 12])
    assert shown(steps[1]) == [(Span(10, 20), [12], 12)]
    assert late == [[], [Span(5, 15)]]


def test_a_late_record_that_is_accepted_keeps_the_largest_time() -> None:
    _, steps, _ = applied(TimeWindows(LISTED, Hopping(10, 10, 5)), [8, 3])
    assert shown(steps[1]) == [(Span(0, 10), [8, 3], 8)]


@given(TIMES, st.integers(1, 12), st.integers(1, 12))
def test_with_enough_grace_each_window_holds_what_lies_in_it(times: list[int], size: int, advance: int) -> None:
    window = Hopping(max(size, advance), min(size, advance), 1000)
    cells, _, late = applied(TimeWindows(LISTED, window), times)
    wanted: dict[Span, list[int]] = {}
    for time in sorted(times):
        for start in range(-100 * window.advance, 100 * window.advance, window.advance):
            if start <= time < start + window.size and (start >= 0 or time < 0):
                wanted.setdefault(Span(start, start + window.size), []).append(time)
    assert held(cells) == wanted
    assert not any(late)


@given(TIMES, st.integers(1, 12), st.integers(0, 12))
def test_every_record_is_counted_or_late_in_each_of_its_windows(times: list[int], size: int, grace: int) -> None:
    window = Hopping(size, size, grace)
    _, steps, late = applied(TimeWindows(LISTED, window), times)
    for time, made, missed in zip(times, steps, late, strict=True):
        assert sorted([step.span for step in made if step.span] + missed) == window.spans_of_time(time)
