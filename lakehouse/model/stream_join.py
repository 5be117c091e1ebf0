"""Streams joined with streams, in the model: `lakehouse.semantics.operators.stream_join` over their records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lakehouse.model.event import Event, Late, key_of
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.semantics.operators.eras import era_of_tick
from lakehouse.semantics.operators.stream_join import Joinable, JoinedRow, JoinSide, Meeting


def joined_streams(
    join: StreamJoin, left: Iterable[Event], right: Iterable[Event], begins: Sequence[int], late: list[Late]
) -> list[Event]:
    """Return the records of a join, by position: a left record comes before a right one that was made from the same.

    Those that come with one record are numbered from 0. begins: the ticks at which its topics' eras begin. late:
    receives the records that came when they were closed.
    """
    arriving = [
        (side, replace(event, position=event.position.merged(int(side))))
        for side, events in ((JoinSide.LEFT, left), (JoinSide.RIGHT, right))
        for event in events
    ]
    meeting: Meeting[Event] = Meeting(join.within, join.kept)
    made = []
    for side, event in sorted(arriving, key=lambda item: item[1].position):
        names = join.parts[side].key
        key = None if event.null_key else key_of(names, event.values)
        at = event.position
        now = era_of_tick(begins, at.tick)
        new = Joinable(side, key, event.tombstone, event.timestamp, at.partition, event, now)
        made += [_event(join, event, number, row) for number, row in enumerate(meeting.apply(new))]
        late += [Late(event.record.identity, event.position, None)] if new.late else []
    return made


def _event(join: StreamJoin, arriving: Event, number: int, row: JoinedRow[Event]) -> Event:
    """A row that comes out, as a record: at the place of the one that arrived, with the time of its own."""
    left, right = row.left, row.right
    values: dict[str, Any] = {c.name.lower(): left and left.values.get(c.name.lower()) for c in join.left.columns}
    values |= {made.lower(): right and right.values.get(name.lower()) for name, made in join.added}
    if left is None and right is not None:
        pairs = zip(join.left.key, join.right.key, strict=True)
        values |= {name.lower(): right.values.get(of.lower()) for name, of in pairs}
    values |= {"rowtime": row.time, **{name: arriving.values[name] for name in ("rowpartition", "rowoffset")}}
    some = left or right
    assert some is not None
    return replace(
        arriving, null_key=some.null_key, tombstone=False, values=values, timestamp=row.time,
        position=arriving.position.with_number(number),
    )  # fmt: skip
