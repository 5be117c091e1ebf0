"""A stream joined with a stream: two records of one key meet if their event times lie close together (rule 21).

    left  L at 10      before 2, after 5     meets right records at 8 to 15: both ends belong
                       |--L-----|
                       8 10    15

One record after the other, of both streams, in position order; a record of both (a stream joined with itself) comes as
the left one first. Each moves the stream time of its partition, by number, of both streams together. (When one of the
topics was recreated, that time starts over, see `lakehouse.semantics.operators.eras`; what is open stays open.) Then:

    padded rows   of the records whose windows it closes (left, right and outer joins with a grace)
    joined rows   with each record of the other stream that came earlier and is still open, in the order of their times;
                  the row's time is the larger of both
    its own       padded row, if it has met none: at once without a grace; with one, when its window closes

A record is open until stream time passes the end of its window and the grace: right partners of L can come until
15 + grace. A record that is closed when it comes meets those that are open, or is padded at once: no later one meets
it. It is *late*: what came before it and has closed was not met, so it is kept and counted (rule 19). A null value
takes no part, and a null key meets nothing: such a record is padded where its side is kept, at once.
Both move stream time, as all records do that reach the join.

Kafka Streams: `KStreamKStreamJoin`, `JoinWindows`. Where they leave it open, or differ from run to run, we decide:

    what closes     whichever record moves stream time past the end, a null value too, is the padded row's place. There
                    it is the next one with a value, and not more than one sweep a second of the machine's clock
    what is late    there a record is found while its store keeps it, in segments; here until it is closed, no longer
    padded once     there a late record can give a padded row, and a joined one after it; here, with a grace, never both
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

R = TypeVar("R")


class JoinSide(IntEnum):
    """One of the two streams. The left one comes first where times and records are equal."""

    LEFT = 0
    RIGHT = 1


@dataclass(frozen=True, slots=True)
class Within:
    """How far apart the times of two records may be, in milliseconds, and how long a late one is waited for.

    before, after: how much earlier, or later, than the left record the right one may be. eager: an unmatched record is
    padded at once, not when its window closes.
    """

    before: int
    after: int
    grace: int
    eager: bool = False

    def holds(self, left: int, right: int) -> bool:
        """Say whether a left and a right record of these times meet."""
        return left - self.before <= right <= left + self.after

    def closes(self, side: JoinSide, time: int) -> int:
        """Return the stream time after which a record meets no later one."""
        return time + (self.after if side is JoinSide.LEFT else self.before) + self.grace

    def __str__(self) -> str:
        grace = f"GRACE {self.grace} MS" + (", UNMATCHED AT ONCE" if self.eager else "")
        return f"WITHIN (BEFORE {self.before} MS, AFTER {self.after} MS, {grace})"


@dataclass(slots=True)
class Joinable(Generic[R]):
    """A record that reaches the join. key: None for a null key. waits: it has met none, and is padded when it closes.

    partition: the number of the partition that it came from; time: event time in milliseconds. era: see
    `lakehouse.semantics.operators.eras`. late: it was closed when it came.
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
    """A row that comes out: a pair, or one record and nothing on the other side; its time in milliseconds."""

    left: R | None
    right: R | None
    time: int


class Meeting(Generic[R]):
    """The join, and the records that are open in it. kept: the sides whose unmatched records come out, padded."""

    def __init__(self, within: Within, kept: frozenset[JoinSide]) -> None:
        self._within, self._kept = within, kept
        self._open: dict[Hashable, list[Joinable[R]]] = {}
        self._times: dict[int, int] = {}
        self._eras: dict[int, int] = {}
        self._seen = 0

    def apply(self, new: Joinable[R]) -> list[JoinedRow[R]]:
        """Take in the next record in position order; return the rows that come out, in order."""
        now = self._stream_time(new)
        self._seen += 1
        new.number = self._seen
        made = [_padded(item) for item in self._close(new.partition, now)]
        if new.tombstone:
            return made
        if new.key is None:
            return [*made, _padded(new)] if new.side in self._kept else made
        mine = self._open.get(new.key, [])
        partners = [item for item in mine if item.side is not new.side and self._holds(new, item)]
        for item in sorted(partners, key=_order):
            item.waits = False
            made.append(_pair(new, item))
        is_open = self._within.closes(new.side, new.time) >= now
        new.late = not is_open
        if not partners and new.side in self._kept:
            new.waits = is_open and not self._within.eager
            made += [] if new.waits else [_padded(new)]
        if is_open:
            self._open.setdefault(new.key, []).append(new)
        return made

    def _stream_time(self, new: Joinable[R]) -> int:
        """Let a record move the stream time of its partition; return it."""
        starts_over = self._eras.get(new.partition, new.era) < new.era
        self._eras[new.partition] = new.era
        known = new.time if starts_over else self._times.get(new.partition, new.time)
        self._times[new.partition] = max(new.time, known)
        return self._times[new.partition]

    def _holds(self, new: Joinable[R], item: Joinable[R]) -> bool:
        left, right = (new, item) if new.side is JoinSide.LEFT else (item, new)
        return self._within.holds(left.time, right.time)

    def _close(self, partition: int, now: int) -> list[Joinable[R]]:
        """Forget the partition's records whose windows have closed; return those that waited, in order."""
        closed = [
            item
            for items in self._open.values()
            for item in items
            if item.partition == partition and self._within.closes(item.side, item.time) < now
        ]
        for item in closed:
            self._open[item.key].remove(item)
        return sorted((item for item in closed if item.waits), key=_order)


def _order(item: Joinable[R]) -> tuple[int, JoinSide, int]:
    return item.time, item.side, item.number


def _padded(item: Joinable[R]) -> JoinedRow[R]:
    left = item.side is JoinSide.LEFT
    return JoinedRow(item.record if left else None, None if left else item.record, item.time)


def _pair(one: Joinable[R], other: Joinable[R]) -> JoinedRow[R]:
    left, right = (one, other) if one.side is JoinSide.LEFT else (other, one)
    return JoinedRow(left.record, right.record, max(one.time, other.time))
