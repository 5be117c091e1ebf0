"""Arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.basic import comparable, has_map, of_all
from lakehouse.ksql.function.record import Function, function
from lakehouse.ksql.function.sql import Sql, fitted
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

FAMILY = "Arrays, maps and lambdas"


def _inner(arguments: Sequence[Any]) -> Kind:
    return arguments[0].kind.inner[0]  # type: ignore[no-any-return]


def _compared(name: str) -> Callable[[Sql], str]:
    """A function that compares the elements of an array."""

    def made(of: Sql) -> str:
        if has_map(of.kind):
            raise SqlError(f"elements of the type {of.kind.inner[0]} can't be compared")
        return f"{name}({of.text})"

    return made


def _sorted(of: Sql, order: Sql | None = None) -> str:
    up, down = _compared("array_sort")(of), f"sort_array({of.text}, false)"
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


SAMPLE = "MAP('a' := 1, 'b' := 2)"
FUNCTIONS: tuple[Function, ...] = (
    function(
        "ARRAY_LENGTH", FAMILY, "array", "CASE WHEN {0} IS NOT NULL THEN size({0}) END",
        k.INTEGER, ("ARRAY_LENGTH(ARRAY[1, 2])", 2),
        ("ARRAY_LENGTH(CAST(NULL AS ARRAY<INT>))", None),
    ),
    function(
        "ARRAY_CONTAINS", FAMILY, "array any", _has, k.BOOLEAN, ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", True),
        ("ARRAY_CONTAINS(ARRAY[1, 2], 3)", False), ("ARRAY_CONTAINS(ARRAY[1, NULL], NULL)", True),
        ("ARRAY_CONTAINS(CAST(NULL AS ARRAY<INT>), 1)", False), ("ARRAY_CONTAINS(ARRAY[1, 2], 2.0)", True),
        nulls="false for a null array; a null can be looked for",
    ),
    function(
        "ARRAY_CONCAT", FAMILY, "array array", _concat, of_all, ("ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2])", [1, 2, 2]),
        ("ARRAY_CONCAT(ARRAY[1], CAST(NULL AS ARRAY<INT>))", [1]), nulls="the other one; null if both are null",
    ),
    function(
        "ARRAY_DISTINCT", FAMILY, "array", _compared("array_distinct"), 0,
        ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", [1, 2]),
    ),
    function(
        "ARRAY_EXCEPT", FAMILY, "array array", _two("array_except"), of_all,
        ("ARRAY_EXCEPT(ARRAY[1, 2, 3, 1], ARRAY[2])", [1, 3]),
    ),
    function(
        "ARRAY_INTERSECT", FAMILY, "array array", _two("array_intersect"), of_all,
        ("ARRAY_INTERSECT(ARRAY[1, 2, 3], ARRAY[3, 2])", [2, 3]),
    ),
    function(
        "ARRAY_UNION", FAMILY, "array array", _two("array_union"), of_all,
        ("ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", [1, 2, 3]),
        ("ARRAY_UNION(ARRAY[1], ARRAY[1e0, 2e0])", [1.0, 2.0]),
    ),
    function(
        "ARRAY_JOIN", FAMILY, "array text?",
        _joined, k.STRING,
        ("ARRAY_JOIN(ARRAY['a', 'b'], '-')", "a-b"), ("ARRAY_JOIN(ARRAY[1, NULL, 2])", "1,null,2"),
        nulls="null for a null array; a null element is the text null, a null separator an empty text",
    ),
    function(
        "ARRAY_MAX", FAMILY, "array", _compared("array_max"), _inner, ("ARRAY_MAX(ARRAY[3, NULL, 7])", 7),
        nulls="nulls are skipped",
    ),
    function(
        "ARRAY_MIN", FAMILY, "array", _compared("array_min"), _inner, ("ARRAY_MIN(ARRAY[3, NULL, 7])", 3),
        nulls="nulls are skipped",
    ),
    function(
        "ARRAY_REMOVE", FAMILY, "array any", _removed, 0,
        ("ARRAY_REMOVE(ARRAY[1, 2, 3, 2], 2)", [1, 3]), ("ARRAY_REMOVE(ARRAY[1, NULL], NULL)", [1]),
        nulls="null for a null array; nulls can be removed",
    ),
    function(
        "ARRAY_SORT", FAMILY, "array text?", _sorted, 0, ("ARRAY_SORT(ARRAY[3, NULL, 1])", [1, 3, None]),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], 'DESC')", [3, 1, None]), nulls="null elements come last",
    ),
    function(
        "AS_MAP", FAMILY, "texts array", _as_map,
        lambda given: k.map_of(given[0].kind.inner[0], given[1].kind.inner[0]),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])", {"a": 1, "b": 2}),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1])", {"a": 1, "b": None}),
        ("AS_MAP(ARRAY['a', 'a'], ARRAY[1, 2, 3])", {"a": 2}),
        ("AS_MAP(ARRAY['a', NULL], ARRAY[STRUCT(b := 1)])", {"a": {"B": 1}, "null": None}),
    ),
    function(
        "ELT", FAMILY, "int text text*", "elt({all})", k.STRING, ("ELT(2, 'a', 'b')", "b"),
        ("ELT(3, 'a', 'b')", None),
    ),
    function(
        "FIELD", FAMILY, "text text text*", _field, k.INTEGER, ("FIELD('b', 'a', 'b')", 2),
        ("FIELD('x', 'a')", 0), nulls="0 for null",
    ),
    function(
        "ENTRIES", FAMILY, "map boolean", _entries, _entry,
        (f"ENTRIES({SAMPLE}, true)", [{"K": "a", "V": 1}, {"K": "b", "V": 2}]),
    ),
    function(
        "MAP_KEYS", FAMILY, "map", "map_keys({0})", lambda given: k.array(given[0].kind.inner[0]),
        (f"MAP_KEYS({SAMPLE})", ["a", "b"]),
    ),
    function(
        "MAP_VALUES", FAMILY, "map", "map_values({0})", lambda given: k.array(given[0].kind.inner[1]),
        (f"MAP_VALUES({SAMPLE})", [1, 2]),
    ),
    function(
        "MAP_UNION", FAMILY, "map map", _union, of_all, (f"MAP_UNION({SAMPLE}, MAP('b' := 3))", {"a": 1, "b": 3}),
        (f"MAP_UNION({SAMPLE}, NULL)", {"a": 1, "b": 2}), nulls="the other one; null if both are null",
    ),
    function(
        "SLICE", FAMILY, "array int int", _sliced, 0,
        ("SLICE(ARRAY[1, 2, 3, 4], 2, 3)", [2, 3]), ("SLICE(ARRAY[1, 2], 2, 9)", None),
        ("SLICE(ARRAY[1, 2], 0, 1)", None),
        ("SLICE(ARRAY[1, 2, 3], NULL, 2)", [1, 2]), ("SLICE(ARRAY[1, 2, 3], 2, NULL)", [2, 3]),
        nulls="null for a null array; without a start or an end, from the first or to the last",
    ),
)  # fmt: skip
