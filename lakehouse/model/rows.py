"""Rows of tables in the model, change by change: those of one table, and those of two joined tables.

A change becomes two records: the first takes out the old row, the second puts in the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, from_hashable, key_of, to_sortable
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.operators.foreign_key_join import ForeignKeyJoiner
from lakehouse.semantics.operators.key_join import Half, JoinedChange, KeyJoiner, Match
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.tombstone import Row

Records = Mapping[Position, Record]


@dataclass(frozen=True, slots=True)
class NumberedChange:
    """A table's change, and its position with its number among the changes of one record."""

    change: Change
    position: Position

    @property
    def key(self) -> Key:
        assert self.change.key is not None
        return self.change.key


def number_changes(changes: Iterable[Change]) -> Iterator[NumberedChange]:
    """Yield a table's changes, in order, each under a position of its own."""
    numbered_groups = (enumerate(group) for _, group in groupby(changes, key=lambda change: change.position))
    for number, change in chain.from_iterable(numbered_groups):
        yield NumberedChange(change, change.position.with_number(number))


def rows_as_events(table: Table, changes: Iterable[Change], records: Records) -> list[Event]:
    """Return the rows that a table's changes take out and put in. records: the causes of the changes, by position."""
    rows: dict[Key, Row] = {}
    events: list[Event] = []
    for numbered_change in number_changes(changes):
        change_ms = numbered_change.change.timestamp
        row_pair = [rows.pop(numbered_change.key, None), numbered_change.change.value]
        half_before, half_after = (None if row is None else Half(Match(row, None), change_ms) for row in row_pair)
        if numbered_change.change.value is not None:
            rows[numbered_change.key] = numbered_change.change.value
        events += _halves_as_events(
            table, None, JoinedChange(numbered_change.key, half_before, half_after), numbered_change.position, records
        )
    return events


def join_by_key(join: RowsJoin, left: Iterable[Change], right: Iterable[Change], records: Records) -> list[Event]:
    """Return the rows of two tables joined by their keys."""
    operator = KeyJoiner(join.join_type)
    events: list[Event] = []
    for side, numbered_change in _in_order(left, right):
        change = operator.apply(
            side, numbered_change.key, numbered_change.change.value, numbered_change.change.timestamp
        )
        if change is not None:
            events += _halves_as_events(
                join.left, join, change, numbered_change.position.with_stream_number(side), records
            )
    return events


def join_by_reference(
    join: ForeignKeyJoin, left: Iterable[Change], right: Iterable[Change], records: Records
) -> list[Event]:
    """Return a table's rows, each with the row that it refers to."""
    operator = ForeignKeyJoiner(join.join_type, lambda key, row: _referenced_key(join, key, row), to_sortable)
    events: list[Event] = []
    for side, numbered_change in _in_order(left, right):
        row_after, change_ms, position = (
            numbered_change.change.value,
            numbered_change.change.timestamp,
            numbered_change.position.with_stream_number(side),
        )
        if side == 0:
            change = operator.apply_left(numbered_change.key, row_after, change_ms)
            joined_changes = [] if change is None else [(change, position)]
        else:
            fan_out = enumerate(operator.apply_right(numbered_change.key, row_after, change_ms))
            joined_changes = [(change, position.with_number(number)) for number, change in fan_out]
        for change, change_position in joined_changes:
            events += _halves_as_events(join.left, join, change, change_position, records)
    return events


def _in_order(left: Iterable[Change], right: Iterable[Change]) -> list[tuple[int, NumberedChange]]:
    """Return the changes of both sides in position order; for one record the left side's come first."""
    sided_changes = [
        (side, numbered_change)
        for side, changes in enumerate((left, right))
        for numbered_change in number_changes(changes)
    ]
    return sorted(sided_changes, key=lambda pair: pair[1].position.with_stream_number(pair[0]))


def _referenced_key(join: ForeignKeyJoin, key: Key, row: Row) -> Key | None:
    row_values = named_values(join.left, key, row)
    key_values = {
        name.lower(): evaluate(item, row_values)
        for name, item in zip(join.right.key, join.key_expressions, strict=True)
    }
    return None if None in key_values.values() else key_of(join.right.key, key_values)


def named_values(table: Table, key: Key, row: Row) -> dict[str, Any]:
    """Return the columns of a row, including its key's, by lower-case name."""
    values_by_name = {**dict(zip(table.key, map(from_hashable, key), strict=True)), **row}
    return {name.lower(): value for name, value in values_by_name.items()}


def _halves_as_events(
    left: Table, join: RowsJoin | ForeignKeyJoin | None, change: JoinedChange, position: Position, records: Records
) -> Iterator[Event]:
    """Yield the two halves of a change, as records."""
    record = records[position.record_position]
    record_columns = {"rowpartition": record.partition, "rowoffset": record.offset}
    for number, half in enumerate((change.before, change.after)):
        if half is None:
            continue
        column_values = named_values(left, change.key, half.match.left or {})
        if join is not None:
            column_values |= {
                (join.prefix + name).lower(): (half.match.right or {}).get(name) for name in join.right.values
            }
        if join is not None and join.indicator:
            present_sides = "right" if half.match.left is None else "left" if half.match.right is None else "both"
            column_values[join.indicator.lower()] = present_sides
        column_values |= {"rowtime": half.time, **record_columns}
        yield Event(False, False, column_values, half.time, record, position.with_number(number), undo=number == 0)
