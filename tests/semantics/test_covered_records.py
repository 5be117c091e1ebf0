"""A join of streams that goes on in another lake, where the covered records come first, in another order.

What comes with later records is the same: they meet what is open, which only depends on the stream times reached.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.operators.stream_join import Joinable, JoinedRow, JoinSide, JoinWindow, StreamJoiner

WITHIN = JoinWindow(before=2, after=5, grace=3)
# The stream, how much earlier than the time reached so far (within the grace), how far time goes on, the key.
STEPS = st.lists(
    st.tuples(st.sampled_from(JoinSide), st.integers(0, 3), st.integers(0, 4), st.sampled_from("xy")), max_size=30
)
Came = tuple[JoinSide, int, str, int]  # stream, time, key, number


def records(steps: list[tuple[JoinSide, int, int, str]]) -> list[Came]:
    made, now = [], 0
    for number, (side, late, on, key) in enumerate(steps):
        now += on
        made.append((side, now - late if number else now, key, number))
    return made


def later(covered: list[Came], rest: list[Came], kept: frozenset[JoinSide]) -> list[JoinedRow[int]]:
    """The rows that come with the records after the covered ones."""
    meeting: StreamJoiner[int] = StreamJoiner(WITHIN, kept)
    made = []
    for count, (side, time, key, number) in enumerate([*covered, *rest]):
        rows = meeting.apply(Joinable(side, key, False, time, 0, number))
        made += rows if count >= len(covered) else []
    return made


@given(STEPS, st.integers(0, 30), st.randoms(use_true_random=False))
def test_pairs_do_not_depend_on_the_order_of_covered_records(steps, cut, dice) -> None:
    came = records(steps)
    covered, rest = came[:cut], came[cut:]
    other = dice.sample(covered, len(covered))
    assert sorted(later(other, rest, frozenset())) == sorted(later(covered, rest, frozenset()))


@given(STEPS, st.integers(0, 30), st.randoms(use_true_random=False))
def test_nor_does_what_is_padded_if_none_is_later_than_the_grace_in_either(steps, cut, dice) -> None:
    came = records(steps)
    covered, rest = came[:cut], came[cut:]
    other = sorted(covered, key=lambda one: one[1] + dice.randint(0, 3))
    kept = frozenset(JoinSide)
    assert sorted(map(str, later(other, rest, kept))) == sorted(map(str, later(covered, rest, kept)))


def test_one_that_is_later_in_another_order_may_be_padded_though_it_had_met() -> None:
    """As docs/changelog.md says."""
    covered = [(JoinSide.RIGHT, 0, "x", 0), (JoinSide.LEFT, 2, "x", 1), (JoinSide.RIGHT, 7, "y", 2)]
    rest = [(JoinSide.RIGHT, 20, "y", 3)]
    kept = frozenset({JoinSide.LEFT})
    assert later(covered, rest, kept) == []
    apart = sorted(covered, key=lambda one: -one[0])
    assert later(apart, rest, kept) == [JoinedRow(1, None, 2)]
