"""Results under the names of fields: where SQL makes a column's name from a field's, a scenario has the field's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.names.field import field_name, is_escaped
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key


def are_escaped(app: App, node: Stream | Table) -> bool:
    """Say whether SQL has made columns' names from other names, in the topics that it writes or reads."""
    is_written = any(sink.source == node and parse_format(sink.format).is_named for sink in app.sinks)
    sources = node.stream.decodes if isinstance(node, Table) else node.decodes
    read_columns = (column for source in sources for column in (*source.key, *source.value) if column.is_renamed)
    return is_written or any(
        is_escaped(column.name) and column.field == field_name(column.name) for column in read_columns
    )


def in_fields(app: App, result: Result) -> Result:
    """Return the results with the names of fields."""
    tables = {table.name for table in app.tables if are_escaped(app, table)}
    topics = {sink.topic for sink in app.sinks if are_escaped(app, sink.source)}
    if not tables and not topics:
        return result
    rows_by_table = {
        name: {_rename_key(row_key): _rename_fields(row) for row_key, row in content.items()}
        if name in tables
        else content
        for name, content in result.tables.items()
    }
    changes_by_table = {
        name: _rename_changes(content) if name in tables else content for name, content in result.changelogs.items()
    }
    changes_by_topic = {
        topic: _rename_changes(content) if topic in topics else content for topic, content in result.topics.items()
    }
    return replace(result, tables=rows_by_table, changelogs=changes_by_table, topics=changes_by_topic)


def _rename_changes(changes: list[Change]) -> list[Change]:
    return [
        replace(change, key=change.key and _rename_key(change.key), value=change.value and _rename_fields(change.value))
        for change in changes
    ]


def _rename_key(key: Key) -> Key:
    return tuple(map(_rename_key_part, key))


def _rename_key_part(value: Any) -> Any:
    """Return a part of a key, whose structs are tuples of names and values."""
    if not isinstance(value, tuple):
        return value
    if all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in value):
        return tuple((field_name(name), _rename_key_part(item)) for name, item in value)
    return tuple(map(_rename_key_part, value))


def _rename_fields(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {field_name(str(name)): _rename_fields(item) for name, item in value.items()}
    return [_rename_fields(item) for item in value] if isinstance(value, list | tuple) else value
