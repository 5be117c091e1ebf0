"""A graph as SVG: nodes in columns from left to right, and lines between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lakehouse.markup.text import safe

WIDTH, HEIGHT, ACROSS, DOWN, EDGE = 190, 34, 70, 20, 8
LETTERS = 24
COLOURS = {"topic": "#8a6d3b", "table": "#31708f"}


@dataclass(frozen=True, slots=True)
class Box:
    """A box: its name on the graph, its kind (topic, table), its column, and what is said where it is pointed at."""

    name: str
    kind: str
    column: int
    hint: str = ""


def graph(nodes: Sequence[Box], edges: Iterable[tuple[tuple[str, str], tuple[str, str]]]) -> str:
    """Return the picture. edges: from and to, each a kind and a name."""
    places: dict[tuple[str, str], tuple[int, int]] = {}
    filled: Counter[int] = Counter()
    for node in nodes:
        places[node.kind, node.name] = (
            EDGE + node.column * (WIDTH + ACROSS), EDGE + filled[node.column] * (HEIGHT + DOWN),
        )  # fmt: skip
        filled[node.column] += 1
    width = max(x for x, _ in places.values()) + WIDTH + EDGE
    height = max(y for _, y in places.values()) + HEIGHT + EDGE
    drawn = "".join([*(_line(places[one], places[other]) for one, other in edges), *(_box(n, places) for n in nodes)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" '
        f'font-family="sans-serif" font-size="12">{drawn}</svg>'
    )


def _box(node: Box, places: dict[tuple[str, str], tuple[int, int]]) -> str:
    x, y = places[node.kind, node.name]
    colour, round_by = COLOURS[node.kind], HEIGHT // 2 if node.kind == "topic" else 4
    name = node.name if len(node.name) <= LETTERS else f"{node.name[: LETTERS - 1]}\u2026"
    return (
        f"<g><title>{safe(node.hint or node.name)}</title>"
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{round_by}" fill="{colour}" fill-opacity="0.12" '
        f'stroke="{colour}"/><text x="{x + WIDTH // 2}" y="{y + HEIGHT // 2 + 4}" text-anchor="middle" '
        f'fill="currentColor">{safe(name)}</text></g>'
    )


def _line(one: tuple[int, int], other: tuple[int, int]) -> str:
    x1, y1, x2, y2 = one[0] + WIDTH, one[1] + HEIGHT // 2, other[0], other[1] + HEIGHT // 2
    half = (x1 + x2) // 2
    return (
        f'<path d="M{x1} {y1} C{half} {y1} {half} {y2} {x2} {y2}" fill="none" stroke="#888"/>'
        f'<path d="M{x2 - 7} {y2 - 4} L{x2} {y2} L{x2 - 7} {y2 + 4} Z" fill="#888"/>'
    )
