"""Sessions: what merges, what is emitted, what is late (rules 14 and 17)."""

from __future__ import annotations

from itertools import accumulate, pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.aggregate.custom import Custom
from lakehouse.semantics.operators.cell import Arrival, Cells
from lakehouse.semantics.operators.session import Sessions
from lakehouse.semantics.time.window import Session, Span

from .windowed import LISTED, applied, held, shown

TIMES = st.lists(st.integers(-20, 80), max_size=14)


def clusters(times: list[int], gap: int) -> dict[Span, list[int]]:
    """Times with at most `gap` between neighbours belong together."""
    made: list[list[int]] = []
    for time in sorted(times):
        if made and time - made[-1][-1] <= gap:
            made[-1].append(time)
        else:
            made.append([time])
    return {Span(cluster[0], cluster[-1]): cluster for cluster in made}


def test_a_record_between_two_sessions_absorbs_both() -> None:
    # gap 5     1 o-o 3      10 o-o 12
    #                    o 7
    #           1 o-o----o------o-o 12
    _, steps, _ = applied(Sessions(LISTED, Session(5, 100)), [1, 3, 10, 12, 7])
    assert shown(steps[4]) == [
        (Span(1, 3), None, 3),
        (Span(10, 12), None, 12),
        (Span(1, 12), [1, 3, 10, 12, 7], 12),
    ]


def test_a_session_that_grows_is_merged_with_nothing() -> None:
    """A user's own merge may fail on an empty accumulator; nothing of the session may be lost by that."""
    least = Custom(
        initial=None,
        function=lambda seen, n: n if seen is None else min(seen, n),
        merge_accumulators=lambda earlier, later: min(earlier, later),
    )
    _, steps, _ = applied(Sessions((least,), Session(5, 100)), [5, 7, 9, 18, 14])
    assert shown(steps[2])[-1] == (Span(5, 9), 5, 9)
    assert shown(steps[4])[-1] == (Span(5, 18), 5, 18)


def test_a_gap_exactly_equal_to_the_limit_merges_and_one_more_does_not() -> None:
    cells, _, _ = applied(Sessions(LISTED, Session(5, 100)), [10, 15, 5, 21])
    assert held(cells) == {Span(5, 15): [5, 10, 15], Span(21, 21): [21]}


def test_a_point_session_is_added_to_without_a_tombstone() -> None:
    _, steps, _ = applied(Sessions(LISTED, Session(5, 100)), [10, 10])
    assert shown(steps[1]) == [(Span(10, 10), [10, 10], 10)]


def test_a_record_inside_a_session_removes_the_session_and_adds_it_again() -> None:
    _, steps, _ = applied(Sessions(LISTED, Session(5, 100)), [10, 12, 11])
    assert shown(steps[2]) == [(Span(10, 12), None, 12), (Span(10, 12), [10, 12, 11], 12)]


def test_the_merged_session_is_judged_not_the_record() -> None:
    # gap 5, grace 10, stream time 40:  24 + 15 < 40 is late, 25 + 15 is not; 20 joins 25 and is judged as [20, 25]
    _, steps, late = applied(Sessions(LISTED, Session(5, 10)), [40, 24, 25, 20])
    assert late == [[], [Span(24, 24)], [], []]
    assert shown(steps[3]) == [(Span(25, 25), None, 25), (Span(20, 25), [25, 20], 25)]


def test_what_is_late_leaves_the_sessions_as_they_were() -> None:
    cells, steps, late = applied(Sessions(LISTED, Session(5, 10)), [40, 25, 41, 24])
    assert late[3] == [Span(24, 25)]
    assert steps[3] == []
    assert held(cells) == {Span(25, 25): [25], Span(40, 41): [40, 41]}


@given(TIMES, st.integers(0, 10))
def test_with_enough_grace_sessions_are_the_clusters_of_times(times: list[int], gap: int) -> None:
    cells, _, late = applied(Sessions(LISTED, Session(gap, 1000)), times)
    assert held(cells) == clusters(times, gap)
    assert all(cell.time == span.end for span, cell in cells.items() if span)
    assert not any(late)


