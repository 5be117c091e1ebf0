"""Duality: a changelog applied to an empty table is the table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.changelog import Change
from lakehouse.semantics.position import Position
from lakehouse.semantics.tombstone import Row
from tests.changelogs import apply


def changes(*pairs: tuple[str | None, str | None]) -> list[Change]:
    return [
        Change(
            None if key is None else (key,),
            None if city is None else {"city": city},
            number,
            Position(1, number, "t", 0, number),
        )
        for number, (key, city) in enumerate(pairs)
    ]


def test_the_worked_example() -> None:
    log = changes(("alice", "Paris"), ("bob", "Sydney"), ("alice", "Rome"), ("bob", "Lima"), ("alice", "Berlin"))
    assert apply(log[:3]) == {("alice",): {"city": "Rome"}, ("bob",): {"city": "Sydney"}}
    assert apply(log) == {("alice",): {"city": "Berlin"}, ("bob",): {"city": "Lima"}}


def test_a_tombstone_deletes_and_a_row_of_nulls_does_not() -> None:
    nulls: Row = {"city": None}
    row = Change(("bob",), nulls, 0, Position(1, 0, "t", 0, 0))
    assert apply([*changes(("alice", "Paris"), ("alice", None), ("carl", None)), row]) == {("bob",): nulls}


def test_a_null_key_reaches_no_table() -> None:
    assert apply(changes((None, "Oslo"), ("alice", "Rome"), (None, None))) == {("alice",): {"city": "Rome"}}


PAIRS = st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, "x", "y", "z"]))


@given(st.lists(PAIRS), st.integers(0, 20))
def test_a_changelog_goes_on_from_a_table_which_it_leaves_as_it_was(
    pairs: list[tuple[str | None, str | None]], cut: int
) -> None:
    log = changes(*pairs)
    before = apply(log[:cut])
    kept = dict(before)
    assert apply(log[cut:], before) == apply(log)
    assert before == kept
