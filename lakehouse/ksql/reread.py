"""A stream or a table that is declared over a topic which a query of the same application writes.

It is made of what the query makes, and not read back from Kafka: the same records, at the same positions.
"""

from __future__ import annotations

from dataclasses import replace

from lakehouse.errors import SqlError
from lakehouse.ksql.catalog import Catalog, Entry, Relational, SqlColumn
from lakehouse.ksql.function.sql import column
from lakehouse.ksql.query import Find, keyed
from lakehouse.plan.app import named_window, read_window
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.semantics.window import Hopping, Session


def over(of: Entry, catalog: Catalog, find: Find) -> Entry:
    """Return what is declared over a topic, with the name of what writes the topic, if that is declared before.

    Raises SqlError for a schema that this does not have.
    """
    if (writer := catalog.writer(of.topic, of.name)) is None:
        return of
    reread(of, find(writer.name, 0))
    return replace(of, over=writer.name)


def reread(of: Entry, writer: Entry) -> Relational:
    """Return what `of` declares over the topic of `writer`. Raises SqlError for a schema that it does not have."""
    base = writer.made
    declared = of.made.node.stream if isinstance(of.made.node, Table) else of.made.node
    source = declared.source
    if isinstance(source, Source) and (source.event_time is not None or source.headers):
        raise SqlError(f"{writer.name} of this application writes topic {of.topic}: its records have their time, and "
                       "no headers. Leave TIMESTAMP and HEADERS out", 0)  # fmt: skip
    keys = [one for one in of.columns if one.is_key]
    written, read = (_windows(node) for node in (base.node, declared))
    if keys and written != read:
        raise SqlError(
            f"{writer.name} of this application writes topic {of.topic}, and the windows in its keys are not those "
            f"that are declared: found {read or 'none'}, expected {written or 'none'}. Give it these, or leave the key "
            f"out, or select from {writer.name}",
            0,
        )
    theirs = [one for one in base.columns if one.is_key]
    if keys and [one.kind for one in keys] != [one.kind for one in theirs]:
        raise _unlike(of, writer, f"the key {_shown(keys)}")
    values = [one for one in of.columns if not one.is_key]
    found = {one.name: _named(one, number, writer) for number, one in enumerate(values)}
    for one in values:
        other = found[one.name]
        if other is None or other.kind != one.kind:
            raise _unlike(of, writer, _shown([one]))
    stream = base.node
    if isinstance(stream, Table):
        stream = stream.to_stream().retime(writer.time) if writer.time else stream.to_stream()
    own = {one.name: column(other.name, other.kind) for one, other in zip(keys, theirs, strict=False)}
    texts = {name: column(other.name, other.kind) for name, other in found.items() if other is not None}
    made = keyed(stream, own, texts, not keys, windowed=written is not None)
    return Relational(made.latest(of.name) if of.kind == "TABLE" else made, of.columns)


def _windows(node: Stream | Table) -> str | None:
    """The windows that keys name, as WITH has them."""
    match named_window(node) if isinstance(node, Table) else read_window(node):
        case Session():
            return "WINDOW_TYPE='SESSION'"
        case Hopping(size):
            return f"WINDOW_SIZE='{size} MILLISECONDS'"
    return None


def _named(one: SqlColumn, number: int, writer: Entry) -> SqlColumn | None:
    """The column of the writer that a declared one reads: in JSON by its name, in other formats by its place."""
    values = [other for other in writer.columns if not other.is_key]
    if writer.formats[1] != "JSON" or not writer.is_wrapped:
        return values[number] if number < len(values) else None
    same = [other for other in values if other.name == one.name]
    same = same or [other for other in values if other.name.lower() == one.name.lower()]
    return same[0] if len(same) == 1 else None


def _unlike(of: Entry, writer: Entry, what: str) -> SqlError:
    return SqlError(f"topic {of.topic} is written by {writer.name} of this application, which does not have {what}. "
                    f"It has {_shown(writer.columns)}", 0)  # fmt: skip


def _shown(columns: list[SqlColumn] | tuple[SqlColumn, ...]) -> str:
    return ", ".join(f"{one.name} {one.kind}{' KEY' if one.is_key else ''}" for one in columns)
