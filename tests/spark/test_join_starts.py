"""Where a join of streams has to begin to read. Without Spark: the records are lists."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

import lakehouse as lh
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.semantics.operators.stream_join import Joinable, JoinedRow, JoinSide, JoinWindow, StreamJoiner
from lakehouse.spark.stream.stream_join import BEGINNING
from lakehouse.spark.table.join_starts import JoinStarts, StretchTime

LEFT = lh.stream("a", key="k string", schema="x bigint")
RIGHT = lh.stream("b", key="k string", schema="y bigint")
JOINED = LEFT.join(RIGHT, before="2 milliseconds", after="3 milliseconds", grace="1 millisecond").source
assert isinstance(JOINED, StreamJoin)

# JoinSide, time, partition; one record a tick.
RECORDS = st.lists(st.tuples(st.sampled_from(JoinSide), st.integers(0, 60), st.sampled_from([0, 0, 1])), max_size=40)
History = list[tuple[JoinSide, int, int]]


def measure(records: History, join: StreamJoin, after: int, to: int, width: int) -> Iterator[StretchTime]:
    for number, (_, time, partition) in enumerate(records, 1):
        if after < number <= to:
            yield StretchTime(min(to, after + -(-(number - after) // width) * width), f"0/{partition}", time)


def came(within: JoinWindow, records: History, since: int, times: dict[str, int], after: int) -> list[JoinedRow[int]]:
    """What comes after a tick, of the records since one at which the stream times are known."""
    meeting: StreamJoiner[int] = StreamJoiner(within, frozenset(JoinSide))
    meeting._times.update({int(name.removeprefix("0/")): time for name, time in times.items()})
    made = []
    for number, (side, time, partition) in enumerate(records, 1):
        if number > since:
            rows = meeting.apply(Joinable(side, "k", False, time, partition, number))
            made += rows if number > after else []
    return made


@given(RECORDS, st.integers(0, 40), st.integers(1, 5))
def test_what_is_not_read_does_not_matter(records: History, first: int, step: int) -> None:
    assert isinstance(JOINED, StreamJoin)
    join_starts = JoinStarts()
    for after in range(first, len(records) + 1, step):
        start = join_starts.find_start(JOINED, after, lambda *of: measure(records, *of))
        actual = came(JOINED.within, records, start.tick, dict(start.times), after)
        assert actual == came(JOINED.within, records, 0, {}, after)


def test_it_moves_on_with_time() -> None:
    records: History = [(JoinSide.LEFT, time, 0) for time in range(0, 300, 10)]
    join_starts = JoinStarts()
    starts = [join_starts.find_start(JOINED, after, lambda *of: measure(records, *of)) for after in (1, 5, 30)]
    assert starts[0] == BEGINNING
    assert [times.tick for times in starts[1:]] == [1, 28] or starts[2].tick > 25
    assert len(join_starts.known_times[0][1]) < 30, "what is not needed any more is forgotten"
