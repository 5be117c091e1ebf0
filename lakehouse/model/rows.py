"""Rows of tables in the model, change by change: of one table, and of two that are joined.

A change comes as two records: one takes out the row before, the other puts in the row after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, comparable, key_of, unhashable
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.operators.foreign_key_join import Reference
from lakehouse.semantics.operators.key_join import Half, JoinedChange, KeyJoin, Match
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.tombstone import Row

Records = Mapping[Position, Record]


@dataclass(frozen=True, slots=True)
class Numbered:
    """A table's change, and its position with its number among the changes of one record."""

    change: Change
    position: Position

    @property
    def key(self) -> Key:
        assert self.change.key is not None
        return self.change.key


def numbered(changes: Iterable[Change]) -> Iterator[Numbered]:
    """Yield a table's changes, in order, each with a position of its own."""
    of_one = (enumerate(same) for _, same in groupby(changes, key=lambda change: change.position))
    for number, change in chain.from_iterable(of_one):
        yield Numbered(change, change.position.with_number(number))


def rows_as_events(table: Table, changes: Iterable[Change], records: Records) -> list[Event]:
    """Return the rows that the changes of a table take out and put in. records: by position, those that caused them."""
    rows: dict[Key, Row] = {}
    events: list[Event] = []
    for item in numbered(changes):
        time = item.change.timestamp
        sides = [rows.pop(item.key, None), item.change.value]
        before, after = (None if row is None else Half(Match(row, None), time) for row in sides)
        if item.change.value is not None:
            rows[item.key] = item.change.value
        events += _events(table, None, JoinedChange(item.key, before, after), item.position, records)
    return events


def joined_by_key(join: RowsJoin, left: Iterable[Change], right: Iterable[Change], records: Records) -> list[Event]:
    """Return the rows of two tables that are joined by their keys."""
    operator = KeyJoin(join.how)
    events: list[Event] = []
    for side, item in _in_order(left, right):
        change = operator.apply(side, item.key, item.change.value, item.change.timestamp)
        if change is not None:
            events += _events(join.left, join, change, item.position.merged(side), records)
    return events


def joined_by_reference(
    join: ForeignKeyJoin, left: Iterable[Change], right: Iterable[Change], records: Records
) -> list[Event]:
    """Return the rows of a table with the rows that they refer to."""
    operator = Reference(join.how, lambda key, row: _refer(join, key, row), comparable)
    events: list[Event] = []
    for side, item in _in_order(left, right):
        value, time, position = item.change.value, item.change.timestamp, item.position.merged(side)
        if side == 0:
            change = operator.apply_left(item.key, value, time)
            changes = [] if change is None else [(change, position)]
        else:
            fan_out = enumerate(operator.apply_right(item.key, value, time))
            changes = [(change, position.with_number(number)) for number, change in fan_out]
        for change, place in changes:
            events += _events(join.left, join, change, place, records)
    return events


def _in_order(left: Iterable[Change], right: Iterable[Change]) -> list[tuple[int, Numbered]]:
    """The changes of both sides in position order; of one record those of the left side come first."""
    both = [(side, item) for side, changes in enumerate((left, right)) for item in numbered(changes)]
    return sorted(both, key=lambda pair: pair[1].position.merged(pair[0]))


def _refer(join: ForeignKeyJoin, key: Key, row: Row) -> Key | None:
    values = named_values(join.left, key, row)
    found = {name.lower(): evaluate(item, values) for name, item in zip(join.right.key, join.on, strict=True)}
    return None if None in found.values() else key_of(join.right.key, found)


def named_values(table: Table, key: Key, row: Row) -> dict[str, Any]:
    """Return the columns of a row, its key's too, by lower-case name."""
    named = {**dict(zip(table.key, map(unhashable, key), strict=True)), **row}
    return {name.lower(): value for name, value in named.items()}


def _events(
    left: Table, join: RowsJoin | ForeignKeyJoin | None, change: JoinedChange, position: Position, records: Records
) -> Iterator[Event]:
    """The halves of a change, as records."""
    record = records[position.of_record]
    place = {"rowpartition": record.partition, "rowoffset": record.offset}
    for number, half in enumerate((change.before, change.after)):
        if half is None:
            continue
        values = named_values(left, change.key, half.match.left or {})
        if join is not None:
            values |= {(join.prefix + name).lower(): (half.match.right or {}).get(name) for name in join.right.values}
        if join is not None and join.indicator:
            alone = "right" if half.match.left is None else "left" if half.match.right is None else "both"
            values[join.indicator.lower()] = alone
        values |= {"rowtime": half.time, **place}
        yield Event(False, False, values, half.time, record, position.with_number(number), undo=number == 0)