@given(TIMES, st.integers(0, 10), st.integers(0, 10))
def test_the_steps_give_the_sessions_and_no_two_open_ones_overlap(times: list[int], gap: int, grace: int) -> None:
    """A session that is too old to be joined may lie inside of one that was reached through a later one."""
    window = Session(gap, grace)
    cells, steps, late = applied(Sessions(LISTED, window), times)
    state = Cells()
    for step in (step for some in steps for step in some):
        if step.cell is None:
            del state[step.span]
        else:
            state[step.span] = step.cell
    assert state == cells
    spans = sorted(span for span in cells if span)
    open_spans = [span for span in spans if span.end + window.needed_after_end >= max(times)]
    assert all(before.end < after.start for before, after in pairwise(open_spans))
    assert sum(map(len, held(cells).values())) + sum(map(len, late)) == len(times)


@given(TIMES, st.integers(0, 10), st.integers(0, 10), st.booleans(), st.randoms(use_true_random=False))
def test_sessions_that_are_no_longer_needed_may_be_gone_or_not(
    times: list[int], gap: int, grace: int, final: bool, random: Random
) -> None:
    """A batch does not load them, and a rebuild has them all: both must give the same."""
    window = Session(gap, grace)
    operator = Sessions(LISTED, window, final=final)
    all_cells, kept_cells = Cells(), Cells()
    for number, (time, horizon) in enumerate(zip(times, accumulate(times, max), strict=True)):
        for span in [span for span in kept_cells if span]:
            is_closed = final and window.closing_time(span) <= horizon
            if (is_closed or span.end + window.needed_after_end < horizon) and random.random() < 0.5:
                del kept_cells[span]
        record = Arrival(time, horizon, number, (time,))
        assert operator.apply(kept_cells, record) == operator.apply(all_cells, record)


def test_a_record_finds_a_session_that_began_before_an_old_one_ended() -> None:
    # gap 9, grace 0: 42 and 51 reach [60, 69], [45, 45] is too old; 68 lies in [42, 69]
    cells, _, _ = applied(Sessions(LISTED, Session(9, 0)), [45, 60, 69, 51, 42, 68])
    assert held(cells) == {Span(45, 45): [45], Span(42, 69): [42, 51, 60, 68, 69]}
    # gap 5, grace 0: [10, 10] has closed, and its result is final; 12 and 8 join [15, 16], and so does 17
    cells, _, _ = applied(Sessions(LISTED, Session(5, 0), final=True), [10, 16, 15, 12, 8, 17])
    assert held(cells) == {Span(10, 10): [10], Span(8, 17): [8, 12, 15, 16, 17]}


def test_a_closed_session_takes_nothing_more_where_results_are_final() -> None:
    # gap 5, stream time 16: [10, 10] has closed (10 + 5 < 16) and is published; 15 itself is not late
    changes, _, _ = applied(Sessions(LISTED, Session(5, 0)), [10, 16, 15])
    finals, _, _ = applied(Sessions(LISTED, Session(5, 0), final=True), [10, 16, 15])
    assert held(changes) == {Span(10, 16): [10, 15, 16]}
    assert held(finals) == {Span(10, 10): [10], Span(15, 16): [15, 16]}


def test_a_session_reached_through_a_later_one_may_span_an_old_one() -> None:
    # gap 6, grace 2, stream time 69: [53, 53] is too old (53 + 14 < 69); 57 and 52 are not late because of [62, 62]
    cells, _, late = applied(Sessions(LISTED, Session(6, 2)), [53, 62, 69, 57, 52])
    assert held(cells) == {Span(53, 53): [53], Span(69, 69): [69], Span(52, 62): [52, 57, 62]}
    assert not any(late)


def test_a_session_that_no_record_alone_could_join_is_not_joined_through_a_later_one() -> None:
    # gap 5, grace 0, stream time 30:  5 o        10 o        15 o-o-o-o 30
    # a record at 10 is not late, because of [15, 30]; but [5, 5] may be long gone (5 + 2 gaps < 30)
    _, steps, _ = applied(Sessions(LISTED, Session(5, 0)), [5, 15, 20, 25, 30, 10])
    assert shown(steps[5]) == [(Span(15, 30), None, 30), (Span(10, 30), [15, 20, 25, 30, 10], 30)]
