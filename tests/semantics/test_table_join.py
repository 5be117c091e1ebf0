"""A stream joined with a table: the rule alone, against what the table's changes say at each place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.operators.table_join import TableJoiner, TableMatch

KEYS = st.sampled_from((("a",), ("b",)))
TIMES = st.integers(0, 5)
CHANGES = st.tuples(st.just("change"), KEYS, st.none() | st.integers(0, 9), TIMES)
RECORDS = st.tuples(st.just("record"), st.none() | KEYS, st.none(), TIMES)


@pytest.mark.parametrize("by_time", [False, True])
@given(history=st.lists(CHANGES | RECORDS, max_size=20))
def test_a_record_finds_the_last_change_before_it(by_time: bool, history: list[Any]) -> None:
    """The oracle looks through all changes so far; by time, through those that are not later than the record."""
    inner, left = TableJoiner("inner", by_time), TableJoiner("left", by_time)
    seen: list[Any] = []
    for kind, key, number, time in history:
        if kind == "change":
            row = None if number is None else {"n": number}
            seen.append((key, row, time))
            for join in (inner, left):
                join.change(key, row, time)
            continue
        actual = [row for other, row, at in seen if other == key and (at <= time or not by_time)]
        row = actual[-1] if actual else None
        assert left.join_record(key, time) == TableMatch(row)
        assert inner.join_record(key, time) == (None if row is None else TableMatch(row))


def test_a_row_of_nulls_is_a_row() -> None:
    join = TableJoiner("inner")
    join.change(("a",), {"n": None}, 0)
    assert join.join_record(("a",), 0) == TableMatch({"n": None})
