"""What was measured, beside what was wanted: medians, ratios, slopes, targets, and tables in Markdown. Pure functions.

A figure has a value and, where there is one, a target; it says whether the target is met.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

Measured = Mapping[str, float]
# As a benchmark prints a table: its title, columns and rows of text.
Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. target: the largest value that meets it, or with at_least the smallest; None: nothing was wanted."""

    part: str
    what: str
    value: float
    unit: str = "s"
    target: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    def wanted(self) -> str:
        """The target as people read it; empty without one."""
        return "" if self.target is None else f"{'>=' if self.at_least else '<='} {self.target:g} {self.unit}"

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Figure:
        """What `as_json` gave."""
        return cls(**{name: found[name] for name in found if name != "met"})

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


def medians(rounds: Sequence[Measured]) -> dict[str, float]:
    """The median of each part over rounds that all have the same parts."""
    return {part: statistics.median(each[part] for each in rounds) for part in rounds[0]}


def cell(tables: Iterable[Table], row: str, column: str) -> float:
    """The number in the first table that has this row (its first cell) and column. Raises KeyError if none has."""
    for table in tables:
        if column in table["columns"]:
            place = table["columns"].index(column)
            for cells in table["rows"]:
                if cells[0] == row:
                    return float(cells[place].replace(",", ""))
    raise KeyError(f"no table has a row {row!r} with a column {column!r}")


def batch_seconds(tables: Iterable[Table], keys: str) -> dict[str, dict[float, float]]:
    """The seconds of a batch by the table's rows, of each family of operators.py."""
    found: dict[str, dict[float, float]] = {}
    for table in tables:
        if "family" in table["columns"]:
            place = table["columns"].index(f"{keys} median")
            for row in table["rows"]:
                found.setdefault(row[0], {})[float(row[1].replace(",", ""))] = float(row[place])
    return found


def slopes(points: Mapping[float, float]) -> list[float]:
    """The slopes between neighbouring points, log to log: 0 does not grow, 1 grows as its size does."""
    sizes = sorted(points)
    return [
        math.log(points[larger] / points[smaller]) / math.log(larger / smaller) for smaller, larger in pairwise(sizes)
    ]


def drift(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line through (hours, value) by least squares; 0 for fewer than two moments."""
    if len({x for x, _ in points}) < 2:
        return 0.0
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def catch_up_figures(records: int, median: Mapping[str, Measured]) -> list[Figure]:
    """The targets of a catch-up, of what was measured. median: of each peer."""
    part, figures = f"catch-up, {records:,} records", []
    ours = median.get("lakehouse")
    if ours is None:
        return []

    def ratio(peer: str, column: str, target: float | None) -> None:
        if peer in median:
            what = f"{peer}'s {column} / lakehouse's"
            figures.append(Figure(part, what, median[peer][column] / ours[column], "x", target, at_least=True))

    ratio("recipe", "seconds", 2.0)
    ratio("recipe, tuned", "seconds", None)
    ratio("Kafka Streams", "seconds", 1.5)
    ratio("recipe", "bronze", 0.9)
    ratio("recipe, tuned", "bronze", None)
    for peer in ("Quix Streams", "delta-rs"):
        ratio(peer, "seconds", None)
    figures.append(Figure(part, "memory of the whole job", ours["memory"], "GB", 3.0))
    return figures


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def figures_table(figures: Iterable[Figure]) -> str:
    """Figures, targets, and whether they are met, in Markdown."""
    said = {None: "", True: "met", False: "missed"}
    rows = [[f.part, f.what, f"{f.value:.2f} {f.unit}", f.wanted(), said[f.met]] for f in figures]
    return markdown(["part", "what", "figure", "target", "met"], rows)


PARTS = ("seconds", "after start", "bronze", "silver", "first bronze", "first silver", "memory")


def peers_table(median: Mapping[str, Measured]) -> str:
    """Each peer's medians, in Markdown: seconds, and memory in GB."""
    rows = [[peer, *(f"{of[part]:.1f}" if part in of else "" for part in PARTS)] for peer, of in median.items()]
    return markdown(["peer", *PARTS], rows)
