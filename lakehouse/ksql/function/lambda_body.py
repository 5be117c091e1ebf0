"""Lambdas as Spark SQL: their bodies, the nulls on which ksqlDB fails, and the functions that take lambdas.

ksqlDB computes with Java's numbers, which can't be null: arithmetic over a null element fails the whole call, and the
call gives null. Functions and comparisons take nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

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
    """The meaning of the names in an expression. depth: how many lambdas are around it."""

    @property
    def depth(self) -> int: ...
    def sql(self, node: t.Expr) -> Sql: ...
    def predicate(self, node: t.Expr, clause: str) -> str: ...
    def within(self, names: Mapping[str, Sql]) -> Self: ...


def lambda_sql(node: t.Lambda, scope: LambdaScope) -> LambdaSql:
    """Return a lambda that is an argument. Raises SqlError for a lambda nested too deeply in others."""
    if scope.depth == DEPTH_MAX:  # each level compiles its body twice: for the type, then for the text
        raise SqlError(f"lambdas stand at most {DEPTH_MAX} deep in each other", node.position)

    # No column and no name in a function's Spark SQL begins like this: in `name => name = s.name` both are read.
    variables = tuple(f"__{name}" for name in node.names)

    def inside(kinds: Sequence[Kind], texts: Sequence[str] | None) -> LambdaScope:
        if len(kinds) != len(node.names):
            raise SqlError(f"expected {len(kinds)} names before =>", node.position, found=str(len(node.names)))
        variable_texts = texts or [f"`{name}`" for name in variables]
        variable_values = (Sql(variable_text, kind) for variable_text, kind in zip(variable_texts, kinds, strict=True))
        return scope.within(dict(zip(node.names, variable_values, strict=True)))

    def body(kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> Sql:
        return inside(kinds, texts).sql(node.body)

    def fails(kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> str | None:
        return _failure_condition(node.body, inside(kinds, texts))

    return LambdaSql(variables, body, fails, node.position, scope.depth)


def _failure_condition(node: t.Expr, scope: LambdaScope) -> str | None:
    """Return the condition under which arithmetic in an expression meets a null; None without arithmetic."""
    match node:
        case t.Lambda():
            return None  # the call of the inner lambda is null then
        case t.CaseOf():
            return _failure_in_case(node, scope)
        case t.Junction():
            return _failure_in_turn(node, scope)
    conditions = [_failure_condition(part, scope) for part in node.parts()]
    operands: tuple[t.Expr, ...] = ()
    if isinstance(node, t.Binary) and node.sign in _ARITHMETIC:
        operands = (node.left, node.right)
    elif isinstance(node, t.Sign):
        operands = (node.operand,)
    operand_values = [scope.sql(operand) for operand in operands]
    if all(operand_value.kind.is_number for operand_value in operand_values):
        conditions += [
            f"{operand_value.text} IS NULL" for operand_value in operand_values if operand_value.literal is None
        ]
    return _join_or(conditions)


def _join_or(conditions: Sequence[str | None]) -> str | None:
    present_conditions = [condition for condition in conditions if condition]
    return f"({' OR '.join(present_conditions)})" if present_conditions else None


def _failure_in_case(node: t.CaseOf, scope: LambdaScope) -> str | None:
    """Return the failure condition of a CASE, which computes only the conditions up to the true one, and its value."""
    failure = _failure_condition(node.default, scope) if node.default is not None else None
    for branch_condition, branch_value in reversed(node.branches):
        condition_node = (
            branch_condition
            if node.operand is None
            else t.Binary("=", node.operand, branch_condition, position=branch_condition.position)
        )
        value_failure = _failure_condition(branch_value, scope)
        if value_failure or failure:
            condition_holds = f"coalesce({scope.predicate(condition_node, 'WHEN')}, false)"
            failure = f"CASE WHEN {condition_holds} THEN {value_failure or 'false'} ELSE {failure or 'false'} END"
        failure = _join_or([_failure_condition(condition_node, scope), failure])
    return failure


def _failure_in_turn(node: t.Junction, scope: LambdaScope) -> str | None:
    """Return the failure condition of AND or OR: AND goes on while its items hold, OR while none does."""
    failure: str | None = None
    for number, item in reversed(list(enumerate(node.items))):
        if failure and number < len(node.items) - 1:
            item_holds = f"coalesce({scope.sql(item).text}, false)"
            failure = f"({item_holds if node.word == 'AND' else f'NOT {item_holds}'} AND {failure})"
        failure = _join_or([_failure_condition(item, scope), failure])
    return failure


def _unless(condition: str | None, result: str) -> str:
    """Return a result, or null where the failure condition holds."""
    return result if condition is None else f"CASE WHEN {condition} THEN NULL ELSE {result} END"


def _transform(array: Sql, function: LambdaSql) -> str:
    failing = function.failure_lambda(array.kind.inner[0])
    transformed = f"transform({array.text}, {function.text(array.kind.inner[0])})"
    return _unless(failing and f"exists({array.text}, {failing})", transformed)


def _transformed_array_kind(arguments: Any) -> Kind:
    array, function = arguments
    return k.array_of(function.body((array.kind.inner[0],)).kind)


def _transformed_map_kind(arguments: Any) -> Kind:
    source, *functions = arguments
    return k.map_of(*(function.body(source.kind.inner).kind for function in functions))


def _pair(function: LambdaSql) -> str:
    """Return a name for a map's entry in a lambda, different from those in the lambdas around it."""
    return f"_pair{function.depth}"


