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
class GraphNode:
    """A node of the lineage. kind: one of KINDS; a changelog is the topic of a table's changelog."""

    kind: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """`end` is made from `start`. relations: how it reads `start`, in words; none for a stream's records unchanged."""

    start: GraphNode
    end: GraphNode
    relations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes, each once, and the edges in the direction of the records."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]

    def edges_into(self, node: GraphNode) -> list[GraphEdge]:
        """Return the edges from a node's inputs, in the order of its declaration."""
        return [edge for edge in self.edges if edge.end == node]

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """Return nodes {"id", "kind", "name"} and edges {"from", "to", "how"}."""
        nodes = [{"id": node.id, "kind": node.kind, "name": node.name} for node in self.nodes]
        edges = [{"from": edge.start.id, "to": edge.end.id, "how": list(edge.relations)} for edge in self.edges]
        return {"nodes": nodes, "edges": edges}

    @property
    def ends(self) -> list[GraphNode]:
        """The nodes that no other node reads."""
        read_nodes = {edge.start for edge in self.edges}
        return [node for node in self.nodes if node not in read_nodes]


def lineage_graph(app: App) -> Graph:
    """Return the lineage of an application."""
    nodes: dict[GraphNode, None] = {}
    edges: dict[tuple[GraphNode, GraphNode], dict[str, None]] = {}

    def add(start: GraphNode, end: GraphNode, relation: str = "") -> None:
        nodes.update(dict.fromkeys((start, end)))
        edges.setdefault((start, end), {}).update({relation: None} if relation else {})

    for source in app.sources:
        add(GraphNode("topic", source.topic), GraphNode("stream", source.name))
    for table in app.tables:
        for start, relation in lineage_inputs(table.stream):
            add(start, GraphNode("table", table.name), relation)
    for sink in app.sinks:
        if isinstance(sink.source, Table):
            add(GraphNode("table", sink.source.name), GraphNode("changelog", sink.topic))
            continue
        for start, relation in lineage_inputs(sink.source):
            add(start, GraphNode("topic", sink.topic), relation)
    for function in app.functions:
        for start, relation in lineage_inputs(function.source):
            add(start, GraphNode("function", function.name), relation)
    return Graph(tuple(nodes), tuple(GraphEdge(*ends, tuple(relation)) for ends, relation in edges.items()))


def lineage_inputs(stream: Stream, relation: str = "") -> Iterator[tuple[GraphNode, str]]:
    """Yield the streams and tables that a stream reads, and how. relation: how the reader reads the stream itself."""
    match stream.source:
        case Source(name=name):
            yield GraphNode("stream", name), relation
        case Merge(streams):
            for part in streams:
                yield from lineage_inputs(part, relation or "merge")
        case TableJoin(stream=part, table=table):
            yield from lineage_inputs(part, relation)
            yield GraphNode("table", table.name), _table_join_text(stream.source)
        case StreamJoin(left, right):
            for part in (left, right):
                yield from lineage_inputs(part, f"{stream.source.join_type} join")
        case ChangesOf(table):
            yield GraphNode("table", table.name), "changes"
        case Crossings(alert=alert, table=table):
            yield GraphNode("table", table.name), f"alert {alert}"
        case RowsOf(table):
            yield GraphNode("table", table.name), "rows"
        case RowsJoin(left, right):
            for table in (left, right):
                yield GraphNode("table", table.name), f"{stream.source.join_type} join"
        case ForeignKeyJoin(left, right):
            yield GraphNode("table", left.name), "rows"
            yield GraphNode("table", right.name), f"{stream.source.join_type} join by a foreign key"


def _table_join_text(join: TableJoin) -> str:
    as_of_text = {"event time": " as of event time"}.get(join.as_of, "")
    return f"{join.join_type} join{as_of_text}{', broadcast' if join.broadcast else ''}"
