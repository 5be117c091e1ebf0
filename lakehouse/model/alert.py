"""Alerts in the model: the changes of a table at which its row crosses a condition, as records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, unhashable
from lakehouse.model.rows import Records, numbered
from lakehouse.plan.alert import Crossings
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.operators.crossing import find_crossing
from lakehouse.semantics.tombstone import Row


def crossings(alert: Crossings, changes: Iterable[Change], records: Records) -> list[Event]:
    """Return the crossings of a table's changes, in order. records: by position, those that caused the changes."""
    rows: dict[Key, Row] = {}
    events: list[Event] = []
    for item in numbered(changes):
        before, after = rows.pop(item.key, None), item.change.value
        if after is not None:
            rows[item.key] = after
        key = dict(zip((name.lower() for name in alert.table.key), map(unhashable, item.key), strict=True))
        found = find_crossing(*(_meets(alert, key, row) for row in (before, after)))
        if found is None or alert.on not in (found, "both"):
            continue
        record = records[item.position.of_record]
        values = {
            **key, "alert": alert.alert, "crossing": found, "before": before, "after": after,
            "alert_id": f"{alert.alert}/{item.position.text}", "rowtime": item.change.timestamp,
            "rowpartition": record.partition, "rowoffset": record.offset,
        }  # fmt: skip
        events.append(Event(False, False, values, item.change.timestamp, record, item.position))
    return events


def _meets(alert: Crossings, key: dict[str, Any], row: Row | None) -> bool | None:
    if row is None:
        return None
    return evaluate(alert.when, key | {name.lower(): value for name, value in row.items()}) is True
