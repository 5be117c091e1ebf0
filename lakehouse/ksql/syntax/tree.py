"""Expressions as the user wrote them, as frozen values; `position`, the place in the statement, is not compared.

As in ksqlDB, a name without quotes is in upper case here; a quoted name keeps its case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from lakehouse.ksql.syntax.kind import Kind


@dataclass(frozen=True, slots=True)
class Expr:
    """A part of an expression."""

    position: int = field(default=0, compare=False, kw_only=True)

    def parts(self) -> Iterator[Expr]:
        """Yield the direct parts of this expression."""
        for item in fields(self):
            yield from _expressions_in(getattr(self, item.name))

    def walk(self) -> Iterator[Expr]:
        """Yield this expression and all below it."""
        yield self
        for part in self.parts():
            yield from part.walk()


def _expressions_in(value: Any) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions_in(item)


@dataclass(frozen=True, slots=True, eq=False)
class Value(Expr):
    """A literal: a text, a whole number, a Decimal, a float, true, false or null.

    Literals are equal if they are written alike: 2 and 2.0 are equal in Python, and of two types here.
    """

    value: str | int | Decimal | float | bool | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self._written == other._written

    def __hash__(self) -> int:
        return hash(self._written)

    @property
    def _written(self) -> tuple[type, str]:
        return type(self.value), str(self.value)


@dataclass(frozen=True, slots=True)
class Name(Expr):
    """A column; `source` is the source that qualifies it: S.ID."""

    name: str
    source: str | None = None


def reads_names(node: Expr, names: Collection[str]) -> bool:
    """Say whether an expression reads one of these names without a source before it."""
    return any(isinstance(part, Name) and part.source is None and part.name in names for part in node.walk())


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function with its arguments; `every` for COUNT(*)."""

    name: str
    arguments: tuple[Expr, ...] = ()
    every: bool = False


@dataclass(frozen=True, slots=True)
class Lambda(Expr):
    """A function that is an argument: x => x + 1."""

    names: tuple[str, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    """Two values and the operator between them: + - * / % || = <> < <= > >=."""

    sign: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Junction(Expr):
    """Conditions joined by AND or OR."""

    word: str
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not(Expr):
    """NOT, before a condition."""

    operand: Expr


@dataclass(frozen=True, slots=True)
class Sign(Expr):
    """A sign before a number."""

    sign: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class IsNull(Expr):
    """IS NULL, IS NOT NULL."""

    operand: Expr
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Distinct(Expr):
    """IS DISTINCT FROM, IS NOT DISTINCT FROM."""

    left: Expr
    right: Expr
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Between(Expr):
    """BETWEEN, both ends included."""

    operand: Expr
    low: Expr
    high: Expr
    is_negated: bool


@dataclass(frozen=True, slots=True)
class In(Expr):
    """IN (...)."""

    operand: Expr
    items: tuple[Expr, ...]
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Like(Expr):
    """LIKE, with its escape character if there is one."""

    operand: Expr
    pattern: Expr
    escape: str | None
    is_negated: bool


@dataclass(frozen=True, slots=True)
class FieldOf(Expr):
    """A field of a struct: s->name; every field if there is no name: s->*."""

    operand: Expr
    name: str | None


@dataclass(frozen=True, slots=True)
class ElementOf(Expr):
    """An element of an array, counted from 1, or a value of a map: xs[1]."""

    operand: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class CaseOf(Expr):
    """CASE, with the value to compare if there is one."""

    operand: Expr | None
    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr | None


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """CAST(... AS type)."""

    operand: Expr
    kind: Kind


@dataclass(frozen=True, slots=True)
class ArrayOf(Expr):
    """ARRAY[...]."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MapOf(Expr):
    """MAP(key := value)."""

    pairs: tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, slots=True)
class StructOf(Expr):
    """STRUCT(name := value)."""

    members: tuple[tuple[str, Expr], ...]
