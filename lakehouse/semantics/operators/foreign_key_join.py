"""A table joined with another one by a foreign key (docs/rules.md, rule 22; Kafka Streams: a foreign-key join).

Each row of the left table refers to a row of the right table. A joined row has the left table's key.

    a left row changes    its own joined row changes: from the right row that it referred to before, to the right row
                          that it refers to now
    a right row changes   the joined rows of all left rows that refer to it change, in the order of their keys

inner: the joined row exists while the right row does. left: it exists while the left row does, with nulls for a foreign
key that is null or that no row has. The time of a change is the larger of its own and the other row's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lakehouse.semantics.changelog import Key
from lakehouse.semantics.operators.key_join import Half, JoinedChange, Timed, joined_half
from lakehouse.semantics.tombstone import Row


@dataclass(frozen=True, slots=True)
class ForeignKeyJoiner:
    """The join, with the present rows of both sides.

    refer: called with a left row, gives the right key that it refers to; None for null. order: gives the form by which
    keys are sorted.
    """

    join_type: str
    refer: Callable[[Key, Row], Key | None]
    order: Callable[[Key], Any]
    left: dict[Key, Timed] = field(default_factory=dict)
    right: dict[Key, Timed] = field(default_factory=dict)

    def apply_left(self, key: Key, row: Row | None, change_time: int) -> JoinedChange | None:
        """Take in a change of a left row; return the change of the joined row."""
        earlier_row = self.left.pop(key, None)
        if row is not None:
            self.left[key] = Timed(row, change_time)
        before, after = (self._left_half(key, left_row, change_time) for left_row in (earlier_row, self.left.get(key)))
        return None if before is None and after is None else JoinedChange(key, before, after)

    def apply_right(self, key: Key, row: Row | None, time: int) -> Iterator[JoinedChange]:
        """Take in a change of a right row; yield a change for each left row that refers to it."""
        referring_keys = [
            left_key for left_key, left_row in self.left.items() if self.refer(left_key, left_row.row) == key
        ]
        referring_keys.sort(key=self.order)
        earlier_row = self.right.pop(key, None)
        if row is not None:
            self.right[key] = Timed(row, time)
        for left_key in referring_keys:
            left_row = self.left[left_key]
            row_time = max(time, left_row.time)
            before, after = (
                joined_half(self.join_type, left_row, right_row, row_time)
                for right_row in (earlier_row, self.right.get(key))
            )
            if before is not None or after is not None:
                yield JoinedChange(left_key, before, after)

    def _left_half(self, key: Key, left_row: Timed | None, change_time: int) -> Half | None:
        if left_row is None:
            return None
        right_key = self.refer(key, left_row.row)
        right_row = None if right_key is None else self.right.get(right_key)
        return joined_half(
            self.join_type, left_row, right_row, change_time if right_row is None else max(change_time, right_row.time)
        )
