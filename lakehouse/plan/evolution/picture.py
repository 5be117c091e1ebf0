"""A declaration as a notebook shows it: topics, the tables made of them, the topics that are written; and its text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from lakehouse.markup.graph import Box, graph
from lakehouse.markup.text import as_html, block
from lakehouse.plan.app import App, depth
from lakehouse.plan.evolution import text
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table

Edge: TypeAlias = tuple[tuple[str, str], tuple[str, str]]


class Description(str):
    """A declaration as text, which a notebook shows with its picture."""

    __slots__ = ("_item",)
    _item: App | Table | Stream

    def _repr_html_(self) -> str:
        return as_html(self._item)


def describe(item: App | Table | Stream) -> str:
    """Return a declaration as indented text, one line per step; a table, or stream, with the tables that it reads.

    A notebook shows it with a picture.
    """
    described = Description(text.describe(item))
    described._item = item
    return described


@as_html.register
def _app(app: App) -> str:
    return _picture(app.tables, app) + block(text.describe(app))


@as_html.register
def _table(table: Table) -> str:
    return _picture((*table.stream.tables, table), None) + block(text.describe(table))


@as_html.register
def _stream(stream: Stream) -> str:
    return block(text.describe(stream))


def _picture(tables: tuple[Table, ...], app: App | None) -> str:
    sinks = app.sinks if app else ()
    streams = [table.stream for table in tables] + [sink.of for sink in sinks if isinstance(sink.of, Stream)]
    topics = dict.fromkeys(topic for stream in streams for topic in _topics(stream))
    last = max((depth(table) + 2 for table in tables), default=1)
    nodes = [Box(name, "topic", 0, f"topic {name}") for name in topics]
    nodes += [Box(table.name, "table", depth(table) + 1, text.describe(table).split("\nTABLE")[0]) for table in tables]
    nodes += [Box(sink.topic, "topic", last, f"topic {sink.topic}, written") for sink in sinks]
    edges = [edge for table in tables for edge in _into(table.stream, ("table", table.name))]
    for sink in sinks:
        to = ("topic", sink.topic)
        edges += [(("table", sink.of.name), to)] if isinstance(sink.of, Table) else _into(sink.of, to)
    return graph(nodes, dict.fromkeys(edges))


def _into(stream: Stream, to: tuple[str, str]) -> Iterator[Edge]:
    for table in stream.reads:
        yield ("table", table.name), to
    for topic in _topics(stream):
        yield ("topic", topic), to


def _topics(stream: Stream) -> Iterator[str]:
    """The topics that a stream reads, not through a table."""
    yield from (source.topic for source in stream.decodes)
    for item in stream.inputs:
        if isinstance(item, Stream):
            yield from _topics(item)
