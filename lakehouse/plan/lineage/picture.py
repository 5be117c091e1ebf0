"""The lineage as a picture (SVG): from left to right, each node to the right of all that it is made from."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.markup.text import safe
from lakehouse.plan.lineage.graph import Edge, Graph, Point

WIDTH, HEIGHT, GAP, BETWEEN, MARGIN = 200, 44, 14, 130, 8
NAME_MAX = 26
COLORS = {"topic": "#dbeafe", "stream": "#e0f2fe", "table": "#dcfce7", "changelog": "#dbeafe", "function": "#fef3c7"}
# A notebook puts the picture into its page, where a style holds for all that it names: so each names the picture.
# What stands between the boxes has the page's own colour, dark or light.
STYLE = "".join(
    f".lineage {rule}"
    for rule in (
        "text{font:12px sans-serif;fill:#1f2937}", ".kind{font-size:10px;fill:#6b7280}",
        ".how{font-size:10px;fill:currentColor;text-anchor:middle}",
        "path{fill:none;stroke:#9ca3af;stroke-width:1.5}", "rect{stroke:#9ca3af}",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """The upper left corner of a node, in pixels."""

    x: float
    y: float


def as_svg(graph: Graph) -> str:
    """Return the lineage as the text of an SVG file. Names stand in it escaped."""
    columns = _columns(graph)
    rows = max((len(column) for column in columns), default=0)
    width = len(columns) * (WIDTH + BETWEEN) - BETWEEN + 2 * MARGIN
    height = rows * (HEIGHT + GAP) - GAP + 2 * MARGIN
    places = {
        node: Place(
            MARGIN + number * (WIDTH + BETWEEN),
            MARGIN + (rows - len(column)) * (HEIGHT + GAP) / 2 + row * (HEIGHT + GAP),
        )
        for number, column in enumerate(columns)
        for row, node in enumerate(column)
    }
    edges = "".join(_edge(edge, places[edge.start], places[edge.end]) for edge in graph.edges)
    nodes = "".join(_node(node, places[node]) for node in graph.nodes)
    head = f'class="lineage" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {head}><style>{STYLE}</style>{edges}{nodes}</svg>\n'


def _columns(graph: Graph) -> list[list[Point]]:
    """The nodes by how much lies before them; in a column those of the same inputs are neighbours."""
    depths: dict[Point, int] = {}

    def depth(node: Point) -> int:
        if node not in depths:
            depths[node] = max((depth(edge.start) + 1 for edge in graph.into(node)), default=0)
        return depths[node]

    columns: list[list[Point]] = [[] for _ in range(1 + max(map(depth, graph.nodes), default=-1))]
    for node in graph.nodes:
        columns[depths[node]].append(node)
    rows: dict[Point, float] = {}
    for column in columns:
        before = {node: [rows[edge.start] for edge in graph.into(node)] for node in column}
        column.sort(key=lambda node: sum(before[node]) / max(len(before[node]), 1))
        rows |= {node: float(row) for row, node in enumerate(column)}
    return columns


def _edge(edge: Edge, start: Place, end: Place) -> str:
    x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT / 2, end.x, end.y + HEIGHT / 2
    bend = (x2 - x1) / 2
    line = f'<path d="M{x1:g},{y1:g} C{x1 + bend:g},{y1:g} {x2 - bend:g},{y2:g} {x2:g},{y2:g}"/>'
    if not edge.how:
        return line
    # Near the end: many edges may leave one node.
    label = f'<text class="how" x="{x2 - BETWEEN / 2:g}" y="{y2 - 5:g}">{safe(", ".join(edge.how))}</text>'
    return line + label


def _node(node: Point, at: Place) -> str:
    name = node.name if len(node.name) <= NAME_MAX else f"{node.name[: NAME_MAX - 1]}…"
    return (
        f'<g transform="translate({at.x:g},{at.y:g})"><title>{safe(f"{node.kind} {node.name}")}</title>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{COLORS[node.kind]}"/>'
        f'<text class="kind" x="10" y="16">{node.kind}</text><text x="10" y="33">{safe(name)}</text></g>'
    )
