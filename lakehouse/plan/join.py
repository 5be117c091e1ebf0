"""Several inputs as one stream, as declared: what may be merged or joined, and which columns come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from lakehouse.errors import PlanError
from lakehouse.plan.expression import expression, expression_type, name_text
from lakehouse.plan.schema import Column, base_type, check_distinct, check_name
from lakehouse.plan.step import TableJoin
from lakehouse.plan.table import Table

if TYPE_CHECKING:
    from lakehouse.plan.stream import Stream

HOW = ("inner", "left")


def table_join(
    stream: Stream, table: Table, on: Sequence[str] | None, how: Literal["inner", "left"], prefix: str
) -> tuple[TableJoin, tuple[Column, ...]]:
    """Return the join of a stream with a table, and its columns. The rest: see `Stream.join`."""
    what = f"{stream.what}: join"
    if not isinstance(table, Table):
        raise PlanError(f"{what}: found {table!r}, expected a table, such as planes = stream.latest('planes').")
    what = f"{what} with table {table.name!r}"
    if how not in HOW:
        raise PlanError(f"{what}: how={how!r}; expected 'inner' or 'left'.")
    if table.window is not None:
        raise PlanError(
            f"{what}: its rows belong to windows, so a key has many. Expected a table without a window, "
            "such as the latest value of each key."
        )
    texts = [*on] if on is not None else [name_text(name) for name in stream.key]
    if len(texts) != len(table.key):
        raise PlanError(
            f"{what}: found {len(texts)} expressions ({', '.join(texts)}) for its key {', '.join(table.key)}. Name one "
            "for each of the key's columns: on=..."
        )
    by = tuple(expression(text, stream.columns, what) for text in texts)
    kinds = {column.name: column.type for column in table.columns}
    for item, name in zip(by, table.key, strict=True):
        mine, theirs = expression_type(item, stream.columns), kinds[name]
        if mine and theirs and base_type(mine) != base_type(theirs):
            raise PlanError(
                f"{what}: {item.text!r} is a {mine}, and the table's key {name!r} a {theirs}: they are never equal. "
                f"Write cast({item.text} AS {theirs})."
            )
    added = tuple(Column(prefix + name, kind) for name, kind in kinds.items() if name not in table.key)
    for column in added:
        check_name(column.name, f"{what}: prefix")
    try:
        check_distinct((column.name for column in (*stream.columns, *added)), what)
    except PlanError as error:
        raise PlanError(f'{error} Give the table\'s columns another beginning: prefix="{table.name}_".') from None
    return TableJoin(stream, table, by, how, prefix), (*stream.columns, *added)


def check_mergeable(stream: Stream, other: Stream) -> None:
    """Raise PlanError for a stream that has another key or other columns."""
    for found, expected in ((other.key, stream.key), (_signature(other), _signature(stream))):
        if found != expected:
            raise PlanError(
                f"{stream.what}: merge with {other.what}: the columns differ. Found {_shown(other)}; expected "
                f"{_shown(stream)}. Use select, rename, cast or rekey."
            )


def _signature(stream: Stream) -> list[tuple[str, str]]:
    return sorted((column.name.lower(), column.type) for column in stream.columns)


def _shown(stream: Stream) -> str:
    return f"key {', '.join(stream.key)} of {', '.join(map(str, stream.columns))}"
