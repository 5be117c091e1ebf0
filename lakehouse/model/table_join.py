"""Streams that read tables, in the model: a table's changes as records, and records joined with a table's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, key_of
from lakehouse.model.rows import named_values, number_changes
from lakehouse.plan.origin import TableJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.operators.table_join import TableJoiner
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record


def changes_as_events(table: Table, changes: Iterable[Change], records: Mapping[Position, Record]) -> list[Event]:
    """Return a table's changes, in order, as records. records: the causes of the changes, by position."""
    events: list[Event] = []
    for numbered_change in number_changes(changes):
        change, record = numbered_change.change, records[numbered_change.position.record_position]
        column_values = named_values(table, numbered_change.key, change.value or {})
        column_values |= {"rowtime": change.timestamp, "rowpartition": record.partition, "rowoffset": record.offset}
        events.append(
            Event(False, change.value is None, column_values, change.timestamp, record, numbered_change.position)
        )
    return events


def join_with_table(join: TableJoin, events: Iterable[Event], changes: Iterable[Change]) -> list[Event]:
    """Return the stream's records with the table's rows, by position; a record sees the change that it causes."""
    table_side = TableJoiner(join.join_type, by_time=join.as_of == "event time")
    waiting_changes = sorted(changes, key=lambda change: change.position.record_position)
    joined_events, applied_count = [], 0
    for event in events:
        while (
            applied_count < len(waiting_changes)
            and waiting_changes[applied_count].position.record_position <= event.position.record_position
        ):
            change = waiting_changes[applied_count]
            assert change.key is not None
            table_side.change(change.key, change.value, change.timestamp)
            applied_count += 1
        meeting = None if event.tombstone else table_side.join_record(_looked_up_key(join, event), event.timestamp)
        if meeting is not None:
            added_values = {(join.prefix + name).lower(): (meeting.row or {}).get(name) for name in join.table.values}
            if join.indicator:
                added_values[join.indicator.lower()] = "left" if meeting.row is None else "both"
            joined_events.append(replace(event, values={**event.values, **added_values}))
    return joined_events


def _looked_up_key(join: TableJoin, event: Event) -> Key | None:
    """Return the key that a record looks up; None if it contains a null."""
    key_values: dict[str, Any] = {
        name.lower(): evaluate(item, event.values)
        for name, item in zip(join.table.key, join.key_expressions, strict=True)
    }
    return None if any(value is None for value in key_values.values()) else key_of(join.table.key, key_values)
