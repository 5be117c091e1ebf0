"""Records that are sent to Kafka, and kept for the model: what it makes of all of them is what a lake must have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import lakehouse as lh
from lakehouse.formats.decode import decode_record
from lakehouse.model import model
from lakehouse.run.lake import Lake
from lakehouse.run.scenario.replay import rows_of
from lakehouse.semantics.record import Record


def send_records(send: Callable[..., int], topics: Iterable[str], records: Sequence[Record]) -> None:
    """Send the records of each topic, one topic after the other."""
    for topic in topics:
        send(topic, [
            (
                item.key.decode() if item.key else None, item.value.decode() if item.value else None, item.timestamp,
                item.partition,
            )
            for item in records if item.topic == topic
        ])  # fmt: skip


def check_tables(lake: Lake, app: lh.App, records: Sequence[Record]) -> None:
    """Compare all tables with those that the model makes of all records."""
    expected = model.run(app, records, decode_record)
    for table in app.tables:
        result = rows_of(table, lake.read(table).toArrow().to_pylist(maps_as_pydicts="strict"))
        wanted = expected.tables[table.name]
        differing = {key: (result.get(key), wanted.get(key)) for key in {*result, *wanted}}
        assert result == wanted, (table.name, {key: rows for key, rows in differing.items() if rows[0] != rows[1]})


def check_published(app: lh.App, table: lh.Table, records: Sequence[Record], messages: Sequence[Any]) -> None:
    """Compare what lakes have published, one after the other, with the whole changelog: of each key, in its order."""
    told: dict[str, list[Any]] = {}
    for item in messages:
        told.setdefault(item.key().decode(), []).append(None if item.value() is None else json.loads(item.value()))
    expected: dict[str, list[Any]] = {}
    for change in model.run(app, records, decode_record).changelogs[table.name]:
        expected.setdefault(change.key[0], []).append(change.value)
    assert told == expected, table.name
