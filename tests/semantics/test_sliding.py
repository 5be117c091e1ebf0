"""Sliding windows: which exist, what each holds, what is late (rule 14)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.operators.sliding import SlidingWindows
from lakehouse.semantics.time.window import Sliding, Span
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS

from .windowed import LISTED, applied, held, shown

TIMES = st.lists(st.integers(0, 45), max_size=12)


def defined(times: list[int], difference: int) -> dict[Span, list[int]]:
    """The windows of the definition: one ends at each record (not before the epoch), one begins right after each."""
    starts = {max(time - difference, 0) for time in times} | {time + 1 for time in times}
    windows = {Span(s, s + difference): sorted(t for t in times if s <= t <= s + difference) for s in starts}
    return {span: inside for span, inside in windows.items() if inside}


def test_two_records_make_the_windows_that_tell_them_apart() -> None:
    # difference 10      18        24
    #          8----------o                  ends at 18
    #                14---o---------o        ends at 24, holds both
    #                      19-------o---29   begins right after 18
    _, steps, _ = applied(SlidingWindows(LISTED, Sliding(10, 100)), [18, 24])
    assert shown(steps[0]) == [(Span(8, 18), [18], 18)]
    assert shown(steps[1]) == [(Span(19, 29), [24], 24), (Span(14, 24), [18, 24], 24)]


def test_a_record_whose_windows_would_leave_the_years_is_late() -> None:
    sliding = SlidingWindows(LISTED, Sliding(10, 100))
    for time in (FIRST_MS, FIRST_MS + 9, LAST_MS - 10, LAST_MS):
        _, steps, late = applied(sliding, [time])
        assert steps == [[]]
        assert late == [[Span(max(time - 10, FIRST_MS), time)]]
    for time in (FIRST_MS + 10, LAST_MS - 11):
        _, steps, late = applied(sliding, [time])
        assert (shown(steps[0]), late) == ([(Span(time - 10, time), [time], time)], [[]])


def test_a_late_record_joins_the_latest_window_first_and_makes_its_own() -> None:
    #                     18 20     24
    #               10----o--o               ends at 20
    #                14---o--o------o        holds all three
    #                      19o------o---29
    #                         21----o-----31 begins right after 20
    _, steps, _ = applied(SlidingWindows(LISTED, Sliding(10, 100)), [18, 24, 20])
    assert shown(steps[2]) == [
        (Span(19, 29), [24, 20], 24),
        (Span(14, 24), [18, 24, 20], 24),
        (Span(10, 20), [18, 20], 20),
        (Span(21, 31), [24], 24),
    ]


def test_records_before_the_difference_share_the_first_window() -> None:
    # difference 10     3   5   7   10
    #               0---o---o---o---o        the window of all records before 10, and of the one at 10
    cells, _, _ = applied(SlidingWindows(LISTED, Sliding(10, 100)), [3, 7, 5, 10])
    assert held(cells) == {
        Span(0, 10): [3, 5, 7, 10], Span(4, 14): [5, 7, 10], Span(6, 16): [7, 10], Span(8, 18): [10],
    }  # fmt: skip


def test_a_window_that_begins_with_the_epoch_tells_no_other_where_it_begins() -> None:
    # difference 5    -3 -2 | 0    2      5
    #                         0----o------o    ends at 5; the one right after 2 is [3, 8]
    for times in ([-3, -2, 2, 5], [-3, -2, 5, 2]):
        cells, _, _ = applied(SlidingWindows(LISTED, Sliding(5, 100)), times)
        assert held(cells)[Span(3, 8)] == [5]


def test_a_second_record_of_the_same_time_makes_no_new_window() -> None:
    cells, steps, _ = applied(SlidingWindows(LISTED, Sliding(10, 100)), [20, 20])
    assert shown(steps[1]) == [(Span(10, 20), [20, 20], 20)]
    assert list(cells) == [Span(10, 20)]


def test_a_window_is_late_after_its_end_and_the_grace_and_a_record_after_its_own_windows() -> None:
    # difference 10, grace 5, stream time 46
    #   30  + 10 + 5 < 46: the record is late for all its windows
    #   31  could stand in [32 - 10, ...]: only the window that ends at it is late
    #   40  40 + 5 < 46: its left window is late;   41: 41 + 5 is not
    _, steps, late = applied(SlidingWindows(LISTED, Sliding(10, 5)), [46, 30, 31, 40, 41])
    assert late[1:4] == [[Span(20, 30)], [Span(21, 31)], [Span(30, 40)]]
    assert late[4] == []
    assert Span(31, 41) in [step.span for step in steps[4]]


@given(TIMES, st.integers(1, 12))
def test_with_enough_grace_the_windows_are_those_of_the_definition(times: list[int], difference: int) -> None:
    cells, _, late = applied(SlidingWindows(LISTED, Sliding(difference, 1000)), times)
    assert held(cells) == defined(times, difference)
    assert all(cell.time == max(cell.accumulators[0]) for cell in cells.values())
    assert not any(late)


@given(TIMES, st.integers(1, 12))
def test_in_order_nothing_is_late_and_each_window_changes_at_most_once_a_record(times: list[int], diff: int) -> None:
    cells, steps, late = applied(SlidingWindows(LISTED, Sliding(diff, 0)), sorted(times))
    assert held(cells) == defined(times, diff)
    assert not any(late)
    for made in steps:
        assert len({step.span for step in made}) == len(made)


@given(TIMES, st.integers(1, 12), st.integers(0, 8))
def test_late_windows_stay_as_they_are(times: list[int], difference: int, grace: int) -> None:
    window = Sliding(difference, grace)
    _, steps, _ = applied(SlidingWindows(LISTED, window), times)
    for number, made in enumerate(steps):
        assert all(window.closing_time(step.span) > max(times[: number + 1]) for step in made if step.span)
