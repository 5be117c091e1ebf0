"""A stream joined with a stream: two records of one key meet if their event times lie close together (rule 21).

    left  L at 10      before 2, after 5     meets right records at 8 to 15: both ends belong
                       |--L-----|
                       8 10    15

The join takes one record after the other, of both streams, in position order; a record of both (a stream joined with
itself) comes as the left record first. Each record moves the stream time of its partition number, which both streams
share. (When one of the topics was recreated, that time starts over, see `lakehouse.semantics.operators.eras`; open
records stay open.) Then the join emits:

    padded rows   of the records whose windows the record closes (left, right and outer joins with a grace)
    joined rows   with each record of the other stream that came earlier and is still open, in the order of their times;
                  the row's time is the larger of both
    its own       padded row, if the record has met none: at once without a grace; with a grace, when its window closes

A record is open until stream time passes the end of its window and the grace: right partners of L can come until
15 + grace. A record that is already closed when it comes meets the open records, or is padded at once: no later
record meets it. It is *late*, since it missed the records that have closed; so it is kept and counted (rule 19). A null
value takes no part. A null key meets nothing: such a record is padded at once if its side is kept. Both move stream
time, as all records do that reach the join.

Kafka Streams: `KStreamKStreamJoin`, `JoinWindows`. Where its result is undefined or differs from run to run, this join
decides:

    closing         the padded row's place is the record that moves stream time past the end, even with a null value. In
                    Kafka Streams it is the next record with a value, in at most one sweep a second of the machine's
                    clock
    lateness        a record is found until it is closed. In Kafka Streams it is found while its store keeps its segment
    padding         with a grace, a late record gives a padded row or a joined row, never both. In Kafka Streams it can
                    give both
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

R = TypeVar("R")


class JoinSide(IntEnum):
    """One of the two streams. The left stream comes first where times and records are equal."""

    LEFT = 0
    RIGHT = 1


@dataclass(frozen=True, slots=True)
class JoinWindow:
    """How far apart the times of two records may be, and how long the join waits for late ones, in milliseconds.

    before, after: how much earlier, or later, than the left record the right record may be. eager: pad an unmatched
    record at once, not when its window closes.
    """

    before: int
    after: int
    grace: int
    eager: bool = False

    def times_meet(self, left_time: int, right_time: int) -> bool:
        """Say whether a left and a right record of these times meet."""
        return left_time - self.before <= right_time <= left_time + self.after

    def closing_time(self, side: JoinSide, event_time: int) -> int:
        """Return the stream time after which a record meets no later record."""
        return event_time + (self.after if side is JoinSide.LEFT else self.before) + self.grace

    def __str__(self) -> str:
        grace_text = f"GRACE {self.grace} MS" + (", UNMATCHED AT ONCE" if self.eager else "")
        return f"WITHIN (BEFORE {self.before} MS, AFTER {self.after} MS, {grace_text})"


@dataclass(slots=True)
class Joinable(Generic[R]):
    """A record that reaches the join.

    key: None for a null key. partition: the number of its partition. time: event time in milliseconds. era: see
    `lakehouse.semantics.operators.eras`. waits: it has met no record, and is padded when it closes. late: it was
    already closed when it came.
    """

    side: JoinSide
    key: Hashable | None
    tombstone: bool
    time: int
    partition: int
    record: R
    era: int = 0
    number: int = field(default=0, init=False)
    waits: bool = field(default=False, init=False)
    late: bool = field(default=False, init=False)


class JoinedRow(NamedTuple, Generic[R]):
    """A row of the join: a pair, or one record with nothing on the other side; its time in milliseconds."""

    left: R | None
    right: R | None
    time: int


class StreamJoiner(Generic[R]):
    """The join, and its open records. kept_sides: the sides whose unmatched records come out, padded."""

    def __init__(self, within: JoinWindow, kept_sides: frozenset[JoinSide]) -> None:
        self._within, self._kept = within, kept_sides
        self._open: dict[Hashable, list[Joinable[R]]] = {}
        self._times: dict[int, int] = {}
        self._eras: dict[int, int] = {}
        self._seen = 0

    def apply(self, new_record: Joinable[R]) -> list[JoinedRow[R]]:
        """Take in the next record in position order; return the rows that come out, in order."""
        stream_time = self._stream_time(new_record)
        self._seen += 1
        new_record.number = self._seen
        joined_rows = [
            _padded_row(open_record) for open_record in self._close_records(new_record.partition, stream_time)
        ]
        if new_record.tombstone:
            return joined_rows
        if new_record.key is None:
            return [*joined_rows, _padded_row(new_record)] if new_record.side in self._kept else joined_rows
        open_records = self._open.get(new_record.key, [])
        partner_records = [
            open_record
            for open_record in open_records
            if open_record.side is not new_record.side and self._records_meet(new_record, open_record)
        ]
        for open_record in sorted(partner_records, key=_join_order):
            open_record.waits = False
            joined_rows.append(_joined_pair(new_record, open_record))
        is_open = self._within.closing_time(new_record.side, new_record.time) >= stream_time
        new_record.late = not is_open
        if not partner_records and new_record.side in self._kept:
            new_record.waits = is_open and not self._within.eager
            joined_rows += [] if new_record.waits else [_padded_row(new_record)]
        if is_open:
            self._open.setdefault(new_record.key, []).append(new_record)
        return joined_rows

    def _stream_time(self, new_record: Joinable[R]) -> int:
        """Let a record move the stream time of its partition; return that time."""
        starts_over = self._eras.get(new_record.partition, new_record.era) < new_record.era
        self._eras[new_record.partition] = new_record.era
        earlier_time = new_record.time if starts_over else self._times.get(new_record.partition, new_record.time)
        self._times[new_record.partition] = max(new_record.time, earlier_time)
        return self._times[new_record.partition]

    def _records_meet(self, new_record: Joinable[R], open_record: Joinable[R]) -> bool:
        left, right = (new_record, open_record) if new_record.side is JoinSide.LEFT else (open_record, new_record)
        return self._within.times_meet(left.time, right.time)

    def _close_records(self, partition: int, stream_time: int) -> list[Joinable[R]]:
        """Forget the partition's records whose windows have closed; return those that waited, in order."""
        closed_records = [
            open_record
            for open_records in self._open.values()
            for open_record in open_records
            if open_record.partition == partition
            and self._within.closing_time(open_record.side, open_record.time) < stream_time
        ]
        for open_record in closed_records:
            self._open[open_record.key].remove(open_record)
        return sorted((open_record for open_record in closed_records if open_record.waits), key=_join_order)


def _join_order(open_record: Joinable[R]) -> tuple[int, JoinSide, int]:
    return open_record.time, open_record.side, open_record.number


def _padded_row(open_record: Joinable[R]) -> JoinedRow[R]:
    is_left = open_record.side is JoinSide.LEFT
    return JoinedRow(open_record.record if is_left else None, None if is_left else open_record.record, open_record.time)


def _joined_pair(new_record: Joinable[R], open_record: Joinable[R]) -> JoinedRow[R]:
    left, right = (new_record, open_record) if new_record.side is JoinSide.LEFT else (open_record, new_record)
    return JoinedRow(left.record, right.record, max(new_record.time, open_record.time))
