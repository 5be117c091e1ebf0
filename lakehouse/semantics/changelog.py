"""Changes: the steps of a table's changelog.

Duality: a changelog, applied to an empty table, gives the same table, without the input (`tests/changelogs.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.semantics.position import Position
from lakehouse.semantics.tombstone import Row

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
