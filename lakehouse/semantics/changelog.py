"""Changes: the steps of a table's changelog, and the table that a changelog makes.

Duality in one function: `apply` turns a changelog back into its table. A table is fully defined by its changelog:
applied to an empty table it gives the same table, without the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse.semantics.position import Position
from lakehouse.semantics.tombstone import Row, is_tombstone

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a changelog: the key's value is now `value`; None is a tombstone.

    `timestamp` is event time in milliseconds: for an aggregate the largest of the records so far (Kafka Streams keeps
    the same in `ValueAndTimestamp`), for `latest` the record's own. `position` is that of the record that caused it.
    A null key (``None``) can occur in a stream's output, never in a table's.
    """

    key: Key | None
    value: Row | None
    timestamp: int
    position: Position


def apply(changes: Iterable[Change], table: dict[Key, Row] | None = None) -> dict[Key, Row]:
    """Fold a changelog into a table: key -> row. `table` is the initial state; it is not changed."""
    state = dict(table or {})
    for change in changes:
        if change.key is None:
            continue
        if is_tombstone(change.value):
            state.pop(change.key, None)
        else:
            assert change.value is not None
            state[change.key] = change.value
    return state
