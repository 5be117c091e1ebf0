"""Arrays, maps and structs, and functions that take a lambda."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import Function, LambdaSql, Signature, function
from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

_FAMILY = "Arrays, maps and lambdas"


def _inner(arguments: Sequence[Any]) -> Kind:
    return arguments[0].kind.inner[0]  # type: ignore[no-any-return]


def _sorted(of: Sql, order: Sql | None = None) -> str:
    word = "ASC" if order is None else (order.literal or "").upper()
    if word not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        raise SqlError("ARRAY_SORT: the order is 'ASC' or 'DESC'")
    return f"array_sort({of.text})" if word.startswith("ASC") else f"sort_array({of.text}, false)"


def _has(of: Sql, one: Sql) -> str:
    return f"coalesce(size(filter({of.text}, item -> item <=> {one.text})) > 0, false)"


def _concat(of: Sql, other: Sql) -> str:
    parts = [f"coalesce({one.text}, array())" for one in (of, other)]
    return f"CASE WHEN {of.text} IS NOT NULL OR {other.text} IS NOT NULL THEN concat({', '.join(parts)}) END"


def _joined(of: Sql, by: Sql | None = None) -> str:
    between = by.text if by is not None else "','"
    return f"array_join(cast({of.text} AS array<string>), {between}, 'null')"


def _field(of: Sql, *others: Sql) -> str:
    whens = [f"WHEN {of.text} = {one.text} THEN {number}" for number, one in enumerate(others, 1)]
    return f"CASE {' '.join(whens)} ELSE 0 END"


def _entry(arguments: Sequence[Any]) -> Kind:
    key, value = arguments[0].kind.inner
    return k.array(k.struct({"K": key, "V": value}))


def _entries(of: Sql, in_order: Sql) -> str:
    made = f"transform(map_entries({of.text}), pair -> named_struct('K', pair.key, 'V', pair.value))"
    return f"CASE WHEN {in_order.text} THEN array_sort({made}) ELSE {made} END"


def _transform(of: Sql, work: LambdaSql) -> str:
    return f"transform({of.text}, {work.text(of.kind.inner[0])})"


def _transform_map(of: Sql, key: LambdaSql, value: LambdaSql) -> str:
    parts = [work.body(of.kind.inner, ("pair.key", "pair.value")).text for work in (key, value)]
    return f"map_from_entries(transform(map_entries({of.text}), pair -> struct({parts[0]}, {parts[1]})))"


def _kept(of: Sql, keep: LambdaSql) -> str:
    return f"{'map_filter' if of.kind.name == 'MAP' else 'filter'}({of.text}, {keep.text(*of.kind.inner)})"


def _reduce(of: Sql, start: Sql, merge: LambdaSql) -> str:
    kind = start.kind
    first = f"cast({start.text} AS {kind.spark})"
    if of.kind.name == "ARRAY":
        body = merge.body((kind, of.kind.inner[0])).text
        names = ", ".join(f"`{name}`" for name in merge.names)
        return f"aggregate({of.text}, {first}, ({names}) -> cast({body} AS {kind.spark}))"
    body = merge.body((kind, *of.kind.inner), (f"`{merge.names[0]}`", "pair.key", "pair.value")).text
    return f"aggregate(map_entries({of.text}), {first}, (`{merge.names[0]}`, pair) -> cast({body} AS {kind.spark}))"


_M = "MAP('a' := 1, 'b' := 2)"
FUNCTIONS: tuple[Function, ...] = (
    function(
        "ARRAY_LENGTH", _FAMILY, "array", "array_size({0})", k.INTEGER, ("ARRAY_LENGTH(ARRAY[1, 2])", 2),
        ("ARRAY_LENGTH(CAST(NULL AS ARRAY<INT>))", None),
    ),
    function(
        "ARRAY_CONTAINS", _FAMILY, "array any", _has, k.BOOLEAN, ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", True),
        ("ARRAY_CONTAINS(ARRAY[1, 2], 3)", False), ("ARRAY_CONTAINS(ARRAY[1, NULL], NULL)", True),
        ("ARRAY_CONTAINS(CAST(NULL AS ARRAY<INT>), 1)", False),
        nulls="false for a null array; a null can be looked for",
    ),
    function(
        "ARRAY_CONCAT", _FAMILY, "array array", _concat, 0, ("ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2])", [1, 2, 2]),
        ("ARRAY_CONCAT(ARRAY[1], CAST(NULL AS ARRAY<INT>))", [1]), nulls="the other one; null if both are null",
    ),
    function("ARRAY_DISTINCT", _FAMILY, "array", "array_distinct({0})", 0, ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", [1, 2])),
    function(
        "ARRAY_EXCEPT", _FAMILY, "array array", "array_except({0}, {1})", 0,
        ("ARRAY_EXCEPT(ARRAY[1, 2, 3, 1], ARRAY[2])", [1, 3]),
    ),
    function(
        "ARRAY_INTERSECT", _FAMILY, "array array", "array_intersect({0}, {1})", 0,
        ("ARRAY_INTERSECT(ARRAY[1, 2, 3], ARRAY[3, 2])", [2, 3]),
    ),
    function(
        "ARRAY_UNION", _FAMILY, "array array", "array_union({0}, {1})", 0,
        ("ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", [1, 2, 3]),
    ),
    function(
        "ARRAY_JOIN", _FAMILY, "array text?",
        _joined, k.STRING,
        ("ARRAY_JOIN(ARRAY['a', 'b'], '-')", "a-b"), ("ARRAY_JOIN(ARRAY[1, NULL, 2])", "1,null,2"),
        nulls="null for a null array; a null element is the text null",
    ),
    function(
        "ARRAY_MAX", _FAMILY, "array", "array_max({0})", _inner, ("ARRAY_MAX(ARRAY[3, NULL, 7])", 7),
        nulls="nulls are skipped",
    ),
    function(
        "ARRAY_MIN", _FAMILY, "array", "array_min({0})", _inner, ("ARRAY_MIN(ARRAY[3, NULL, 7])", 3),
        nulls="nulls are skipped",
    ),
    function(
        "ARRAY_REMOVE", _FAMILY, "array any",
        lambda of, one: f"filter({of.text}, item -> NOT (item <=> {one.text}))", 0,
        ("ARRAY_REMOVE(ARRAY[1, 2, 3, 2], 2)", [1, 3]), ("ARRAY_REMOVE(ARRAY[1, NULL], NULL)", [1]),
        nulls="null for a null array; nulls can be removed",
    ),
    function(
        "ARRAY_SORT", _FAMILY, "array text?", _sorted, 0, ("ARRAY_SORT(ARRAY[3, NULL, 1])", [1, 3, None]),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], 'DESC')", [3, 1, None]), nulls="null elements come last",
    ),
    function(
        "AS_MAP", _FAMILY, "array array", "map_from_arrays({0}, {1})",
        lambda given: k.map_of(given[0].kind.inner[0], given[1].kind.inner[0]),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])", {"a": 1, "b": 2}), differs="null if both are not equally long",
    ),
    function(
        "ELT", _FAMILY, "whole text text*", "elt({all})", k.STRING, ("ELT(2, 'a', 'b')", "b"),
        ("ELT(3, 'a', 'b')", None),
    ),
    function(
        "FIELD", _FAMILY, "text text text*", _field, k.INTEGER, ("FIELD('b', 'a', 'b')", 2),
        ("FIELD('x', 'a')", 0), nulls="0 for null",
    ),
    function(
        "ENTRIES", _FAMILY, "map boolean", _entries, _entry,
        (f"ENTRIES({_M}, true)", [{"K": "a", "V": 1}, {"K": "b", "V": 2}]),
    ),
    function(
        "MAP_KEYS", _FAMILY, "map", "map_keys({0})", lambda given: k.array(given[0].kind.inner[0]),
        (f"MAP_KEYS({_M})", ["a", "b"]),
    ),
    function(
        "MAP_VALUES", _FAMILY, "map", "map_values({0})", lambda given: k.array(given[0].kind.inner[1]),
        (f"MAP_VALUES({_M})", [1, 2]),
    ),
    function(
        "MAP_UNION", _FAMILY, "map map",
        "map_concat(map_filter({0}, (name, value) -> NOT map_contains_key({1}, name)), {1})", 0,
        (f"MAP_UNION({_M}, MAP('b' := 3))", {"a": 1, "b": 3}),
        differs="null if one of the maps is null",
    ),
    function(
        "SLICE", _FAMILY, "array whole whole", "slice({0}, {1}, greatest({2} - {1} + 1, 0))", 0,
        ("SLICE(ARRAY[1, 2, 3, 4], 2, 3)", [2, 3]), ("SLICE(ARRAY[1, 2], 2, 9)", [2]),
        differs="counts from 1 only, and both ends are given",
    ),
    Function(
        "TRANSFORM", _FAMILY,
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
            (f"TRANSFORM({_M}, (k, v) => UCASE(k), (k, v) => v + 1)", {"A": 2, "B": 3}),
            ("TRANSFORM(CAST(NULL AS ARRAY<INT>), x => x)", None),
        ),
    ),
    Function(
        "FILTER", _FAMILY, (Signature(("array", "lambda1"), _kept, 0), Signature(("map", "lambda2"), _kept, 0)),
        (("FILTER(ARRAY[1, 5, 3], x => x > 2)", [5, 3]), (f"FILTER({_M}, (k, v) => k = 'a' OR v > 5)", {"a": 1})),
    ),
    Function(
        "REDUCE", _FAMILY,
        (Signature(("array", "any", "lambda2"), _reduce, 1), Signature(("map", "any", "lambda3"), _reduce, 1)),
        (
            ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", 16),
            (f"REDUCE({_M}, 0, (s, k, v) => s + v)", 3),
            ("REDUCE(CAST(NULL AS ARRAY<INT>), 1, (s, x) => s + x)", None),
        ),
        differs="null for a null array; ksqlDB gives the start",
    ),
)  # fmt: skip
