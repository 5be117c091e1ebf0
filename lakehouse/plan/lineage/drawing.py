"""The result of `lakehouse.lineage`: the lineage of an application, which draws itself."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.errors import PlanError
from lakehouse.plan.app import App
from lakehouse.plan.lineage import graph
from lakehouse.plan.lineage.picture import as_svg
from lakehouse.plan.lineage.text import lineage_text
from lakehouse.plan.refused.steps import value_in_message


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """A lineage: `str` draws it as text, `svg` as a picture, which notebooks show. graph: its nodes and edges."""

    graph: graph.Graph

    def __str__(self) -> str:
        return lineage_text(self.graph)

    __repr__ = __str__

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        return as_svg(self.graph)

    _repr_svg_ = svg


def lineage(app: App) -> Drawing:
    """Return the lineage of an application, to print: the topics, streams and tables behind each result.

    Raises PlanError for anything else.
    """
    if not isinstance(app, App):
        raise PlanError(f"lineage({value_in_message(app)}): expected an application: lineage(lh.app(...)).")
    return Drawing(graph.lineage_graph(app))
