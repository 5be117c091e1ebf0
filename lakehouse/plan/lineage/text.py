"""The lineage as text: below each result what it is made from, back to the topics.

    topic enriched
    ├─ stream orders
    │  └─ topic orders
    └─ table customer (left join)
       └─ stream customers
          └─ topic customers

What stands further above in full is not drawn again: "..." follows its name.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakehouse.plan.lineage.graph import Graph, Point


def as_text(graph: Graph) -> str:
    """Return the lineage as lines, the results one after the other."""
    drawn: set[Point] = set()
    return "\n".join(line for end in graph.ends for line in _below(graph, end, (), drawn))


def _below(graph: Graph, node: Point, how: tuple[str, ...], drawn: set[Point]) -> Iterator[str]:
    above = graph.into(node)
    again = node in drawn and bool(above)
    drawn.add(node)
    read = f" ({', '.join(how)})" if how else ""
    yield f"{node.kind} {node.name}{read}{' ...' if again else ''}"
    for number, edge in enumerate([] if again else above):
        last = number == len(above) - 1
        first, *rest = _below(graph, edge.start, edge.how, drawn)
        yield ("└─ " if last else "├─ ") + first
        yield from (("   " if last else "│  ") + line for line in rest)
