"""The results of a replay, in the form that tests need: tables, changelogs, and the records left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import ConfigError
from lakehouse.model.event import from_hashable, to_hashable, to_sortable
from lakehouse.model.model import Result
from lakehouse.plan.app import App, named_window
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.epoch_time import to_datetime
from lakehouse.semantics.position import Identity
from lakehouse.semantics.record import Record
from lakehouse.semantics.time import kafka_time


@dataclass(frozen=True, slots=True)
class Sent:
    """A sent record, and its place."""

    record: Record
    key: Any
    value: Any

    def to_dict(self) -> dict[str, Any]:
        record = self.record
        place = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": kafka_time.record_time(record),
        }
        return {**place, "key": self.key, "value": self.value}


class Replayed:
    """The results of a replay."""

    def __init__(self, app: App, result: Result, sent_records: list[Sent]) -> None:
        self._app, self._result = app, result
        self._sent = {item.record.identity: item for item in sent_records}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return a table's rows at the end, in the order of their keys: key columns and values in one dict each."""
        declaration = self._app.table(table)
        rows_by_key = self._result.tables[declaration.name]
        return [
            {**_key_to_dict(declaration.key, key), **rows_by_key[key]} for key in sorted(rows_by_key, key=to_sortable)
        ]

    def row(self, table: str, *key: Any) -> dict[str, Any] | None:
        """Return the row of a key, None if there is none: row("totals", "ann").

        A key of several columns is several arguments. A windowed table's key ends with the window's start and end, as
        milliseconds or datetimes: row("hourly", "ann", 0, 3_600_000).
        """
        declaration = self._app.table(table)
        if len(key) != len(declaration.key):
            raise ConfigError(
                f"row({table!r}, {', '.join(map(repr, key))}): found {len(key)} values; the key is "
                f"{', '.join(declaration.key)}."
            )
        key_parts = [to_hashable(part) for part in key]
        if named_window(declaration) is not None:
            key_parts[-2:] = [to_datetime(part) if isinstance(part, int) else part for part in key_parts[-2:]]
        row_values = self._result.tables[declaration.name].get(tuple(key_parts))
        return None if row_values is None else {**_key_to_dict(declaration.key, tuple(key_parts)), **row_values}

    def changes(self, table: str) -> list[dict[str, Any]]:
        """Return a table's changelog per event, in order.

        Each change is a dict of the key columns, the value columns (None in a delete), `deleted`, and `timestamp`, the
        change's event time in milliseconds. A column that is itself called deleted or timestamp keeps its name; the
        change's own are then `_deleted`, `_timestamp`.
        """
        declaration = self._app.table(table)
        _check_changes(declaration, f"changes({table!r})")
        return _changes_to_dicts(declaration, self._result.changelogs[declaration.name])

    def topic(self, topic: str) -> list[dict[str, Any]]:
        """Return the records of a published topic, in order, as `changes` does. A null key has None in its columns.

        Raises ConfigError for a topic that the application does not write.
        """
        sink = next((sink for sink in self._app.sinks if sink.topic == topic), None)
        if sink is None:
            topic_names = ", ".join(sink.topic for sink in self._app.sinks) or "none"
            raise ConfigError(f"topic({topic!r}): the application does not write it; it writes {topic_names}.")
        _check_changes(sink.source, f"topic({topic!r})")
        return _changes_to_dicts(sink.source, self._result.topics[topic])

    def late(self, table: str) -> list[dict[str, Any]]:
        """Return the records that came too late for a table, in order; for several windows, once for each.

        Each is a dict of topic, partition, offset, timestamp, key and value as they were sent, `window_start` and
        `window_end` (None if the table has no windows).
        """
        late_records = []
        for item in self._result.late[self._app.table(table).name]:
            window_start, window_end = (None, None) if item.span is None else map(to_datetime, item.span)
            late_records.append(
                {**self._sent_record(item.identity), "window_start": window_start, "window_end": window_end}
            )
        return late_records

    def quarantined(self, stream: str) -> list[dict[str, Any]]:
        """Return the records of a stream (or of a topic) that do not fit its schema, in order.

        Each is a dict of topic, partition, offset, timestamp, key and value as they were sent, and the `reason`.
        """
        sources = [source for source in self._app.sources if stream in (source.name, source.topic)]
        if not sources:
            stream_names = ", ".join(source.name for source in self._app.sources)
            raise ConfigError(f"quarantined({stream!r}): there is no such stream. There are: {stream_names}.")
        pairs = [pair for source in sources for pair in self._result.quarantine[source.name]]
        return [{**self._sent_record(record.identity), "reason": reason} for record, reason in pairs]

    def null_keys(self, table: str) -> int:
        """Return how many records a null key kept out of a table."""
        return self._result.null_keys[self._app.table(table).name]

    def _sent_record(self, identity: Identity) -> dict[str, Any]:
        return self._sent[identity].to_dict()


def _check_changes(node: Stream | Table, call: str) -> None:
    if isinstance(node, Table) and node.is_history:
        raise ConfigError(
            f"{call}: {node.name} is a history, whose changes depend on the batches. Check its rows: "
            f"rows({node.name!r})."
        )


def _changes_to_dicts(node: Table | Stream, changes: Iterable[Change]) -> list[dict[str, Any]]:
    value_columns = [column.name for column in node.columns if column.name not in node.key]
    used_names = {*node.key, *value_columns}
    deleted_name, timestamp_name = (f"_{name}" if name in used_names else name for name in ("deleted", "timestamp"))
    return [
        {
            **(dict.fromkeys(node.key) if change.key is None else _key_to_dict(node.key, change.key)),
            **(dict.fromkeys(value_columns) if change.value is None else change.value),
            deleted_name: change.value is None,
            timestamp_name: change.timestamp,
        }
        for change in changes
    ]


def _key_to_dict(columns: tuple[str, ...], key: Key) -> dict[str, Any]:
    return {name: from_hashable(part) for name, part in zip(columns, key, strict=True)}
