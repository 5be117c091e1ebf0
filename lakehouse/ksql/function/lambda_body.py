"""Lambdas as Spark SQL: their bodies, and where a body meets a null that ksqlDB fails on.

ksqlDB computes arithmetic over Java's numbers, and there is none for a null: a null element fails the whole call, which
is null then. Functions and comparisons take nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import LambdaSql
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.kind import Kind

DEPTH_MAX = 8
_ARITHMETIC = ("+", "-", "*", "/", "%")


class LambdaScope(Protocol):
    """What the names in an expression stand for. depth: how many lambdas are around it."""

    @property
    def depth(self) -> int: ...
    def sql(self, node: t.Expr) -> Sql: ...
    def predicate(self, node: t.Expr, clause: str) -> str: ...
    def within(self, names: Mapping[str, Sql]) -> Self: ...


def lambda_sql(node: t.Lambda, scope: LambdaScope) -> LambdaSql:
    """Return a lambda that is an argument. Raises SqlError for one that stands too deep in others."""
    if scope.depth == DEPTH_MAX:  # a body is compiled for its type, and again for its text
        raise SqlError(f"lambdas stand at most {DEPTH_MAX} deep in each other", node.at)

    # No column begins like this, nor a name inside a function's Spark SQL: `name => name = s.name` reads both.
    variables = tuple(f"__{name}" for name in node.names)

    def inside(kinds: Sequence[Kind], texts: Sequence[str] | None) -> LambdaScope:
        if len(kinds) != len(node.names):
            raise SqlError(f"expected {len(kinds)} names before =>", node.at, found=str(len(node.names)))
        shown = texts or [f"`{name}`" for name in variables]
        values = (Sql(of, kind) for of, kind in zip(shown, kinds, strict=True))
        return scope.within(dict(zip(node.names, values, strict=True)))

    def body(kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> Sql:
        return inside(kinds, texts).sql(node.body)

    def fails(kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> str | None:
        return _fails(node.body, inside(kinds, texts))

    return LambdaSql(variables, body, fails, node.at)


def _fails(node: t.Expr, scope: LambdaScope) -> str | None:
    """The condition under which arithmetic in an expression meets a null; None where there is no arithmetic."""
    match node:
        case t.Lambda():
            return None  # its own call is null then
        case t.CaseOf():
            return _fails_in_case(node, scope)
        case t.Junction():
            return _fails_in_turn(node, scope)
    conditions = [_fails(part, scope) for part in node.parts()]
    operands: tuple[t.Expr, ...] = ()
    if isinstance(node, t.Binary) and node.sign in _ARITHMETIC:
        operands = (node.left, node.right)
    elif isinstance(node, t.Sign):
        operands = (node.of,)
    made = [scope.sql(operand) for operand in operands]
    if all(of.kind.is_number for of in made):
        conditions += [f"{of.text} IS NULL" for of in made if of.literal is None]
    return _any(conditions)


def _any(conditions: Sequence[str | None]) -> str | None:
    some = [condition for condition in conditions if condition]
    return f"({' OR '.join(some)})" if some else None


def _fails_in_case(node: t.CaseOf, scope: LambdaScope) -> str | None:
    """Only what is reached is computed: the conditions up to the one that holds, and its value."""
    made = _fails(node.default, scope) if node.default is not None else None
    for when, then in reversed(node.branches):
        condition = when if node.of is None else t.Binary("=", node.of, when, at=when.at)
        value = _fails(then, scope)
        if value or made:
            holds = f"coalesce({scope.predicate(condition, 'WHEN')}, false)"
            made = f"CASE WHEN {holds} THEN {value or 'false'} ELSE {made or 'false'} END"
        made = _any([_fails(condition, scope), made])
    return made


def _fails_in_turn(node: t.Junction, scope: LambdaScope) -> str | None:
    """An item of AND is computed where all before it hold, one of OR where none does."""
    made: str | None = None
    for number, item in reversed(list(enumerate(node.items))):
        if made and number < len(node.items) - 1:
            holds = f"coalesce({scope.sql(item).text}, false)"
            made = f"({holds if node.word == 'AND' else f'NOT {holds}'} AND {made})"
        made = _any([_fails(item, scope), made])
    return made
