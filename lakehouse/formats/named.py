"""The names of fields in a topic and those of columns: rows under the one become rows under the other.

A format that ends with "+named", as in "json+named", has the fields' names that SQL has made columns' names of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from sqlglot import exp

from lakehouse.formats.epoch import plain_format
from lakehouse.plan.schema import EPOCH, NAMED, Column, base_type, parse_type

Renamer = Callable[[Any], Any]
Row = dict[str, Any] | None


def plain_names(format: str) -> tuple[str, bool]:
    """Return a format without the suffix, and whether it had it. What says how moments are written stays."""
    plain, as_numbers = plain_format(format)
    return plain.removesuffix(NAMED) + EPOCH * as_numbers, plain.endswith(NAMED)


def renamed(row: Mapping[str, Any] | None, columns: tuple[Column, ...], others: tuple[Column, ...]) -> Row:
    """Return a row of columns under the names of as many others, inside of structs too. Further columns are left out.

    A column that the row lacks is null.
    """
    if row is None:
        return None
    return {
        other.name: _renamer(column.type, other.type)(row.get(column.name))
        for column, other in zip(columns, others, strict=True)
    }


@lru_cache(maxsize=1024)
def _renamer(kind: str, other: str) -> Renamer:
    return (lambda value: value) if kind == other else _of(parse_type(kind), parse_type(other))


def _of(kind: exp.DataType, other: exp.DataType) -> Renamer:
    base = base_type(kind.sql("spark"))
    if base == "struct":
        pairs = list(zip(kind.expressions, other.expressions, strict=True))
        members = [(a.name, b.name, _of(a.args["kind"], b.args["kind"])) for a, b in pairs]
        return lambda value: None if value is None else {there: of(value.get(here)) for here, there, of in members}
    if base == "array":
        item = _of(kind.expressions[0], other.expressions[0])
        return lambda value: None if value is None else [item(one) for one in value]
    if base == "map":
        item = _of(kind.expressions[-1], other.expressions[-1])
        return lambda value: None if value is None else {name: item(one) for name, one in value.items()}
    return lambda value: value
