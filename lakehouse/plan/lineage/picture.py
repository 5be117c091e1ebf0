"""The lineage as a picture (SVG), from left to right: each node is to the right of all of its inputs."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.markup.text import to_safe_html
from lakehouse.plan.lineage.graph import Graph, GraphEdge, GraphNode

WIDTH, HEIGHT, GAP, BETWEEN, MARGIN = 200, 44, 14, 130, 8
NAME_MAX = 26
COLORS = {"topic": "#dbeafe", "stream": "#e0f2fe", "table": "#dcfce7", "changelog": "#dbeafe", "function": "#fef3c7"}
# A notebook inserts the picture into its page, where styles apply to everything: so each selector names the picture.
# Text between the boxes has the page's own colour, dark or light.
STYLE = "".join(
    f".lineage {rule}"
    for rule in (
        "text{font:12px sans-serif;fill:#1f2937}", ".kind{font-size:10px;fill:#6b7280}",
        ".how{font-size:10px;fill:currentColor;text-anchor:middle}",
        "path{fill:none;stroke:#9ca3af;stroke-width:1.5}", "rect{stroke:#9ca3af}",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Corner:
    """The upper left corner of a node, in pixels."""

    x: float
    y: float


def as_svg(graph: Graph) -> str:
    """Return the lineage as the text of an SVG file, with names escaped."""
    node_columns = _node_columns(graph)
    row_count = max((len(column) for column in node_columns), default=0)
    width = len(node_columns) * (WIDTH + BETWEEN) - BETWEEN + 2 * MARGIN
    height = row_count * (HEIGHT + GAP) - GAP + 2 * MARGIN
    places = {
        node: Corner(
            MARGIN + column_number * (WIDTH + BETWEEN),
            MARGIN + (row_count - len(column)) * (HEIGHT + GAP) / 2 + row_number * (HEIGHT + GAP),
        )
        for column_number, column in enumerate(node_columns)
        for row_number, node in enumerate(column)
    }
    edges = "".join(_draw_edge(edge, places[edge.start], places[edge.end]) for edge in graph.edges)
    nodes = "".join(_draw_node(node, places[node]) for node in graph.nodes)
    svg_attributes = f'class="lineage" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {svg_attributes}><style>{STYLE}</style>{edges}{nodes}</svg>\n'


def _node_columns(graph: Graph) -> list[list[GraphNode]]:
    """Return the nodes in columns by their depth; in a column, nodes with the same inputs are neighbours."""
    depths: dict[GraphNode, int] = {}

    def depth(node: GraphNode) -> int:
        if node not in depths:
            depths[node] = max((depth(edge.start) + 1 for edge in graph.edges_into(node)), default=0)
        return depths[node]

    node_columns: list[list[GraphNode]] = [[] for _ in range(1 + max(map(depth, graph.nodes), default=-1))]
    for node in graph.nodes:
        node_columns[depths[node]].append(node)
    row_by_node: dict[GraphNode, float] = {}
    for column in node_columns:
        input_rows = {node: [row_by_node[edge.start] for edge in graph.edges_into(node)] for node in column}
        column.sort(key=lambda node: sum(input_rows[node]) / max(len(input_rows[node]), 1))
        row_by_node |= {node: float(row_number) for row_number, node in enumerate(column)}
    return node_columns


def _draw_edge(edge: GraphEdge, start: Corner, end: Corner) -> str:
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT / 2, end.x, end.y + HEIGHT / 2
    bend = (x2 - x1) / 2
    path_element = f'<path d="M{x1:g},{y1:g} C{x1 + bend:g},{y1:g} {x2 - bend:g},{y2:g} {x2:g},{y2:g}"/>'
    if not edge.relations:
        return path_element
    # Near the end, since many edges may leave one node.
    label_element = (
        f'<text class="how" x="{x2 - BETWEEN / 2:g}" y="{y2 - 5:g}">{to_safe_html(", ".join(edge.relations))}</text>'
    )
    return path_element + label_element


def _draw_node(node: GraphNode, corner: Corner) -> str:
    short_name = node.name if len(node.name) <= NAME_MAX else f"{node.name[: NAME_MAX - 1]}…"
    return (
        f'<g transform="translate({corner.x:g},{corner.y:g})"><title>{to_safe_html(f"{node.kind} {node.name}")}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{COLORS[node.kind]}"/>'
        f'<text class="kind" x="10" y="16">{node.kind}</text><text x="10" y="33">{to_safe_html(short_name)}</text></g>'
    )
