"""Eras: a recreated topic starts the stream time over that it shares with others."""

from __future__ import annotations

from lakehouse.semantics.operators.eras import era_of_tick, era_starts, first_ticks
from lakehouse.semantics.operators.stream_join import Joinable, JoinSide, JoinWindow, StreamJoiner


def test_a_topic_begins_an_era_when_it_comes_with_another_id() -> None:
    #        tick 1 2 3 4 5     left: a a - b b     right: x - x x y
    seen = [("left", "a", 1), ("left", "a", 2), ("left", "b", 4), ("left", "b", 5)]
    seen += [("right", "x", 1), ("right", "x", 3), ("right", "x", 4), ("right", "y", 5)]
    ids = first_ticks(reversed(seen))
    assert ids == {"left": [("a", 1), ("b", 4)], "right": [("x", 1), ("y", 5)]}
    assert era_starts(ids, ["left", "right"]) == (4, 5)
    assert era_starts(ids, ["right", "unknown"]) == (5,)
    assert [era_of_tick(era_starts(ids, ids), tick) for tick in (1, 3, 4, 5, 9)] == [0, 0, 1, 2, 2]


def test_what_comes_first_is_no_era_of_its_own() -> None:
    assert era_starts(first_ticks([("left", "a", 1), ("right", "x", 3)]), ["left", "right"]) == ()


def test_the_stream_time_of_a_join_starts_over_and_what_is_open_stays_open() -> None:
    meeting: StreamJoiner[str] = StreamJoiner(JoinWindow(5, 5, 0), frozenset({JoinSide.LEFT}))

    def came(side: JoinSide, name: str, time: int, era: int) -> tuple[list[tuple[str | None, str | None]], bool]:
        new = Joinable(side, "k", False, time, 0, name, era)
        return [(row.left, row.right) for row in meeting.apply(new)], new.late

    assert came(JoinSide.LEFT, "old", 100, 0) == ([], False)
    assert came(JoinSide.RIGHT, "late", 10, 0) == ([], True)
    # 10 is no longer late: stream time is that of the new topic. The old record waits for the new time to pass it.
    assert came(JoinSide.LEFT, "new", 10, 1) == ([], False)
    assert came(JoinSide.RIGHT, "meets", 12, 1) == ([("new", "meets")], False)
    assert came(JoinSide.RIGHT, "both", 101, 1) == ([("old", "both")], False)
    assert came(JoinSide.RIGHT, "too late", 12, 1) == ([], True)
