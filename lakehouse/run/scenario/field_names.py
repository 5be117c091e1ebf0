"""Results under the names of fields: where SQL has made columns' names of others, a scenario has the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakehouse.formats.named import plain_names
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.names.field import field_name, is_escaped
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key


def are_escaped(app: App, of: Stream | Table) -> bool:
    """Say whether SQL has made names of columns of others, in what it writes or reads."""
    written = any(sink.of == of and plain_names(sink.format)[1] for sink in app.sinks)
    sources = of.stream.decodes if isinstance(of, Table) else of.decodes
    read = (column for source in sources for column in (*source.key, *source.value) if column.is_renamed)
    return written or any(is_escaped(column.name) and column.field == field_name(column.name) for column in read)


def in_fields(app: App, result: Result) -> Result:
    """Return the results with the names of fields."""
    tables = {table.name for table in app.tables if are_escaped(app, table)}
    topics = {sink.topic for sink in app.sinks if are_escaped(app, sink.of)}
    if not tables and not topics:
        return result
    rows = {
        name: {_key(key): _named(row) for key, row in of.items()} if name in tables else of
        for name, of in result.tables.items()
    }
    changes = {name: _changes(of) if name in tables else of for name, of in result.changelogs.items()}
    sent = {topic: _changes(of) if topic in topics else of for topic, of in result.topics.items()}
    return replace(result, tables=rows, changelogs=changes, topics=sent)


def _changes(changes: list[Change]) -> list[Change]:
    return [replace(one, key=one.key and _key(one.key), value=one.value and _named(one.value)) for one in changes]


def _key(key: Key) -> Key:
    return tuple(map(_part, key))


def _part(value: Any) -> Any:
    """A part of a key, whose structs are tuples of names and values."""
    if not isinstance(value, tuple):
        return value
    if all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in value):
        return tuple((field_name(name), _part(item)) for name, item in value)
    return tuple(map(_part, value))


def _named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {field_name(str(name)): _named(item) for name, item in value.items()}
    return [_named(item) for item in value] if isinstance(value, list | tuple) else value
