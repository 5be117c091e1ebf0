"""Results under the names of fields: where SQL makes a column's name from a field's, a scenario has the field's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakehouse.model.event import from_hashable, to_hashable
from lakehouse.model.model import Result
from lakehouse.plan.app import App
from lakehouse.plan.expression.field_names import name_fields
from lakehouse.plan.names.field import field_name
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.changelog import Change, Key
from lakehouse.semantics.tombstone import Row

Types = Mapping[str, str]


def in_fields(app: App, result: Result) -> Result:
    """Return the results with the names of fields. Those of an application in Python have the columns' own."""
    if app.sql_types is None:
        return result
    types_by_table = {
        table.name: {**_plan_types(table), **app.sql_types.of_tables.get(table.name, {})} for table in app.tables
    }
    types_by_topic = {
        sink.topic: {**_plan_types(sink.source), **app.sql_types.of_topics.get(sink.topic, {})} for sink in app.sinks
    }
    keys_by_table = {table.name: table.key for table in app.tables}
    keys_by_topic = {sink.topic: sink.source.key for sink in app.sinks}
    return replace(
        result,
        tables={
            name: _name_rows(rows_by_key, keys_by_table[name], types_by_table[name])
            for name, rows_by_key in result.tables.items()
        },
        changelogs={
            name: _name_changes(changes, keys_by_table[name], types_by_table[name])
            for name, changes in result.changelogs.items()
        },
        topics={
            topic: _name_changes(changes, keys_by_topic[topic], types_by_topic[topic])
            for topic, changes in result.topics.items()
        },
    )


def _plan_types(node: Stream | Table) -> dict[str, str]:
    """Return the types that the plan knows; those of columns that SQL adds by itself are among them."""
    return {column.name: column.type for column in node.columns}


def _name_rows(rows_by_key: dict[Key, Row], key_names: tuple[str, ...], types: Types) -> dict[Key, Row]:
    return {_name_key(row_key, key_names, types): _name_row(row, types) for row_key, row in rows_by_key.items()}


def _name_changes(changes: list[Change], key_names: tuple[str, ...], types: Types) -> list[Change]:
    return [
        replace(
            change,
            key=None if change.key is None else _name_key(change.key, key_names, types),
            value=None if change.value is None else _name_row(change.value, types),
        )
        for change in changes
    ]


def _name_key(key: Key, key_names: tuple[str, ...], types: Types) -> Key:
    return tuple(
        to_hashable(name_fields(from_hashable(part), types[name])) for name, part in zip(key_names, key, strict=True)
    )


def _name_row(row: Row, types: Types) -> Row:
    return {field_name(name): name_fields(value, types[name]) for name, value in row.items()}
