"""A stream joined with a table (docs/rules.md, rules 2, 20 and 23; Kafka Streams: KStream-KTable and -GlobalKTable).

A record finds the row that the table has when the record arrives, whatever the event times. A change of the table gives
no record, and does not change records that were joined before:

    arrives   table a   record A   record B   table b   table: delete   record C
    inner               A with a   B with a
    left                A with a   B with a                             C, with nulls

    the record comes out   inner: if there is a row. left: always, with nulls if there is none
    a null value           takes no part
    a null key             equals no key: there is no row
    one record, both sides a change by the record itself comes first

In an as-of join (`as_of.py`) a record finds the row at its event time. A table that is sent whole to every task (Kafka
Streams' global table) gives the same result, since its lookup is by arrival too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.semantics.changelog import Key
from lakehouse.semantics.operators.as_of import KeyChanges
from lakehouse.semantics.tombstone import Row


class TableMatch(NamedTuple):
    """A record that comes out of the join, with its row; None if there is none."""

    row: Row | None


@dataclass(frozen=True, slots=True)
class TableJoiner:
    """The join, with the rows that records can find. by_time: find the row at the record's event time, not arrival."""

    join_type: str
    by_time: bool = False
    rows: dict[Key, KeyChanges[Row | None]] = field(default_factory=dict)

    def change(self, key: Key, row: Row | None, event_time: int) -> None:
        """Take in the next change of the table. row: None for a delete. event_time: the change's, in milliseconds."""
        # As of arrival, each change hides all earlier ones.
        self.rows.setdefault(key, KeyChanges()).put(event_time if self.by_time else 0, row)

    def join_record(self, key: Key | None, event_time: int) -> TableMatch | None:
        """Return the match of a record with a value; None if it does not come out. key: None if a part is null."""
        changes = None if key is None else self.rows.get(key)
        row = None if changes is None else changes.find_change(event_time if self.by_time else 0)
        return None if row is None and self.join_type == "inner" else TableMatch(row)
