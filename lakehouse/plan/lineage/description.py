"""A declaration as a notebook shows it: the picture of its lineage, and its text."""

from __future__ import annotations

from lakehouse.errors import PlanError
from lakehouse.markup.text import as_html, to_block
from lakehouse.plan.app import App, app
from lakehouse.plan.evolution import text
from lakehouse.plan.lineage.graph import lineage_graph
from lakehouse.plan.lineage.picture import as_svg
from lakehouse.plan.refused.steps import value_in_message
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table


class Description(str):
    """A declaration as text, which a notebook shows with its picture."""

    __slots__ = ("_item",)
    _item: App | Table | Stream

    def _repr_html_(self) -> str:
        return as_html(self._item)


def describe(item: App | Table | Stream) -> str:
    """Return a declaration as indented text, one line per step; a table, or stream, with the tables that it reads.

    A notebook shows it with a picture. Raises PlanError for anything else.
    """
    if not isinstance(item, App | Table | Stream):
        raise PlanError(f"describe({value_in_message(item)}): expected an application, a table or a stream.")
    description = Description(text.declaration_text(item))
    description._item = item
    return description


@as_html.register
def _app_as_html(declaration: App) -> str:
    return as_svg(lineage_graph(declaration)) + to_block(text.declaration_text(declaration))


@as_html.register
def _table_as_html(declaration: Table) -> str:
    return as_svg(lineage_graph(app(declaration))) + to_block(text.declaration_text(declaration))


@as_html.register
def _stream_as_html(declaration: Stream) -> str:
    return to_block(text.declaration_text(declaration))