def _transform_map(source: Sql, key: LambdaSql, value: LambdaSql) -> str:
    """Return TRANSFORM of a map; null where ksqlDB fails: at a null value, and at a key that comes twice."""
    pairs, pair = f"map_entries({source.text})", _pair(key)
    texts = (f"{pair}.key", f"{pair}.value")
    name, new_value = (function.body(source.kind.inner, texts).text for function in (key, value))
    conditions = [function.failure_condition(source.kind.inner, texts) for function in (key, value)]
    failing = " OR ".join(condition for condition in (*conditions, f"{new_value} IS NULL") if condition)
    twice = f"size(array_distinct(transform({pairs}, {pair} -> {name}))) < size({source.text})"
    transformed = f"map_from_entries(transform({pairs}, {pair} -> struct({name}, {new_value})))"
    return _unless(f"exists({pairs}, {pair} -> {failing}) OR {twice}", transformed)


def _filter_items(source: Sql, keep: LambdaSql) -> str:
    """Return the elements for which a condition holds; null where ksqlDB fails, as at a map's kept null value."""
    if (kind := keep.body(source.kind.inner).kind) not in (k.BOOLEAN, k.NULL):
        raise SqlError("FILTER takes a lambda that gives a condition", keep.position, found=f"a value of type {kind}")
    failing = keep.failure_lambda(*source.kind.inner)
    if source.kind.name != "MAP":
        filtered = f"filter({source.text}, {keep.text(*source.kind.inner)})"
        return _unless(failing and f"exists({source.text}, {failing})", filtered)
    filtered = f"map_filter({source.text}, {keep.text(*source.kind.inner)})"
    conditions = [f"exists(map_values({filtered}), _value -> _value IS NULL)"]
    if failing:
        conditions.append(f"size(map_filter({source.text}, {failing})) > 0")
    return _unless(" OR ".join(conditions), filtered)


def _reduce(source: Sql, start: Sql, merge: LambdaSql) -> str:
    kind, first = start.kind, _as_state(start, start.kind, merge)
    if source.kind.name == "ARRAY":
        body = _as_state(merge.body((kind, source.kind.inner[0])), kind, merge)
        names = ", ".join(f"`{name}`" for name in merge.names)
        return _or_start(source, first, f"aggregate({source.text}, {first}, ({names}) -> {body})")
    so_far, pair = f"`{merge.names[0]}`", _pair(merge)
    entry_texts = (so_far, f"{pair}.key", f"{pair}.value")
    body = _as_state(merge.body((kind, *source.kind.inner), entry_texts), kind, merge)
    return _or_start(source, first, f"aggregate(map_entries({source.text}), {first}, ({so_far}, {pair}) -> {body})")


def _as_state(value: Sql, kind: Kind, merge: LambdaSql) -> str:
    """Return a value as the state of REDUCE, which has the start's type. Raises SqlError for a value of another one."""
    if value.kind == kind and _has_names(kind):
        return value.text  # no cast: Spark casts a struct's fields by their places, and nobody wrote the cast
    if (
        value.kind != kind
        and not value.kind.is_null
        and (_has_names(kind) or k.common_kind([value.kind, kind]) is None)
    ):
        raise SqlError(f"the start of REDUCE is of the type {kind}, and its lambda gives {value.kind}", merge.position)
    return f"cast({value.text} AS {kind.spark})"


def _has_names(kind: Kind) -> bool:
    """Say whether a type is or contains a struct or a map."""
    return kind.name in ("STRUCT", "MAP") or any(map(_has_names, kind.inner))


def _or_start(source: Sql, first: str, reduced: str) -> str:
    """Return the result of REDUCE, which is the start for a null array or map."""
    return f"CASE WHEN {source.text} IS NULL THEN {first} WHEN {first} IS NOT NULL THEN {reduced} END"


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "TRANSFORM", FAMILY,
        (
            Signature(("array", "lambda1"), _transform, _transformed_array_kind),
            Signature(("map", "lambda2", "lambda2"), _transform_map, _transformed_map_kind),
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
        "FILTER", FAMILY,
        (Signature(("array", "lambda1"), _filter_items, 0), Signature(("map", "lambda2"), _filter_items, 0)),
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
            ("REDUCE(ARRAY[1, 2, 3], STRUCT(n := 0, t := 'a'), (s, x) => STRUCT(n := s->n + x, t := s->t + '!'))",
             {"N": 6, "T": "a!!!"}),
            (f"REDUCE({SAMPLE}, STRUCT(n := 0), (s, k, v) => STRUCT(n := s->n + v))->n", 3),
            ("REDUCE(ARRAY['a', 'b'], MAP('x' := 0), (s, x) => MAP_UNION(s, MAP(x := 1)))", {"x": 0, "a": 1, "b": 1}),
        ),
        nulls="the start for a null array or map; null if the start is null",
    ),
)  # fmt: skip
