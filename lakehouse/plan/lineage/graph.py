"""The lineage as a graph: a node for each topic, stream, table and function; an edge where one reads another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakehouse.plan.alert import Crossings
from lakehouse.plan.app import App
from lakehouse.plan.origin import ChangesOf, Merge, Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table

KINDS = ("topic", "stream", "table", "changelog", "function")


@dataclass(frozen=True, slots=True)
class Point:
    """A node of the lineage. kind: one of KINDS; a changelog is the topic of a table's changelog."""

    kind: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Edge:
    """`end` is made from `start`. how: how it reads `start`, in words; empty for a stream's records unchanged."""

    start: Point
    end: Point
    how: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes, each once, and the edges in the direction of the records."""

    nodes: tuple[Point, ...]
    edges: tuple[Edge, ...]

    def edges_into(self, node: Point) -> list[Edge]:
        """Return the edges from a node's inputs, in the order of its declaration."""
        return [edge for edge in self.edges if edge.end == node]

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return nodes {"id", "kind", "name"} and edges {"from", "to", "how"}."""
        nodes = [{"id": node.id, "kind": node.kind, "name": node.name} for node in self.nodes]
        edges = [{"from": edge.start.id, "to": edge.end.id, "how": list(edge.how)} for edge in self.edges]
        return {"nodes": nodes, "edges": edges}

    @property
    def ends(self) -> list[Point]:
        """The nodes that no other node reads."""
        read_nodes = {edge.start for edge in self.edges}
        return [node for node in self.nodes if node not in read_nodes]


def lineage_graph(app: App) -> Graph:
    """Return the lineage of an application."""
    nodes: dict[Point, None] = {}
    edges: dict[tuple[Point, Point], dict[str, None]] = {}

    def add(start: Point, end: Point, relation: str = "") -> None:
        nodes.update(dict.fromkeys((start, end)))
        edges.setdefault((start, end), {}).update({relation: None} if relation else {})

    for source in app.sources:
        add(Point("topic", source.topic), Point("stream", source.name))
    for table in app.tables:
        for start, relation in lineage_inputs(table.stream):
            add(start, Point("table", table.name), relation)
    for sink in app.sinks:
        if isinstance(sink.of, Table):
            add(Point("table", sink.of.name), Point("changelog", sink.topic))
            continue
        for start, relation in lineage_inputs(sink.of):
            add(start, Point("topic", sink.topic), relation)
    for function in app.functions:
        for start, relation in lineage_inputs(function.of):
            add(start, Point("function", function.name), relation)
    return Graph(tuple(nodes), tuple(Edge(*ends, tuple(relation)) for ends, relation in edges.items()))


def lineage_inputs(stream: Stream, relation: str = "") -> Iterator[tuple[Point, str]]:
    """Yield the streams and tables that a stream reads, and how. relation: how the reader reads the stream itself."""
    match stream.source:
        case Source(name=name):
            yield Point("stream", name), relation
        case Merge(streams):
            for part in streams:
                yield from lineage_inputs(part, relation or "merge")
        case TableJoin(stream=part, table=table):
            yield from lineage_inputs(part, relation)
            yield Point("table", table.name), _table_join_text(stream.source)
        case StreamJoin(left, right):
            for part in (left, right):
                yield from lineage_inputs(part, f"{stream.source.how} join")
        case ChangesOf(table):
            yield Point("table", table.name), "changes"
        case Crossings(alert=alert, table=table):
            yield Point("table", table.name), f"alert {alert}"
        case RowsOf(table):
            yield Point("table", table.name), "rows"
        case RowsJoin(left, right):
            for table in (left, right):
                yield Point("table", table.name), f"{stream.source.how} join"
        case ForeignKeyJoin(left, right):
            yield Point("table", left.name), "rows"
            yield Point("table", right.name), f"{stream.source.how} join by a foreign key"


def _table_join_text(join: TableJoin) -> str:
    as_of_text = {"event time": " as of event time"}.get(join.as_of, "")
    return f"{join.how} join{as_of_text}{', broadcast' if join.broadcast else ''}"
