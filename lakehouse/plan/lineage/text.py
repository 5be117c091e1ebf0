"""The lineage as text: each result with its inputs below it, back to the topics.

    topic enriched
    ├─ stream orders
    │  └─ topic orders
    └─ table customer (left join)
       └─ stream customers
          └─ topic customers

A node that is already drawn further above is not repeated: "..." follows its name.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse.plan.lineage.graph import Graph, GraphNode


def lineage_text(graph: Graph) -> str:
    """Return the lineage as lines, the results one after the other."""
    drawn_nodes: set[GraphNode] = set()
    return "\n".join(line for end in graph.ends for line in _lines_below(graph, end, (), drawn_nodes))


def _lines_below(
    graph: Graph, node: GraphNode, relations: tuple[str, ...], drawn_nodes: set[GraphNode]
) -> Iterator[str]:
    input_edges = graph.edges_into(node)
    is_repeated = node in drawn_nodes and bool(input_edges)
    drawn_nodes.add(node)
    relation_text = f" ({', '.join(relations)})" if relations else ""
    yield f"{node.kind} {node.name}{relation_text}{' ...' if is_repeated else ''}"
    for edge_number, edge in enumerate([] if is_repeated else input_edges):
        is_last = edge_number == len(input_edges) - 1
        first_line, *other_lines = _lines_below(graph, edge.start, edge.relations, drawn_nodes)
        yield ("└─ " if is_last else "├─ ") + first_line
        yield from (("   " if is_last else "│  ") + line for line in other_lines)
