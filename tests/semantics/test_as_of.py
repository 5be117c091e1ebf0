"""The as-of join: which change of a key a record of a time finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.operators.as_of import KeyChanges


def test_the_example() -> None:
    timeline: KeyChanges[str] = KeyChanges()
    for time, change in ((1, "A"), (5, "B"), (3, "C")):
        timeline.put(time, change)
    assert [timeline.find_change(time) for time in (0, 1, 2, 3, 4, 5, 9)] == [None, "A", "A", "C", "C", "C", "C"]
    assert timeline.changes == ["A", "C"], "B can be found no more"


def test_a_change_of_the_same_time_takes_the_place_of_the_earlier() -> None:
    timeline: KeyChanges[str] = KeyChanges()
    timeline.put(5, "A")
    timeline.put(5, "B")
    assert (timeline.find_change(4), timeline.find_change(5)) == (None, "B")


@given(st.lists(st.integers(0, 20), max_size=12), st.integers(-1, 21))
def test_it_is_the_last_that_came_of_those_that_are_not_later(times: list[int], asked: int) -> None:
    timeline: KeyChanges[int] = KeyChanges()
    for number, time in enumerate(times):
        timeline.put(time, number)
    expected = [number for number, time in enumerate(times) if time <= asked]
    assert timeline.find_change(asked) == (expected[-1] if expected else None)
