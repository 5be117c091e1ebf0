"""Two tables joined by their keys (docs/rules.md, rule 22; Kafka Streams: a KTable-KTable join).

The joined row exists while the join has the rows that it needs:

    inner   both rows        left    the left row        right   the right row        outer   either row

So an inner join deletes its row once, when either side goes away; a left join only when the left side does. A change of
either side changes the joined row; if there was none and is none, nothing happens. If one record changes both sides,
the left side changes first. The time of a change is the larger of its own and the other row's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.semantics.changelog import Key
from lakehouse.semantics.tombstone import Row


class Timed(NamedTuple):
    """A row, and the time of the change that made it, in milliseconds."""

    row: Row
    time: int


class Match(NamedTuple):
    """The two rows of a joined row; one of them may be missing."""

    left: Row | None
    right: Row | None


class Half(NamedTuple):
    """One half of a joined row's change: the rows to take out, or to put in, and the time in milliseconds."""

    match: Match
    time: int


class JoinedChange(NamedTuple):
    """A change of a joined row: the row before, None if there was none; and the row after, None if it is gone."""

    key: Key
    before: Half | None
    after: Half | None


def is_joined(join_type: str, *, left: bool, right: bool) -> bool:
    """Say whether a joined row exists, given whether each side has a row."""
    match join_type:
        case "inner":
            return left and right
        case "left":
            return left
        case "right":
            return right
    return left or right


def joined_half(join_type: str, left: Timed | None, right: Timed | None, time: int) -> Half | None:
    """Return one half of a change at `time`; None if the join has no row."""
    if not is_joined(join_type, left=left is not None, right=right is not None):
        return None
    return Half(Match(left.row if left else None, right.row if right else None), time)


@dataclass(frozen=True, slots=True)
class KeyJoiner:
    """The join, with the present rows of both sides."""

    join_type: str
    left: dict[Key, Timed] = field(default_factory=dict)
    right: dict[Key, Timed] = field(default_factory=dict)

    def apply(self, side: int, key: Key, row: Row | None, time: int) -> JoinedChange | None:
        """Take in a change of one side (0: left, 1: right); return the change of the joined row."""
        rows_before = (self.left.get(key), self.right.get(key))
        changed_rows = (self.left, self.right)[side]
        if row is None:
            changed_rows.pop(key, None)
        else:
            changed_rows[key] = Timed(row, time)
        other_row = rows_before[1 - side]
        change_time = max(time, other_row.time) if other_row is not None else time
        before, after = (
            joined_half(self.join_type, *row_pair, change_time)
            for row_pair in (rows_before, (self.left.get(key), self.right.get(key)))
        )
        return None if before is None and after is None else JoinedChange(key, before, after)
