"""Streams that read tables, in the model: a table's changes as records, and records with the row that a table has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, key_of
from lakehouse.model.rows import named_values, numbered
from lakehouse.plan.origin import TableJoin
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.operators.table_join import TableJoined
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record


def changes_as_events(table: Table, changes: Iterable[Change], records: Mapping[Position, Record]) -> list[Event]:
    """Return a table's changes, in order, as records. records: by position, those that caused the changes."""
    events: list[Event] = []
    for item in numbered(changes):
        change, record = item.change, records[item.position.of_record]
        values = named_values(table, item.key, change.value or {})
        values |= {"rowtime": change.timestamp, "rowpartition": record.partition, "rowoffset": record.offset}
        events.append(Event(False, change.value is None, values, change.timestamp, record, item.position))
    return events


def joined(join: TableJoin, events: Iterable[Event], changes: Iterable[Change]) -> list[Event]:
    """Return the stream's records with the table's row, by position; a change by the same record comes before it."""
    table = TableJoined(join.how, by_time=join.as_of == "event time")
    waiting = sorted(changes, key=lambda change: change.position.of_record)
    made, done = [], 0
    for event in events:
        while done < len(waiting) and waiting[done].position.of_record <= event.position.of_record:
            change = waiting[done]
            assert change.key is not None
            table.change(change.key, change.value, change.timestamp)
            done += 1
        met = None if event.tombstone else table.join_record(_key(join, event), event.timestamp)
        if met is not None:
            added = {(join.prefix + name).lower(): (met.row or {}).get(name) for name in join.table.values}
            if join.indicator:
                added[join.indicator.lower()] = "left" if met.row is None else "both"
            made.append(replace(event, values={**event.values, **added}))
    return made


def _key(join: TableJoin, event: Event) -> Key | None:
    """The key that a record looks up; None if there is a null in it."""
    found: dict[str, Any] = {
        name.lower(): evaluate(item, event.values) for name, item in zip(join.table.key, join.on, strict=True)
    }
    return None if any(value is None for value in found.values()) else key_of(join.table.key, found)
