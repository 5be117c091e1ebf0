"""Alerts in the model: the changes at which a table's row crosses a condition, as records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakehouse.model.evaluate import evaluate
from lakehouse.model.event import Event, from_hashable
from lakehouse.model.rows import Records, number_changes
from lakehouse.plan.alert import Crossings
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.operators.crossing import find_crossing
from lakehouse.semantics.tombstone import Row


def find_crossings(alert: Crossings, changes: Iterable[Change], records: Records) -> list[Event]:
    """Return the crossings of a table's changes, in order. records: the causes of the changes, by position."""
    rows: dict[Key, Row] = {}
    events: list[Event] = []
    for numbered_change in number_changes(changes):
        row_before, row_after = rows.pop(numbered_change.key, None), numbered_change.change.value
        if row_after is not None:
            rows[numbered_change.key] = row_after
        key_values = dict(
            zip((name.lower() for name in alert.table.key), map(from_hashable, numbered_change.key), strict=True)
        )
        direction = find_crossing(*(_meets_condition(alert, key_values, row) for row in (row_before, row_after)))
        if direction is None or alert.direction not in (direction, "both"):
            continue
        record = records[numbered_change.position.record_position]
        column_values = {
            **key_values, "alert": alert.alert, "crossing": direction, "before": row_before, "after": row_after,
            "alert_id": f"{alert.alert}/{numbered_change.position.text}", "rowtime": numbered_change.change.timestamp,
            "rowpartition": record.partition, "rowoffset": record.offset,
        }  # fmt: skip
        events.append(
            Event(False, False, column_values, numbered_change.change.timestamp, record, numbered_change.position)
        )
    return events


def _meets_condition(alert: Crossings, key_values: dict[str, Any], row: Row | None) -> bool | None:
    if row is None:
        return None
    return evaluate(alert.when, key_values | {name.lower(): value for name, value in row.items()}) is True
