"""Streams joined with streams, in the model: `lakehouse.semantics.operators.stream_join` over their records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lakehouse.model.event import Event, LateRecord, key_of
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.semantics.operators.eras import era_of_tick
from lakehouse.semantics.operators.stream_join import Joinable, JoinedRow, JoinSide, StreamJoiner


def join_streams(
    join: StreamJoin,
    left: Iterable[Event],
    right: Iterable[Event],
    era_ticks: Sequence[int],
    late_records: list[LateRecord],
) -> list[Event]:
    """Return the records of a join, by position; of one record's two sides the left one comes first.

    The rows that one record brings are numbered from 0. era_ticks: the ticks at which the eras of the topics begin.
    late_records: receives the records that came too late.
    """
    arriving_events = [
        (side, replace(event, position=event.position.with_stream_number(int(side))))
        for side, events in ((JoinSide.LEFT, left), (JoinSide.RIGHT, right))
        for event in events
    ]
    meeting: StreamJoiner[Event] = StreamJoiner(join.within, join.unmatched_sides)
    joined_events = []
    for side, event in sorted(arriving_events, key=lambda item: item[1].position):
        key_names = join.parts[side].key
        join_key = None if event.null_key else key_of(key_names, event.values)
        position = event.position
        current_era = era_of_tick(era_ticks, position.tick)
        joinable = Joinable(side, join_key, event.tombstone, event.timestamp, position.partition, event, current_era)
        joined_events += [
            _joined_event(join, event, row_number, joined_row)
            for row_number, joined_row in enumerate(meeting.apply(joinable))
        ]
        late_records += [LateRecord(event.record.identity, event.position, None)] if joinable.late else []
    return joined_events


def _joined_event(join: StreamJoin, arriving_event: Event, row_number: int, joined_row: JoinedRow[Event]) -> Event:
    """Return a joined row as a record: at the position of the record that arrived, with the row's own time."""
    left, right = joined_row.left, joined_row.right
    joined_values: dict[str, Any] = {
        c.name.lower(): left and left.values.get(c.name.lower()) for c in join.left.columns
    }
    joined_values |= {joined_name.lower(): right and right.values.get(name.lower()) for name, joined_name in join.added}
    if left is None and right is not None:
        key_pairs = zip(join.left.key, join.right.key, strict=True)
        joined_values |= {name.lower(): right.values.get(right_name.lower()) for name, right_name in key_pairs}
    joined_values |= {
        "rowtime": joined_row.time,
        **{name: arriving_event.values[name] for name in ("rowpartition", "rowoffset")},
    }
    present_side = left or right
    assert present_side is not None
    return replace(
        arriving_event,
        null_key=present_side.null_key,
        tombstone=False,
        values=joined_values,
        timestamp=joined_row.time,
        position=arriving_event.position.with_number(row_number),
    )
