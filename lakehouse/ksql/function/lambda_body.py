"""Lambdas as Spark SQL: their bodies, where a body meets a null that ksqlDB fails on; and the functions that take them.

ksqlDB computes arithmetic over Java's numbers, and there is none for a null: a null element fails the whole call, which
is null then. Functions and comparisons take nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self

from lakehouse.errors import SqlError
from lakehouse.ksql.function.collection import FAMILY, SAMPLE
from lakehouse.ksql.function.record import Function, LambdaSql, Signature
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import kind as k
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


def _unless(condition: str | None, made: str) -> str:
    """What is made, or null where a condition holds."""
    return made if condition is None else f"CASE WHEN {condition} THEN NULL ELSE {made} END"


def _transform(of: Sql, work: LambdaSql) -> str:
    failing = work.failing(of.kind.inner[0])
    made = f"transform({of.text}, {work.text(of.kind.inner[0])})"
    return _unless(failing and f"exists({of.text}, {failing})", made)


def _pair(work: LambdaSql) -> str:
    """The name of an entry of a map, for the names of a lambda: those of a lambda around it are others."""
    return f"_pair_{'_'.join(work.names).lower()}"


def _transform_map(of: Sql, key: LambdaSql, value: LambdaSql) -> str:
    """The entries of a map anew; null where ksqlDB fails: at a null value, and at a key that comes twice."""
    pairs, pair = f"map_entries({of.text})", _pair(key)
    texts = (f"{pair}.key", f"{pair}.value")
    name, worth = (work.body(of.kind.inner, texts).text for work in (key, value))
    conditions = [work.fails(of.kind.inner, texts) for work in (key, value)]
    failing = " OR ".join(condition for condition in (*conditions, f"{worth} IS NULL") if condition)
    twice = f"size(array_distinct(transform({pairs}, {pair} -> {name}))) < size({of.text})"
    made = f"map_from_entries(transform({pairs}, {pair} -> struct({name}, {worth})))"
    return _unless(f"exists({pairs}, {pair} -> {failing}) OR {twice}", made)


def _kept(of: Sql, keep: LambdaSql) -> str:
    """The elements for which a condition holds; null where ksqlDB fails: also at a null value of a map that is kept."""
    failing = keep.failing(*of.kind.inner)
    if of.kind.name != "MAP":
        made = f"filter({of.text}, {keep.text(*of.kind.inner)})"
        return _unless(failing and f"exists({of.text}, {failing})", made)
    made = f"map_filter({of.text}, {keep.text(*of.kind.inner)})"
    conditions = [f"exists(map_values({made}), _value -> _value IS NULL)"]
    if failing:
        conditions.append(f"size(map_filter({of.text}, {failing})) > 0")
    return _unless(" OR ".join(conditions), made)


def _reduce(of: Sql, start: Sql, merge: LambdaSql) -> str:
    kind = start.kind
    first = f"cast({start.text} AS {kind.spark})"
    if of.kind.name == "ARRAY":
        body = merge.body((kind, of.kind.inner[0])).text
        names = ", ".join(f"`{name}`" for name in merge.names)
        made = f"aggregate({of.text}, {first}, ({names}) -> cast({body} AS {kind.spark}))"
        return _or_start(of, first, made)
    so_far, pair = f"`{merge.names[0]}`", _pair(merge)
    body = merge.body((kind, *of.kind.inner), (so_far, f"{pair}.key", f"{pair}.value")).text
    made = f"aggregate(map_entries({of.text}), {first}, ({so_far}, {pair}) -> cast({body} AS {kind.spark}))"
    return _or_start(of, first, made)


def _or_start(of: Sql, first: str, made: str) -> str:
    """What is reduced of nothing is the start."""
    return f"CASE WHEN {of.text} IS NULL THEN {first} WHEN {first} IS NOT NULL THEN {made} END"


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "TRANSFORM", FAMILY,
        (
            Signature(("array", "lambda1"), _transform,
            lambda given: k.array(given[1].body((given[0].kind.inner[0],)).kind)),
            Signature(
                ("map", "lambda2", "lambda2"), _transform_map,
                lambda given: k.map_of(*(work.body(given[0].kind.inner).kind for work in given[1:])),
            ),
        ),
        (
            ("TRANSFORM(ARRAY[1, 2], x => x * 10)", [10, 20]),
            (f"TRANSFORM({SAMPLE}, (k, v) => UCASE(k), (k, v) => v + 1)", {"A": 2, "B": 3}),
            ("TRANSFORM(ARRAY['a', NULL], x => UCASE(x))", ["A", None]),
            ("TRANSFORM(ARRAY[1, NULL], x => x + 1)", None),
            ("TRANSFORM(ARRAY[1, NULL], x => CASE WHEN x IS NULL THEN 0 ELSE x + 1 END)", [2, 0]),
            (f"TRANSFORM({SAMPLE}, (k, v) => 'x', (k, v) => v)", None),
            ("TRANSFORM(MAP('a' := 1, 'b' := NULL), (k, v) => k, (k, v) => v)", None),
            ("TRANSFORM(CAST(NULL AS ARRAY<INT>), x => x)", None),
        ),
    ),
    Function(
        "FILTER", FAMILY, (Signature(("array", "lambda1"), _kept, 0), Signature(("map", "lambda2"), _kept, 0)),
        (("FILTER(ARRAY[1, 5, 3], x => x > 2)", [5, 3]), (f"FILTER({SAMPLE}, (k, v) => k = 'a' OR v > 5)", {"a": 1}),
         ("FILTER(ARRAY[1, NULL, 3], x => x > 2)", [3]), ("FILTER(ARRAY[1, NULL], x => x + 1 > 0)", None),
         ("FILTER(MAP('a' := 1, 'b' := NULL), (k, v) => k = 'b')", None)),
    ),
    Function(
        "REDUCE", FAMILY,
        (Signature(("array", "any", "lambda2"), _reduce, 1), Signature(("map", "any", "lambda3"), _reduce, 1)),
        (
            ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", 16),
            (f"REDUCE({SAMPLE}, 0, (s, k, v) => s + v)", 3),
            ("REDUCE(CAST(NULL AS ARRAY<INT>), 1, (s, x) => s + x)", 1),
        ),
        nulls="the start for a null array or map; null if the start is null",
    ),
)  # fmt: skip
