"""Positions: one order for the lake, in which a partition keeps the order of its offsets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.semantics.position import Position, order_times
from lakehouse.semantics.record import Record


def test_an_order_time_is_the_running_maximum() -> None:
    # offset      0   1   2   3
    # timestamp  10  30  20  40
    # order time 10  30  30  40
    assert order_times([10, 30, 20, 40]) == [10, 30, 30, 40]
    assert order_times([10, 30, 20, 40], carried_ms=25) == [25, 30, 30, 40]
    assert order_times([]) == []
    assert order_times([-5, -7]) == [-5, -5]
    assert order_times([-5], carried_ms=0) == [0]


@given(st.lists(st.integers(-100, 100)), st.integers(0, 20))
def test_order_times_do_not_depend_on_batches(timestamps: list[int], cut: int) -> None:
    first = order_times(timestamps[:cut])
    carried = first[-1] if first else None
    assert first + order_times(timestamps[cut:], carried) == order_times(timestamps)


@given(st.lists(st.integers(-100, 100)))
def test_a_partition_keeps_the_order_of_its_offsets(timestamps: list[int]) -> None:
    placed = [Position(1, time, "t", 0, offset) for offset, time in enumerate(order_times(timestamps))]
    assert all(before < after for before, after in pairwise(placed))


def test_a_position_compares_by_tick_then_order_time_then_place() -> None:
    placed = [
        Position(1, 20, "b", 1, 1),
        Position(2, 10, "a", 0, 0),
        Position(2, 20, "a", 0, 5),
        Position(2, 20, "a", 1, 4),
        Position(2, 20, "b", 0, 3),
        Position(2, 20, "b", 0, 3, (0,)),
        Position(2, 20, "b", 0, 3, (0, 2**20)),
        Position(2, 20, "b", 0, 3, (1,)),
        Position(2, 20, "b", 0, 3, (1, 0)),
    ]
    backwards = placed[::-1]
    assert sorted(backwards) == placed


def test_a_recreated_topic_has_records_of_another_identity() -> None:
    def record(topic_id: str) -> Record:
        return Record("t", topic_id, 0, 7, 5, None, None, tick=3, order_time=9)

    assert record("old").position == record("new").position == Position(3, 9, "t", 0, 7)
    assert record("old").identity != record("new").identity
