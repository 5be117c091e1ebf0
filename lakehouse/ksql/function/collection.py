"""Functions of arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.basic import common_argument_kind, comparable, has_map
from lakehouse.ksql.function.record import Function, define_function
from lakehouse.ksql.function.sql import Sql, fitted, let_sql, map_of_last
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind

FAMILY = "Arrays, maps and lambdas"
_JOINED = (*k.NUMBERS, "BOOLEAN", "STRING", "NULL")  # the elements that ARRAY_JOIN takes


def _element_kind(arguments: Sequence[Any]) -> Kind:
    return arguments[0].kind.inner[0]  # type: ignore[no-any-return]


def _comparing_function(name: str) -> Callable[[Sql], str]:
    """Return a function that compares the elements of an array."""

    def compile_call(array: Sql) -> str:
        _check_elements(array.kind)
        return f"{name}({array.text})"

    return compile_call


def _check_elements(array_kind: Kind) -> None:
    """Raise SqlError for elements that Spark can't compare."""
    if has_map(array_kind):
        raise SqlError(f"elements of the type {array_kind.inner[0]} can't be compared")


def _sort_array(array: Sql, order: Sql | None = None) -> str:
    ascending, descending = _comparing_function("array_sort")(array), f"sort_array({array.text}, false)"
    if order is None:
        return ascending
    if order.literal is None:
        word = f"upper({order.text})"
        return (
            f"CASE WHEN {word} IN ('ASC', 'ASCENDING') THEN {ascending} "
            f"WHEN {word} IN ('DESC', 'DESCENDING') THEN {descending} END"
        )
    if order.literal.upper() not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        raise SqlError("ARRAY_SORT: the order is 'ASC' or 'DESC'")
    return ascending if order.literal.upper().startswith("ASC") else descending


def _item_equals(array: Sql, value: Sql) -> str:
    """Return the condition that an item equals a value."""
    if array.kind.is_null or value.kind.is_null:
        return "_item IS NULL"
    kind = k.common_kind([array.kind.inner[0], value.kind])
    if kind is None:
        raise SqlError(f"an array of {array.kind.inner[0]} has no {value.kind}")
    return f"{comparable('_item', kind)} <=> {comparable(value.text, kind)}"


def _array_contains(array: Sql, item: Sql) -> str:
    return f"coalesce(size(filter({array.text}, _item -> {_item_equals(array, item)})) > 0, false)"


def _remove_item(array: Sql, value: Sql) -> str:
    return f"filter({array.text}, _item -> NOT ({_item_equals(array, value)}))"


def _two_arrays_function(name: str) -> Callable[[Sql, Sql], str]:
    """Return a function of two arrays, which are cast to one type."""

    def compile_call(left: Sql, right: Sql) -> str:
        kind = common_argument_kind([left, right])
        _check_elements(kind)
        return f"{name}({fitted(left, kind).text}, {fitted(right, kind).text})"

    return compile_call


def _concat_arrays(left: Sql, right: Sql) -> str:
    kind = common_argument_kind([left, right])
    left, right = fitted(left, kind), fitted(right, kind)
    parts = [f"coalesce({side.text}, array())" for side in (left, right)]
    return f"CASE WHEN {left.text} IS NOT NULL OR {right.text} IS NOT NULL THEN concat({', '.join(parts)}) END"


def _join_array(array: Sql, separator: Sql | None = None) -> str:
    item_kind = array.kind.inner[0] if array.kind.inner else k.NULL
    if item_kind.name not in _JOINED:
        item_text = "CAST(x AS VARCHAR)" if item_kind.name in k.MOMENTS else "TO_JSON_STRING(x)"
        raise SqlError(
            "ARRAY_JOIN joins texts, numbers and booleans. Make texts of the others: "
            f"ARRAY_JOIN(TRANSFORM(array, x => {item_text}))",
            found=f"elements of the type {item_kind}",
        )
    between = "','" if separator is None else f"coalesce({separator.text}, '')"
    return f"array_join(cast({array.text} AS array<string>), {between}, 'null')"


def _field_number(searched: Sql, *candidates: Sql) -> str:
    whens = [f"WHEN {searched.text} = {candidate.text} THEN {number}" for number, candidate in enumerate(candidates, 1)]
    return f"CASE {' '.join(whens)} ELSE 0 END"


def _entries_kind(arguments: Sequence[Any]) -> Kind:
    key, value = arguments[0].kind.inner
    return k.array_of(k.struct_of({"K": key, "V": value}))


def _map_entries(map_value: Sql, is_sorted: Sql) -> str:
    entry_array = f"transform(map_entries({map_value.text}), _pair -> named_struct('K', _pair.key, 'V', _pair.value))"
    # Spark can't compare entries that have maps; no two have the same key.
    order = ", (_a, _b) -> CASE WHEN _a.K < _b.K THEN -1 ELSE 1 END" if has_map(map_value.kind.inner[1]) else ""
    return f"CASE WHEN {is_sorted.text} THEN array_sort({entry_array}{order}) ELSE {entry_array} END"


