"""A stream joined with a table (docs/rules.md, rules 2, 20 and 23; Kafka Streams: KStream-KTable and -GlobalKTable).

A record finds the row that the table has when the record arrives, whatever the times say. A change of the table gives
nothing, and a record that was joined stays as it was:

    arrives   table a   record A   record B   table b   table: delete   record C
    inner               A with a   B with a
    left                A with a   B with a                             C, with nulls

    the record comes out   inner: if there is a row. left: always, with nulls if there is none
    a null value           takes no part
    a null key             equals no key: there is no row
    one record, both sides a change by the record itself comes first

`as_of.py`: the row that the table had at the record's event time. A table that is sent to every task whole (Kafka
Streams' global table) gives the same: here the lookup goes by arrival, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.semantics.changelog import Key
from lakehouse.semantics.operators.as_of import KeyChanges
from lakehouse.semantics.tombstone import Row


class Met(NamedTuple):
    """A record that comes out, with the row that it found; None if there is none."""

    row: Row | None


@dataclass(frozen=True, slots=True)
class TableJoined:
    """The join, and what its records can find now. by_time: the row at the record's event time, not at its arrival."""

    how: str
    by_time: bool = False
    rows: dict[Key, KeyChanges[Row | None]] = field(default_factory=dict)

    def change(self, key: Key, row: Row | None, event_time: int) -> None:
        """Take in the next change of the table. row: None for a delete. time: its event time in milliseconds."""
        # As of arrival, each change hides all earlier ones.
        self.rows.setdefault(key, KeyChanges()).put(event_time if self.by_time else 0, row)

    def join_record(self, key: Key | None, event_time: int) -> Met | None:
        """Return what a record that has a value comes out with; None if it does not. key: None if a part is null."""
        changes = None if key is None else self.rows.get(key)
        row = None if changes is None else changes.at(event_time if self.by_time else 0)
        return None if row is None and self.how == "inner" else Met(row)
