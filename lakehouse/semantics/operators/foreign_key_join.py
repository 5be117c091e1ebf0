"""A table joined with another one by a foreign key (docs/rules.md, rule 22; Kafka Streams: a foreign-key join).

Each row of the left table refers to a row of the right one. What comes out has the left table's key.

    a left row changes    its own joined row changes: out with the row that it referred to, in with the one that it
                          refers to now
    a right row changes   the joined rows of all left rows that refer to it change, in the order of their keys

inner: the joined row is there while the right row is. left: as long as the left row is there; a foreign key that is
null, or that no row has, gives nulls. The time of a change is the larger of its own and the other row's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lakehouse.semantics.changelog import Key
from lakehouse.semantics.operators.key_join import Half, JoinedChange, Timed, half
from lakehouse.semantics.tombstone import Row


@dataclass(frozen=True, slots=True)
class Reference:
    """The join, and the rows that both sides have now.

    refer: gives the right key that a left row refers to; None for a null. order: gives a key in a form that sorts.
    """

    how: str
    refer: Callable[[Key, Row], Key | None]
    order: Callable[[Key], Any]
    left: dict[Key, Timed] = field(default_factory=dict)
    right: dict[Key, Timed] = field(default_factory=dict)

    def apply_left(self, key: Key, row: Row | None, time: int) -> JoinedChange | None:
        """Take in a change of a left row and return what it changes."""
        was = self.left.pop(key, None)
        if row is not None:
            self.left[key] = Timed(row, time)
        before, after = (self._half(key, held, time) for held in (was, self.left.get(key)))
        return None if before is None and after is None else JoinedChange(key, before, after)

    def apply_right(self, key: Key, row: Row | None, time: int) -> Iterator[JoinedChange]:
        """Take in a change of a right row and yield what it changes, one for each left row that refers to it."""
        referring = [left for left, held in self.left.items() if self.refer(left, held.row) == key]
        referring.sort(key=self.order)
        was = self.right.pop(key, None)
        if row is not None:
            self.right[key] = Timed(row, time)
        for left in referring:
            held = self.left[left]
            at = max(time, held.time)
            before, after = (half(self.how, held, side, at) for side in (was, self.right.get(key)))
            if before is not None or after is not None:
                yield JoinedChange(left, before, after)

    def _half(self, key: Key, held: Timed | None, time: int) -> Half | None:
        if held is None:
            return None
        to = self.refer(key, held.row)
        other = None if to is None else self.right.get(to)
        return half(self.how, held, other, time if other is None else max(time, other.time))
