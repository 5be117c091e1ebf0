"""Arrays, maps and structs, and functions that take a lambda."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.basic import comparable, of_all
from lakehouse.ksql.function.record import Function, LambdaSql, Signature, function
from lakehouse.ksql.function.sql import Sql, fitted
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

_FAMILY = "Arrays, maps and lambdas"


def _inner(arguments: Sequence[Any]) -> Kind:
    return arguments[0].kind.inner[0]  # type: ignore[no-any-return]


def _sorted(of: Sql, order: Sql | None = None) -> str:
    up, down = f"array_sort({of.text})", f"sort_array({of.text}, false)"
    if order is None:
        return up
    if order.literal is None:
        word = f"upper({order.text})"
        return (
            f"CASE WHEN {word} IN ('ASC', 'ASCENDING') THEN {up} WHEN {word} IN ('DESC', 'DESCENDING') THEN {down} END"
        )
    if order.literal.upper() not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        raise SqlError("ARRAY_SORT: the order is 'ASC' or 'DESC'")
    return up if order.literal.upper().startswith("ASC") else down


def _is(of: Sql, one: Sql) -> str:
    """The condition that an item is a value."""
    if of.kind.is_null or one.kind.is_null:
        return "_item IS NULL"
    kind = k.common([of.kind.inner[0], one.kind])
    if kind is None:
        raise SqlError(f"an array of {of.kind.inner[0]} has no {one.kind}")
    return f"{comparable('_item', kind)} <=> {comparable(one.text, kind)}"


def _has(of: Sql, one: Sql) -> str:
    return f"coalesce(size(filter({of.text}, _item -> {_is(of, one)})) > 0, false)"


def _removed(of: Sql, one: Sql) -> str:
    return f"filter({of.text}, _item -> NOT ({_is(of, one)}))"


def _two(name: str) -> Callable[[Sql, Sql], str]:
    """A function of two arrays, as arrays of one type."""

    def made(of: Sql, other: Sql) -> str:
        kind = of_all([of, other])
        if kind.inner:
            comparable("", kind)
        return f"{name}({fitted(of, kind).text}, {fitted(other, kind).text})"

    return made


def _concat(of: Sql, other: Sql) -> str:
    kind = of_all([of, other])
    of, other = fitted(of, kind), fitted(other, kind)
    parts = [f"coalesce({one.text}, array())" for one in (of, other)]
    return f"CASE WHEN {of.text} IS NOT NULL OR {other.text} IS NOT NULL THEN concat({', '.join(parts)}) END"


def _joined(of: Sql, by: Sql | None = None) -> str:
    between = "','" if by is None else f"coalesce({by.text}, '')"
    return f"array_join(cast({of.text} AS array<string>), {between}, 'null')"


def _field(of: Sql, *others: Sql) -> str:
    whens = [f"WHEN {of.text} = {one.text} THEN {number}" for number, one in enumerate(others, 1)]
    return f"CASE {' '.join(whens)} ELSE 0 END"


def _entry(arguments: Sequence[Any]) -> Kind:
    key, value = arguments[0].kind.inner
    return k.array(k.struct({"K": key, "V": value}))


def _entries(of: Sql, in_order: Sql) -> str:
    made = f"transform(map_entries({of.text}), _pair -> named_struct('K', _pair.key, 'V', _pair.value))"
    return f"CASE WHEN {in_order.text} THEN array_sort({made}) ELSE {made} END"


def choices(of: Sql) -> Sql:
    """Return the array of all arrays in which each element is either there or null: CUBE_EXPLODE."""
    kind = of.kind.inner[0].on_the_way
    without = f"concat(_set, array(cast(NULL AS {kind})))"
    both = f"CASE WHEN _one IS NULL THEN array({without}) ELSE array({without}, concat(_set, array(_one))) END"
    start = f"array(cast(array() AS array<{kind}>))"
    return Sql(
        f"reduce({of.text}, {start}, (_sets, _one) -> flatten(transform(_sets, _set -> {both})))", k.array(of.kind)
    )


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


def _sliced(of: Sql, start: Sql, end: Sql) -> str:
    """From the first place to the second; null if one of them is outside."""
    first = f"coalesce({start.text}, 1)"
    last = f"coalesce({end.text}, size({of.text}))"
    inside = f"{first} >= 1 AND {last} <= size({of.text}) AND {first} <= {last} + 1"
    return f"CASE WHEN {inside} THEN slice({of.text}, {first}, {last} - {first} + 1) END"


def _as_map(keys: Sql, values: Sql) -> str:
    """A key that has no value has null; of a key that is there twice the later value counts."""
    # Spark's maps have no null key; ksqlDB writes one as this text.
    key = f"coalesce(get({keys.text}, _place), 'null')"
    pair = f"map({key}, get({values.text}, _place))"
    others = f"map_filter(_made, (_name, _value) -> _name <> {key})"
    step = f"(_made, _place) -> map_concat({others}, {pair})"
    places = f"sequence(0, size({keys.text}) - 1)"
    # No cast of an empty map: there is none to some types.
    empty = f"map_filter(map('', get({values.text}, 0)), (_name, _value) -> false)"
    some = f"aggregate({places}, {empty}, {step})"
    made = f"CASE WHEN size({keys.text}) > 0 THEN {some} ELSE {empty} END"
    return f"CASE WHEN {keys.text} IS NOT NULL AND {values.text} IS NOT NULL THEN {made} END"


def _union(of: Sql, other: Sql) -> str:
    if of.kind.is_null or other.kind.is_null:
        return other.text if of.kind.is_null else of.text
    alone = f"map_filter({of.text}, (_name, _value) -> NOT map_contains_key({other.text}, _name))"
    both = f"map_concat({alone}, {other.text})"
    return f"CASE WHEN {of.text} IS NULL THEN {other.text} WHEN {other.text} IS NULL THEN {of.text} ELSE {both} END"


_M = "MAP('a' := 1, 'b' := 2)"
FUNCTIONS: tuple[Function, ...] = (
    function(
        "ARRAY_LENGTH", _FAMILY, "array", "CASE WHEN {0} IS NOT NULL THEN size({0}) END",
        k.INTEGER, ("ARRAY_LENGTH(ARRAY[1, 2])", 2),
        ("ARRAY_LENGTH(CAST(NULL AS ARRAY<INT>))", None),
    ),
    function(
        "ARRAY_CONTAINS", _FAMILY, "array any", _has, k.BOOLEAN, ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", True),
        ("ARRAY_CONTAINS(ARRAY[1, 2], 3)", False), ("ARRAY_CONTAINS(ARRAY[1, NULL], NULL)", True),
        ("ARRAY_CONTAINS(CAST(NULL AS ARRAY<INT>), 1)", False),
        nulls="false for a null array; a null can be looked for",
    ),
    function(
        "ARRAY_CONCAT", _FAMILY, "array array", _concat, of_all, ("ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2])", [1, 2, 2]),
        ("ARRAY_CONCAT(ARRAY[1], CAST(NULL AS ARRAY<INT>))", [1]), nulls="the other one; null if both are null",
    ),
    function("ARRAY_DISTINCT", _FAMILY, "array", "array_distinct({0})", 0, ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", [1, 2])),
    function(
        "ARRAY_EXCEPT", _FAMILY, "array array", _two("array_except"), of_all,
        ("ARRAY_EXCEPT(ARRAY[1, 2, 3, 1], ARRAY[2])", [1, 3]),
    ),
    function(
        "ARRAY_INTERSECT", _FAMILY, "array array", _two("array_intersect"), of_all,
        ("ARRAY_INTERSECT(ARRAY[1, 2, 3], ARRAY[3, 2])", [2, 3]),
    ),
    function(
        "ARRAY_UNION", _FAMILY, "array array", _two("array_union"), of_all,
        ("ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", [1, 2, 3]),
    ),
    function(
        "ARRAY_JOIN", _FAMILY, "array text?",
        _joined, k.STRING,
        ("ARRAY_JOIN(ARRAY['a', 'b'], '-')", "a-b"), ("ARRAY_JOIN(ARRAY[1, NULL, 2])", "1,null,2"),
        nulls="null for a null array; a null element is the text null, a null separator an empty text",
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
        "ARRAY_REMOVE", _FAMILY, "array any", _removed, 0,
        ("ARRAY_REMOVE(ARRAY[1, 2, 3, 2], 2)", [1, 3]), ("ARRAY_REMOVE(ARRAY[1, NULL], NULL)", [1]),
        nulls="null for a null array; nulls can be removed",
    ),
    function(
        "ARRAY_SORT", _FAMILY, "array text?", _sorted, 0, ("ARRAY_SORT(ARRAY[3, NULL, 1])", [1, 3, None]),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], 'DESC')", [3, 1, None]), nulls="null elements come last",
    ),
    function(
        "AS_MAP", _FAMILY, "texts array", _as_map,
        lambda given: k.map_of(given[0].kind.inner[0], given[1].kind.inner[0]),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])", {"a": 1, "b": 2}),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1])", {"a": 1, "b": None}),
        ("AS_MAP(ARRAY['a', 'a'], ARRAY[1, 2, 3])", {"a": 2}),
    ),
    function(
        "ELT", _FAMILY, "int text text*", "elt({all})", k.STRING, ("ELT(2, 'a', 'b')", "b"),
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
        "MAP_UNION", _FAMILY, "map map", _union, of_all, (f"MAP_UNION({_M}, MAP('b' := 3))", {"a": 1, "b": 3}),
        (f"MAP_UNION({_M}, NULL)", {"a": 1, "b": 2}), nulls="the other one; null if both are null",
    ),
    function(
        "SLICE", _FAMILY, "array int int", _sliced, 0,
        ("SLICE(ARRAY[1, 2, 3, 4], 2, 3)", [2, 3]), ("SLICE(ARRAY[1, 2], 2, 9)", None),
        ("SLICE(ARRAY[1, 2], 0, 1)", None),
        ("SLICE(ARRAY[1, 2, 3], NULL, 2)", [1, 2]), ("SLICE(ARRAY[1, 2, 3], 2, NULL)", [2, 3]),
        nulls="null for a null array; without a start or an end, from the first or to the last",
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
            ("TRANSFORM(ARRAY['a', NULL], x => UCASE(x))", ["A", None]),
            ("TRANSFORM(ARRAY[1, NULL], x => x + 1)", None),
            ("TRANSFORM(ARRAY[1, NULL], x => CASE WHEN x IS NULL THEN 0 ELSE x + 1 END)", [2, 0]),
            (f"TRANSFORM({_M}, (k, v) => 'x', (k, v) => v)", None),
            ("TRANSFORM(MAP('a' := 1, 'b' := NULL), (k, v) => k, (k, v) => v)", None),
            ("TRANSFORM(CAST(NULL AS ARRAY<INT>), x => x)", None),
        ),
    ),
    Function(
        "FILTER", _FAMILY, (Signature(("array", "lambda1"), _kept, 0), Signature(("map", "lambda2"), _kept, 0)),
        (("FILTER(ARRAY[1, 5, 3], x => x > 2)", [5, 3]), (f"FILTER({_M}, (k, v) => k = 'a' OR v > 5)", {"a": 1}),
         ("FILTER(ARRAY[1, NULL, 3], x => x > 2)", [3]), ("FILTER(ARRAY[1, NULL], x => x + 1 > 0)", None),
         ("FILTER(MAP('a' := 1, 'b' := NULL), (k, v) => k = 'b')", None)),
    ),
    Function(
        "REDUCE", _FAMILY,
        (Signature(("array", "any", "lambda2"), _reduce, 1), Signature(("map", "any", "lambda3"), _reduce, 1)),
        (
            ("REDUCE(ARRAY[1, 2, 3], 10, (s, x) => s + x)", 16),
            (f"REDUCE({_M}, 0, (s, k, v) => s + v)", 3),
            ("REDUCE(CAST(NULL AS ARRAY<INT>), 1, (s, x) => s + x)", 1),
        ),
        nulls="the start for a null array or map; null if the start is null",
    ),
)  # fmt: skip