def cube_arrays(array: Sql) -> Sql:
    """Return the array of all arrays in which each element is either kept or null: CUBE_EXPLODE."""
    element_type = array.kind.inner[0].wire_type
    without_element = f"concat(_set, array(cast(NULL AS {element_type})))"
    choices = (
        f"CASE WHEN _one IS NULL THEN array({without_element}) "
        f"ELSE array({without_element}, concat(_set, array(_one))) END"
    )
    start_value = f"array(cast(array() AS array<{element_type}>))"
    return Sql(
        f"reduce({array.text}, {start_value}, (_sets, _one) -> flatten(transform(_sets, _set -> {choices})))",
        k.array_of(array.kind),
    )


def _slice_array(array: Sql, start: Sql, end: Sql) -> str:
    """Return the elements from the first position to the second; null if one of them is outside."""
    first_place = f"coalesce({start.text}, 1)"
    last_place = f"coalesce({end.text}, size({array.text}))"
    is_inside = f"{first_place} >= 1 AND {last_place} <= size({array.text}) AND {first_place} <= {last_place} + 1"
    return f"CASE WHEN {is_inside} THEN slice({array.text}, {first_place}, {last_place} - {first_place} + 1) END"


def _as_map(keys: Sql, values: Sql) -> str:
    """Return AS_MAP: a key without a value gets null; if a key stands twice, the later value counts."""

    def merge_entries(key_array: str, value_array: str) -> str:
        # Spark's maps have no null keys; ksqlDB writes a null key as this text.
        key, value = f"coalesce(get({key_array}, _place), 'null')", f"get({value_array}, _place)"
        # An empty map is not cast: some types have no such cast.
        empty = f"map_filter(map('', get({value_array}, 0)), (_name, _value) -> false)"
        merged_map = map_of_last(f"size({key_array})", key, value)
        result_map = f"CASE WHEN size({key_array}) > 0 THEN {merged_map} ELSE {empty} END"
        return f"CASE WHEN {key_array} IS NOT NULL AND {value_array} IS NOT NULL THEN {result_map} END"

    return let_sql(
        keys.text,
        "_keys",
        lambda key_array: let_sql(values.text, "_values", lambda value_array: merge_entries(key_array, value_array)),
    )


def _union_maps(left: Sql, right: Sql) -> str:
    if left.kind.is_null or right.kind.is_null:
        return right.text if left.kind.is_null else left.text
    left_only = f"map_filter({left.text}, (_name, _value) -> NOT map_contains_key({right.text}, _name))"
    merged = f"map_concat({left_only}, {right.text})"
    return (
        f"CASE WHEN {left.text} IS NULL THEN {right.text} WHEN {right.text} IS NULL THEN {left.text} ELSE {merged} END"
    )


