"""Streams and tables that are declared over a topic which a query of the same application writes.

They read the query's result directly, not back from Kafka: the same records, at the same positions.
"""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import Catalog, Entry, SqlColumn, SqlRelation
from lakehouse.ksql.function.sql import column_sql
from lakehouse.ksql.property import traits_of_sql
from lakehouse.ksql.query import Find, rekey_stream
from lakehouse.plan.app import named_window, read_window
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.time.window import Hopping, Session


def with_writer(entry: Entry, catalog: Catalog, find: Find) -> Entry:
    """Return a declared entry, with the name of the entry that writes its topic, if that is declared before.

    Raises SqlError for a schema that does not fit the writer's, and for a writer that is made of the entry itself.
    """
    if (writer := catalog.writer(entry.topic, entry.name)) is None:
        return entry
    if entry.name in catalog.names_read_by([writer.name]):
        raise SqlError(
            f"{entry.name} would be made of itself: {writer.name} writes topic {entry.topic} from it. Name another "
            "topic, or another stream",
            0,
        )
    read_from_writer(entry, find(writer.name, 0))
    return replace(entry, writer_name=writer.name)


def read_from_writer(entry: Entry, writer: Entry) -> SqlRelation:
    """Return `entry`, declared over the topic of `writer`, as a stream or table that reads the writer's result.

    Raises SqlError for a schema that does not fit the writer's.
    """
    _check_declaration(entry, writer)
    writer_result = writer.relation
    key_columns = [declared_column for declared_column in entry.columns if declared_column.is_key]
    writer_keys = [declared_column for declared_column in writer_result.columns if declared_column.is_key]
    if key_columns and [declared_column.kind for declared_column in key_columns] != [
        declared_column.kind for declared_column in writer_keys
    ]:
        raise _schema_error(entry, writer, f"the key {_list_columns(key_columns)}")
    value_columns = [declared_column for declared_column in entry.columns if not declared_column.is_key]
    writer_columns = {
        declared_column.name: _written_column(declared_column, place, writer)
        for place, declared_column in enumerate(value_columns)
    }
    for declared_column in value_columns:
        writer_column = writer_columns[declared_column.name]
        if writer_column is None or writer_column.kind != declared_column.kind:
            raise _schema_error(entry, writer, _list_columns([declared_column]))
    stream = writer_result.node
    if isinstance(stream, Table):
        stream = stream.to_stream().retime(writer.time) if writer.time else stream.to_stream()
    key_texts = {
        declared_column.name: column_sql(writer_column.name, writer_column.kind)
        for declared_column, writer_column in zip(key_columns, writer_keys, strict=False)
    }
    value_texts = {
        name: column_sql(writer_column.name, writer_column.kind)
        for name, writer_column in writer_columns.items()
        if writer_column is not None
    }
    reread_stream = rekey_stream(
        stream, key_texts, value_texts, not key_columns, is_windowed=_windows_text(writer_result.node) is not None
    )
    return SqlRelation(reread_stream.latest(entry.name) if entry.kind == "TABLE" else reread_stream, entry.columns)


def _check_declaration(entry: Entry, writer: Entry) -> None:
    """Raise SqlError for a declaration that says more of the topic's records than its writer's result has."""
    begin = f"{writer.name} of this application writes topic {entry.topic}"
    source, node = entry.relation.stream.source, entry.relation.node
    if isinstance(source, Source) and (source.event_time is not None or source.headers):
        raise SqlError(f"{begin}: its records have their time, and no headers. Leave TIMESTAMP and HEADERS out", 0)
    if entry.history is not None:
        raise SqlError(
            f"{begin}, from rows whose event times are not kept. Give HISTORY to a query with GROUP BY, or to a table "
            "over a topic that others write",
            0,
        )
    if (isinstance(source, Source) and source.expectations) or (isinstance(node, Table) and node.watched_rules):
        raise SqlError(
            f"{begin}: what it writes is not judged again. Leave CONSTRAINT out, or put the condition into the query", 0
        )
    written_windows, declared_windows = _windows_text(writer.relation.node), _windows_text(entry.relation.stream)
    if any(column.is_key for column in entry.columns) and written_windows != declared_windows:
        raise SqlError(
            f"{begin}, and the windows in its keys are not those that are declared: found "
            f"{declared_windows or 'none'}, expected {written_windows or 'none'}. Give it these, or leave the key out, "
            f"or select from {writer.name}",
            0,
        )


def _windows_text(node: Stream | Table) -> str | None:
    """Return the windows that keys name, in the words of WITH."""
    match named_window(node) if isinstance(node, Table) else read_window(node):
        case Session():
            return "WINDOW_TYPE='SESSION'"
        case Hopping(size):
            return f"WINDOW_SIZE='{size} MILLISECONDS'"
    return None


def _written_column(declared_column: SqlColumn, place: int, writer: Entry) -> SqlColumn | None:
    """Return the writer's column that a declared column reads: by name if the format has names, else by position."""
    writer_values = [writer_column for writer_column in writer.columns if not writer_column.is_key]
    if not traits_of_sql(writer.formats[1]).is_by_name or not writer.is_wrapped:
        return writer_values[place] if place < len(writer_values) else None
    matching_columns = [writer_column for writer_column in writer_values if writer_column.name == declared_column.name]
    matching_columns = matching_columns or [
        writer_column for writer_column in writer_values if writer_column.name.lower() == declared_column.name.lower()
    ]
    return matching_columns[0] if len(matching_columns) == 1 else None


def _schema_error(entry: Entry, writer: Entry, missing_text: str) -> SqlError:
    return SqlError(
        f"topic {entry.topic} is written by {writer.name} of this application, which does not have {missing_text}. "
        f"It has {_list_columns(writer.columns)}",
        0,
    )


def _list_columns(columns: list[SqlColumn] | tuple[SqlColumn, ...]) -> str:
    return ", ".join(
        f"{sql_column.name} {sql_column.kind}{' KEY' if sql_column.is_key else ''}" for sql_column in columns
    )
