"""The results of a replay, in the form that tests need: tables, changelogs, and the records left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import ConfigError
from lakehouse.model.event import comparable, hashable, unhashable
from lakehouse.model.model import Result
from lakehouse.plan.app import App, named_window
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics import kafka_time
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.moment import moment
from lakehouse.semantics.position import Identity
from lakehouse.semantics.record import Record


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as it was sent, and its place."""

    record: Record
    key: Any
    value: Any

    def shown(self) -> dict[str, Any]:
        of = self.record
        place = {"topic": of.topic, "partition": of.partition, "offset": of.offset, "timestamp": kafka_time.of(of)}
        return {**place, "key": self.key, "value": self.value}


class Replayed:
    """The results of a replay."""

    def __init__(self, app: App, result: Result, sent: list[Sent]) -> None:
        self._app, self._result = app, result
        self._sent = {item.record.identity: item for item in sent}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return a table's rows at the end, in the order of their keys: key columns and values in one dict each."""
        of = self._app.table(table)
        rows = self._result.tables[of.name]
        return [{**_named(of.key, key), **rows[key]} for key in sorted(rows, key=comparable)]

    def row(self, table: str, *key: Any) -> dict[str, Any] | None:
        """Return the row of one key, None if there is none: row("totals", "ann").

        A key of several columns is several arguments. A windowed table's key ends with the window's start and end, as
        milliseconds or datetimes: row("hourly", "ann", 0, 3_600_000).
        """
        of = self._app.table(table)
        if len(key) != len(of.key):
            raise ConfigError(
                f"row({table!r}, {', '.join(map(repr, key))}): found {len(key)} values; the key is {', '.join(of.key)}."
            )
        parts = [hashable(part) for part in key]
        if named_window(of) is not None:
            parts[-2:] = [moment(part) if isinstance(part, int) else part for part in parts[-2:]]
        found = self._result.tables[of.name].get(tuple(parts))
        return None if found is None else {**_named(of.key, tuple(parts)), **found}

    def changes(self, table: str) -> list[dict[str, Any]]:
        """Return a table's changelog per event, in order.

        Each change is a dict of the key columns, the value columns (None in a delete), `deleted`, and `timestamp`, the
        change's event time in milliseconds. If a column is itself called deleted or timestamp it keeps its name, and
        the mark is `_deleted`, `_timestamp`.
        """
        of = self._app.table(table)
        return _changes(of, self._result.changelogs[of.name])

    def topic(self, topic: str) -> list[dict[str, Any]]:
        """Return the records of a published topic, in order, as `changes` does. A null key has None in its columns.

        Raises ConfigError for a topic that the application does not write.
        """
        sink = next((sink for sink in self._app.sinks if sink.topic == topic), None)
        if sink is None:
            known = ", ".join(sink.topic for sink in self._app.sinks) or "none"
            raise ConfigError(f"topic({topic!r}): the application does not write it; it writes {known}.")
        return _changes(sink.of, self._result.topics[topic])

    def late(self, table: str) -> list[dict[str, Any]]:
        """Return the records that came too late for a table, in order; for several windows, once for each.

        Each is a dict of topic, partition, offset, timestamp, key and value as they were sent, `window_start` and
        `window_end` (None if the table has no windows).
        """
        found = []
        for item in self._result.late[self._app.table(table).name]:
            start, end = (None, None) if item.span is None else map(moment, item.span)
            found.append({**self._of(item.identity), "window_start": start, "window_end": end})
        return found

    def quarantined(self, stream: str) -> list[dict[str, Any]]:
        """Return the records of a stream (or of a topic) that do not fit its schema, in order.

        Each is a dict of topic, partition, offset, timestamp, key and value as they were sent, and the `reason`.
        """
        sources = [source for source in self._app.sources if stream in (source.name, source.topic)]
        if not sources:
            known = ", ".join(source.name for source in self._app.sources)
            raise ConfigError(f"quarantined({stream!r}): there is no such stream. There are: {known}.")
        pairs = [pair for source in sources for pair in self._result.quarantine[source.name]]
        return [{**self._of(record.identity), "reason": reason} for record, reason in pairs]

    def null_keys(self, table: str) -> int:
        """Return how many records a null key kept out of a table."""
        return self._result.null_keys[self._app.table(table).name]

    def _of(self, identity: Identity) -> dict[str, Any]:
        return self._sent[identity].shown()


def _changes(of: Table | Stream, changes: Iterable[Change]) -> list[dict[str, Any]]:
    columns = [column.name for column in of.columns if column.name not in of.key]
    taken = {*of.key, *columns}
    deleted, timestamp = (f"_{name}" if name in taken else name for name in ("deleted", "timestamp"))
    return [
        {
            **(dict.fromkeys(of.key) if change.key is None else _named(of.key, change.key)),
            **(dict.fromkeys(columns) if change.value is None else change.value),
            deleted: change.value is None,
            timestamp: change.timestamp,
        }
        for change in changes
    ]


def _named(columns: tuple[str, ...], key: Key) -> dict[str, Any]:
    return {name: unhashable(part) for name, part in zip(columns, key, strict=True)}
