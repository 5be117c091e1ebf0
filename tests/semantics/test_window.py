"""Windows: which spans a record counts in, and the stream time at which a span stops taking records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.time.window import DAY_MS, Hopping, Session, Sliding, Span, Window, default_grace
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS


def test_tumbling_windows_are_half_open() -> None:
    # 0        10        20
    # |--------o|o-------o|o
    #          9 10     19 20
    window = Hopping(10, 10, 0)
    assert [window.spans_of_time(time) for time in (0, 9, 10, 19, 20)] == [
        [Span(0, 10)], [Span(0, 10)], [Span(10, 20)], [Span(10, 20)], [Span(20, 30)],
    ]  # fmt: skip


def test_hopping_windows_overlap_and_none_begins_before_the_epoch() -> None:
    # 0    5    10   15   20   25
    # |---------|                      2: one window, the one from -5 does not exist
    #      |---------|
    #           |---------|            12: two windows
    #                |---------|
    window = Hopping(10, 5, 0)
    assert window.spans_of_time(2) == [Span(0, 10)]
    assert window.spans_of_time(12) == [Span(5, 15), Span(10, 20)]
    assert window.spans_of_time(-1) == [Span(-10, 0), Span(-5, 5)]


def test_windows_are_cut_at_the_ends_of_the_years() -> None:
    # 9999-12-31   |------------|           the last millisecond belongs to the last window
    day, two = Hopping(DAY_MS, DAY_MS, 0), Hopping(2 * DAY_MS, DAY_MS, 0)
    assert day.spans_of_time(LAST_MS) == [Span(LAST_MS + 1 - DAY_MS, LAST_MS)]
    assert two.spans_of_time(FIRST_MS) == [Span(FIRST_MS, FIRST_MS + DAY_MS), Span(FIRST_MS, FIRST_MS + 2 * DAY_MS)]
    assert two.spans_of_time(LAST_MS) == [Span(LAST_MS + 1 - 2 * DAY_MS, LAST_MS), Span(LAST_MS + 1 - DAY_MS, LAST_MS)]
    longest = Hopping(LAST_MS - FIRST_MS, DAY_MS * 1000, 0)
    for time in (FIRST_MS, 0, LAST_MS):
        assert len(set(longest.spans_of_time(time))) == len(longest.spans_of_time(time))
        assert all(FIRST_MS <= span.start < span.end <= LAST_MS for span in longest.spans_of_time(time))


@given(st.integers(1, 30), st.integers(1, 30), st.integers(-100, 100))
def test_hopping_windows_are_those_that_hold_the_record(size: int, advance: int, time: int) -> None:
    window = Hopping(max(size, advance), min(size, advance), 0)
    starts = range(-200 * window.advance, 201 * window.advance, window.advance)
    holding = [start for start in starts if start <= time < start + window.size]
    assert [span.start for span in window.spans_of_time(time)] == [start for start in holding if time < 0 or start >= 0]
    assert all(span.end == span.start + window.size for span in window.spans_of_time(time))


@pytest.mark.parametrize(
    ("window", "last_open"),
    [
        # span [0, 10]: the largest stream time at which the window still takes records (rule 14)
        (Hopping(10, 10, 5), 14),  # end + grace <= stream time closes
        (Hopping(10, 5, 5), 14),
        (Hopping(10, 10, 0), 9),
        (Sliding(10, 5), 15),  # end + grace < stream time closes
        (Sliding(10, 0), 10),
        (Session(5, 10), 25),  # end + gap + grace < stream time closes
        (Session(5, 0), 15),
    ],
)
def test_a_window_closes_one_after_the_last_time_that_it_takes(window: Window, last_open: int) -> None:
    assert window.closing_time(Span(0, 10)) == last_open + 1


def test_the_default_grace_is_the_rest_of_a_day() -> None:
    assert default_grace(3_600_000) == 23 * 3_600_000
    assert default_grace(DAY_MS) == 0
    assert default_grace(DAY_MS + 1) == 0


@given(st.integers(1, 50), st.integers(0, 50))
def test_a_window_is_needed_until_nothing_can_join_it(size: int, grace: int) -> None:
    # The last record that can join [0, end] lies `gap` after its end, and is accepted for another `gap`.
    assert Session(size, grace).closing_time(Span(0, size)) == Session(size, grace).needed_after_end + 1
    assert Hopping(size, size, grace).closing_time(Span(-size, 0)) == Hopping(size, size, grace).needed_after_end
    # The left window of a record `difference` after the end begins with it.
    assert Sliding(size, grace).closing_time(Span(0, size)) <= Sliding(size, grace).needed_after_end + 1


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Hopping(10, 10, 5), "TUMBLING (SIZE 10 MS, GRACE 5 MS)"),
        (Hopping(10, 5, 5), "HOPPING (SIZE 10 MS, ADVANCE 5 MS, GRACE 5 MS)"),
        (Sliding(10, 5), "SLIDING (DIFFERENCE 10 MS, GRACE 5 MS)"),
        (Session(10, 5), "SESSION (GAP 10 MS, GRACE 5 MS)"),
    ],
)
def test_a_window_as_text(window: Window, text: str) -> None:
    assert str(window) == text
