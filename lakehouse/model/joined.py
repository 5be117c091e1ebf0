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
from lakehouse.semantics.operators.as_of import KeyChanges
from lakehouse.semantics.position import Position
from lakehouse.semantics.record import Record
from lakehouse.semantics.tombstone import Row


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
    rows: dict[Key, KeyChanges[Change]] = {}
    waiting = sorted(changes, key=lambda change: change.position.of_record)
    made, done = [], 0
    for event in events:
        while done < len(waiting) and waiting[done].position.of_record <= event.position.of_record:
            change = waiting[done]
            assert change.key is not None
            # As of arrival, each change hides all earlier ones.
            rows.setdefault(change.key, KeyChanges()).put(_time(join, change.timestamp), change)
            done += 1
        row = None if event.tombstone else _row(join, event, rows)
        if row is not None or (join.how == "left" and not event.tombstone):
            added = {(join.prefix + name).lower(): (row or {}).get(name) for name in join.table.values}
            if join.indicator:
                added[join.indicator.lower()] = "left" if row is None else "both"
            made.append(replace(event, values={**event.values, **added}))
    return made


def _row(join: TableJoin, event: Event, rows: Mapping[Key, KeyChanges[Change]]) -> Row | None:
    found: dict[str, Any] = {
        name.lower(): evaluate(item, event.values) for name, item in zip(join.table.key, join.on, strict=True)
    }
    if any(value is None for value in found.values()):
        return None  # a null equals no key
    timeline = rows.get(key_of(join.table.key, found))
    change = timeline.at(_time(join, event.timestamp)) if timeline is not None else None
    return change.value if change is not None else None


def _time(join: TableJoin, time: int) -> int:
    """The time that decides which change a record finds: none, if it finds the last one that came before it."""
    return time if join.as_of == "event time" else 0