SAMPLE = "MAP('a' := 1, 'b' := 2)"
FUNCTIONS: tuple[Function, ...] = (
    define_function(
        "ARRAY_LENGTH", FAMILY, "array", "CASE WHEN {0} IS NOT NULL THEN size({0}) END",
        k.INTEGER, ("ARRAY_LENGTH(ARRAY[1, 2])", 2),
        ("ARRAY_LENGTH(CAST(NULL AS ARRAY<INT>))", None),
    ),
    define_function(
        "ARRAY_CONTAINS", FAMILY, "array any", _array_contains, k.BOOLEAN, ("ARRAY_CONTAINS(ARRAY[1, 2], 2)", True),
        ("ARRAY_CONTAINS(ARRAY[1, 2], 3)", False), ("ARRAY_CONTAINS(ARRAY[1, NULL], NULL)", True),
        ("ARRAY_CONTAINS(CAST(NULL AS ARRAY<INT>), 1)", False), ("ARRAY_CONTAINS(ARRAY[1, 2], 2.0)", True),
        nulls="false for a null array; a null can be looked for",
    ),
    define_function(
        "ARRAY_CONCAT", FAMILY, "array array", _concat_arrays, common_argument_kind,
        ("ARRAY_CONCAT(ARRAY[1, 2], ARRAY[2])", [1, 2, 2]), ("ARRAY_CONCAT(ARRAY[1], CAST(NULL AS ARRAY<INT>))", [1]),
        nulls="the other one; null if both are null",
    ),
    define_function(
        "ARRAY_DISTINCT", FAMILY, "array", _comparing_function("array_distinct"), 0,
        ("ARRAY_DISTINCT(ARRAY[1, 2, 1])", [1, 2]),
    ),
    define_function(
        "ARRAY_EXCEPT", FAMILY, "array array", _two_arrays_function("array_except"), common_argument_kind,
        ("ARRAY_EXCEPT(ARRAY[1, 2, 3, 1], ARRAY[2])", [1, 3]),
    ),
    define_function(
        "ARRAY_INTERSECT", FAMILY, "array array", _two_arrays_function("array_intersect"), common_argument_kind,
        ("ARRAY_INTERSECT(ARRAY[1, 2, 3], ARRAY[3, 2])", [2, 3]),
    ),
    define_function(
        "ARRAY_UNION", FAMILY, "array array", _two_arrays_function("array_union"), common_argument_kind,
        ("ARRAY_UNION(ARRAY[1, 2], ARRAY[2, 3])", [1, 2, 3]),
        ("ARRAY_UNION(ARRAY[1], ARRAY[1e0, 2e0])", [1.0, 2.0]),
    ),
    define_function(
        "ARRAY_JOIN", FAMILY, "array text?",
        _join_array, k.STRING,
        ("ARRAY_JOIN(ARRAY['a', 'b'], '-')", "a-b"), ("ARRAY_JOIN(ARRAY[1, NULL, 2])", "1,null,2"),
        nulls="null for a null array; a null element is the text null, a null separator an empty text",
    ),
    define_function(
        "ARRAY_MAX", FAMILY, "array", _comparing_function("array_max"), _element_kind,
        ("ARRAY_MAX(ARRAY[3, NULL, 7])", 7),
        nulls="nulls are skipped",
    ),
    define_function(
        "ARRAY_MIN", FAMILY, "array", _comparing_function("array_min"), _element_kind,
        ("ARRAY_MIN(ARRAY[3, NULL, 7])", 3),
        nulls="nulls are skipped",
    ),
    define_function(
        "ARRAY_REMOVE", FAMILY, "array any", _remove_item, 0,
        ("ARRAY_REMOVE(ARRAY[1, 2, 3, 2], 2)", [1, 3]), ("ARRAY_REMOVE(ARRAY[1, NULL], NULL)", [1]),
        nulls="null for a null array; nulls can be removed",
    ),
    define_function(
        "ARRAY_SORT", FAMILY, "array text?", _sort_array, 0, ("ARRAY_SORT(ARRAY[3, NULL, 1])", [1, 3, None]),
        ("ARRAY_SORT(ARRAY[3, NULL, 1], 'DESC')", [3, 1, None]), nulls="null elements come last",
    ),
    define_function(
        "AS_MAP", FAMILY, "texts array", _as_map,
        lambda arguments: k.map_of(arguments[0].kind.inner[0], arguments[1].kind.inner[0]),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1, 2])", {"a": 1, "b": 2}),
        ("AS_MAP(ARRAY['a', 'b'], ARRAY[1])", {"a": 1, "b": None}),
        ("AS_MAP(ARRAY['a', 'a'], ARRAY[1, 2, 3])", {"a": 2}),
        ("MAP_KEYS(AS_MAP(ARRAY['a', NULL, 'c', 'null', 'a'], ARRAY[1]))", ["c", "null", "a"]),
        ("ARRAY_LENGTH(MAP_KEYS(AS_MAP("
         "TRANSFORM(GENERATE_SERIES(1, 4000), x => CAST(x AS VARCHAR)), GENERATE_SERIES(1, 4000))))", 4000),
        ("AS_MAP(ARRAY['a', NULL], ARRAY[STRUCT(b := 1)])", {"a": {"B": 1}, "null": None}),
    ),
    define_function(
        "ELT", FAMILY, "int text text*", "elt({all})", k.STRING, ("ELT(2, 'a', 'b')", "b"),
        ("ELT(3, 'a', 'b')", None),
    ),
    define_function(
        "FIELD", FAMILY, "text text text*", _field_number, k.INTEGER, ("FIELD('b', 'a', 'b')", 2),
        ("FIELD('x', 'a')", 0), nulls="0 for null",
    ),
    define_function(
        "ENTRIES", FAMILY, "map boolean", _map_entries, _entries_kind,
        (f"ENTRIES({SAMPLE}, true)", [{"K": "a", "V": 1}, {"K": "b", "V": 2}]),
    ),
    define_function(
        "MAP_KEYS", FAMILY, "map", "map_keys({0})", lambda arguments: k.array_of(arguments[0].kind.inner[0]),
        (f"MAP_KEYS({SAMPLE})", ["a", "b"]),
    ),
    define_function(
        "MAP_VALUES", FAMILY, "map", "map_values({0})", lambda arguments: k.array_of(arguments[0].kind.inner[1]),
        (f"MAP_VALUES({SAMPLE})", [1, 2]),
    ),
    define_function(
        "MAP_UNION", FAMILY, "map map", _union_maps, common_argument_kind,
        (f"MAP_UNION({SAMPLE}, MAP('b' := 3))", {"a": 1, "b": 3}), (f"MAP_UNION({SAMPLE}, NULL)", {"a": 1, "b": 2}),
        nulls="the other one; null if both are null",
    ),
    define_function(
        "SLICE", FAMILY, "array int int", _slice_array, 0,
        ("SLICE(ARRAY[1, 2, 3, 4], 2, 3)", [2, 3]), ("SLICE(ARRAY[1, 2], 2, 9)", None),
        ("SLICE(ARRAY[1, 2], 0, 1)", None),
        ("SLICE(ARRAY[1, 2, 3], NULL, 2)", [1, 2]), ("SLICE(ARRAY[1, 2, 3], 2, NULL)", [2, 3]),
        nulls="null for a null array; without a start or an end, from the first or to the last",
    ),
)  # fmt: skip
