"""Changes: the steps of a table's changelog.

Duality: a changelog that is applied to an empty table gives the same table without the input (`tests/changelogs.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.semantics.position import Position
from lakehouse.semantics.tombstone import Row

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a changelog: the key's value is now `value`; None is a tombstone.

    `timestamp` is event time in milliseconds: for an aggregate the largest of the records so far (as in Kafka Streams'
    `ValueAndTimestamp`), for `latest` the record's own. `position` is the position of the record that caused the
    change. A key can be None in a stream's output, never in a table's.
    """

    key: Key | None
    value: Row | None
    timestamp: int
    position: Position
