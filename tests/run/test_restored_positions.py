"""Ticks of older lakes are counted back from 0: restored rows lie before all records of the new lake."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.formats.decode import decode_columns
from lakehouse.formats.encode import encode_value
from lakehouse.kafka.covers import Cover
from lakehouse.plan.expression.schema import POSITION_TYPE, Column
from lakehouse.run.repair.restored_rows import shift_ticks, tick_shifts

STREAM = lh.stream("in", key="id string", schema="word string")
TABLE = STREAM.group_by("id").agg(last=lh.latest("word"), first=lh.earliest("word"), n=lh.count()).table("words")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.data())
def test_positions_of_older_lakes_lie_before_the_new_ones_in_their_order(ends: list[int], data: st.DataObject) -> None:
    names = [f"lake-{n}" for n in range(len(ends))]
    before = tuple(zip(names, ends, strict=True))[:-1]
    cover = Cover("t", "words", names[-1], ends[-1], {}, before=before)
    back = tick_shifts(cover)
    # The ticks of all lakes, in the order in which one lake continued the other.
    ticks = [(n, tick) for n, end in enumerate(ends) for tick in range(1, end + 1)]
    restored = [tick - back[names[n]] for n, tick in ticks]
    assert restored == sorted(set(restored))
    assert restored[-1] == 0
    # One by one gives the same order as all at once.
    n, tick = data.draw(st.sampled_from(ticks))
    one_by_one = tick
    for end in ends[n:]:
        one_by_one -= end
    assert one_by_one == tick - back[names[n]]


def test_positions_in_accumulators_are_moved_with_their_row() -> None:
    at = {"tick": 3, "order_time": 10, "topic": "in", "partition": 0, "offset": 7, "ordinals": [0]}
    kind = f"struct<at: {POSITION_TYPE}, value: string>"
    columns = (Column("_acc_last", kind), Column("_acc_first", kind), Column("_acc_other", POSITION_TYPE))
    kept = {"_acc_last": {"at": at, "value": "x"}, "_acc_first": None, "_acc_other": at}
    read = decode_columns("json", columns, encode_value("json", columns, kept)) or {}
    assert shift_ticks(TABLE, read, 5) == {
        "_acc_last": {"at": {**at, "tick": -2}, "value": "x"}, "_acc_first": None, "_acc_other": at,
    }  # fmt: skip
