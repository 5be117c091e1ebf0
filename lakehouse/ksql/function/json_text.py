"""Texts that are JSON. Spark's VARIANT tells what kind of value there is; from_json to texts keeps them as written."""

from __future__ import annotations

from operator import itemgetter

from lakehouse.errors import SqlError
from lakehouse.ksql.function.moment import time_text
from lakehouse.ksql.function.record import Function, function
from lakehouse.ksql.function.sql import Sql, let
from lakehouse.ksql.function.sql import text as literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.names.field import field_name

_FAMILY = "Texts and bytes"


def _type(variant: str) -> str:
    return f"schema_of_variant({variant})"


def _quoted(of: str) -> str:
    """A text as JSON has it."""
    return let(f"to_json(array({of}))", "_shown", lambda shown: f"substring({shown}, 2, length({shown}) - 2)")


def _raw(written: str, variant: str) -> str:
    """A value as JSON has it, of what from_json gives for it, which has no quotes, and of its variant."""
    return (
        f"CASE WHEN {written} IS NULL THEN 'null' WHEN {_type(variant)} = 'STRING' THEN {_quoted(written)} "
        f"ELSE {written} END"
    )


def _records(of: str) -> str:
    """The fields of an object, each with its value as JSON has it; null for anything else."""

    def fields(variant: str) -> str:
        value = _raw("_written", f"try_element_at(cast({variant} AS map<string, variant>), _name)")
        made = f"transform_values(from_json({of}, 'map<string, string>'), (_name, _written) -> {value})"
        return f"CASE WHEN {_type(variant)} LIKE 'OBJECT%' THEN {made} END"

    return let(f"try_parse_json({of})", "_parsed", fields)


def _fields(of: str) -> str:
    """The fields of an object: texts as they are, other values as JSON has them; null for anything else."""
    made = f"transform_values(from_json({of}, 'map<string, string>'), (_name, _written) -> coalesce(_written, 'null'))"
    return f"CASE WHEN {_type(f'try_parse_json({of})')} LIKE 'OBJECT%' THEN {made} END"


def _items(of: str) -> str:
    """The values of an array, each as JSON has it; null for anything else."""

    def items(variant: str) -> str:
        parts = f"from_json({of}, 'array<string>'), cast({variant} AS array<variant>)"
        made = f"zip_with({parts}, (_written, _one) -> {_raw('_written', '_one')})"
        return f"CASE WHEN {_type(variant)} LIKE 'ARRAY%' THEN {made} END"

    return let(f"try_parse_json({of})", "_parsed", items)


def _objects(of: Sql) -> str:
    return let(
        _items(of.text),
        "_items",
        lambda items: f"CASE WHEN forall({items}, _item -> _item LIKE '{{%') THEN {items} END",
    )


def _contains(of: Sql, one: Sql) -> str:
    kind, type_ = one.kind, _type("_item")
    if kind.is_null:
        test = f"{type_} = 'VOID'"
    elif kind.is_whole:
        test = f"{type_} = 'BIGINT' AND cast(_item AS bigint) = {one.text}"
    elif kind == k.DOUBLE:
        # A number with a point is a DECIMAL there, or a DOUBLE.
        test = f"({type_} = 'DOUBLE' OR {type_} LIKE 'DECIMAL%') AND cast(_item AS double) = {one.text}"
    elif kind in (k.STRING, k.BOOLEAN):
        test = f"{type_} = '{kind.name}' AND cast(_item AS {kind.spark}) = {one.text}"
    else:
        raise SqlError(f"JSON_ARRAY_CONTAINS looks for a text, a number, true, false or NULL, not for a {kind}")
    items = let(
        f"try_parse_json({of.text})", "_parsed",
        lambda variant: f"CASE WHEN {_type(variant)} LIKE 'ARRAY%' THEN cast({variant} AS array<variant>) END",
    )  # fmt: skip
    return f"CASE WHEN {of.text} IS NOT NULL THEN coalesce(exists({items}, _item -> {test}), false) END"


def _concat(*parts: Sql) -> str:
    made = parts[0].text
    if len(parts) == 1:
        return f"CASE WHEN try_parse_json({made}) IS NOT NULL THEN {made} END"
    for number, part in enumerate(parts[1:]):
        made = _joined(made, part.text, number)
    return made


def _joined(one: str, other: str, number: int) -> str:
    """Two objects are one, with the values of the second; anything else is an array."""
    a, b = f"_a{number}", f"_b{number}"
    names = f"array_distinct(concat(map_keys({a}), map_keys({b})))"
    value = f"coalesce(try_element_at({b}, _name), try_element_at({a}, _name))"
    fields = f"transform({names}, _name -> concat({_quoted('_name')}, ':', {value}))"
    both = f"concat('{{', array_join({fields}, ','), '}}')"
    merged = let(_records(one), a, lambda _: let(_records(other), b, lambda _: both))
    # A value that is no array is the only item of one.
    arrays = [f"coalesce({_items(of)}, {_items(_enclosed(of))})" for of in (one, other)]
    return f"coalesce({merged}, concat('[', array_join(concat({', '.join(arrays)}), ','), ']'))"


def _enclosed(of: str) -> str:
    return f"concat('[', {of}, ']')"


def json_ready(text: str, kind: Kind, depth: int = 0) -> str:
    """Return a value as to_json writes it in ksqlDB's way: moments as texts, fields and keys in their order."""
    item = f"item{depth}"
    match kind.name:
        case "TIME":
            return time_text(text)
        case "DATE":
            return f"cast({text} AS string)"
        case "TIMESTAMP":
            return f"date_format({text}, 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSS')"
        case "ARRAY":
            return f"transform({text}, {item} -> {json_ready(item, kind.inner[0], depth + 1)})"
        case "MAP":
            pair = f"struct({item}.key AS key, {json_ready(f'{item}.value', kind.inner[1], depth + 1)} AS value)"
            less, more = f"a{depth}.key < b{depth}.key", f"a{depth}.key > b{depth}.key"
            order = f"(a{depth}, b{depth}) -> CASE WHEN {less} THEN -1 WHEN {more} THEN 1 ELSE 0 END"
            return f"map_from_entries(transform(array_sort(map_entries({text}), {order}), {item} -> {pair}))"
        case "STRUCT":
            members = sorted(zip(map(field_name, kind.names), kind.names, kind.inner, strict=True), key=itemgetter(0))
            values = ((field, json_ready(f"{text}.`{name}`", of, depth)) for field, name, of in members)
            fields = ", ".join(f"{literal(field)}, {value}" for field, value in values)
            return f"CASE WHEN {text} IS NOT NULL THEN named_struct({fields}) END"
    return text


def _json(of: Sql) -> str:
    made = f"to_json(array({json_ready(of.text, of.kind)}), map('ignoreNullFields', 'false'))"
    shown = let(made, "_shown", lambda shown: f"substring({shown}, 2, length({shown}) - 2)")
    return f"CASE WHEN {of.text} IS NULL THEN 'null' ELSE {shown} END"


FUNCTIONS: tuple[Function, ...] = (
    function(
        "EXTRACTJSONFIELD", _FAMILY, "text text", "get_json_object({0}, {1})", k.STRING,
        ("EXTRACTJSONFIELD('{\"a\": {\"b\": \"x\"}}', '$.a.b')", "x"), ("EXTRACTJSONFIELD('{\"a\": 1}', '$.b')", None),
        ("EXTRACTJSONFIELD('{\"@t\": [1, 2]}', '$.@t[1]')", "2"), ("EXTRACTJSONFIELD('no json', '$.b')", None),
        differs="null for null, not the text null",
    ),
    function(
        "IS_JSON_STRING", _FAMILY, "text", "coalesce(try_parse_json({0}) IS NOT NULL, false)", k.BOOLEAN,
        ("IS_JSON_STRING('[1, 2]')", True), ("IS_JSON_STRING('abc')", False), nulls="false for null",
    ),
    function(
        "JSON_ARRAY_LENGTH", _FAMILY, "text", "json_array_length({0})", k.INTEGER,
        ("JSON_ARRAY_LENGTH('[1, 2, 3]')", 3), ("JSON_ARRAY_LENGTH('{}')", None),
    ),
    function(
        "JSON_ARRAY_CONTAINS", _FAMILY, "text any", _contains, k.BOOLEAN,
        ("JSON_ARRAY_CONTAINS('[1, 2, 3]', 2)", True), ("JSON_ARRAY_CONTAINS('[\"1\"]', 1)", False),
        ("JSON_ARRAY_CONTAINS('[1.5, true, null, \"a\"]', 'a')", True), ("JSON_ARRAY_CONTAINS('[true]', true)", True),
        ("JSON_ARRAY_CONTAINS('[1.5]', 1.5e0)", True), ("JSON_ARRAY_CONTAINS('[null]', NULL)", True),
        ("JSON_ARRAY_CONTAINS('{}', 1)", False), nulls="null for a null text; a null can be looked for",
    ),
    function(
        "JSON_CONCAT", _FAMILY, "text text*", _concat, k.STRING,
        ("JSON_CONCAT('{\"b\": 1, \"a\": 2}', '{\"b\": \"x\"}')", '{"b":"x","a":2}'),
        ("JSON_CONCAT('[1]', '[\"x\", {\"a\": 1}]')", '[1,"x",{"a":1}]'),
        ("JSON_CONCAT('{\"a\": 1}', '2')", '[{"a":1},2]'),
        ("JSON_CONCAT('x', '[2]')", None),
    ),
    function(
        "JSON_ITEMS", _FAMILY, "text", _objects, k.array(k.STRING),
        ("JSON_ITEMS('[{\"b\": 1, \"a\": \"x\"}, {}]')", ['{"b":1,"a":"x"}', "{}"]), ("JSON_ITEMS('[1]')", None),
        ("JSON_ITEMS('x')", None), nulls="null if an argument is null, or not an array of objects",
    ),
    function(
        "JSON_KEYS", _FAMILY, "text", "json_object_keys({0})", k.array(k.STRING),
        ("JSON_KEYS('{\"a\": 1, \"b\": 2}')", ["a", "b"]), ("JSON_KEYS('[1]')", None),
    ),
    function(
        "JSON_RECORDS", _FAMILY, "text", lambda of: _fields(of.text), k.map_of(k.STRING, k.STRING),
        ("JSON_RECORDS('{\"a\": \"x\", \"b\": {\"c\": 2}, \"d\": null}')", {"a": "x", "b": '{"c":2}', "d": "null"}),
        ("JSON_RECORDS('[]')", None), nulls="null if an argument is null, or not an object",
    ),
    function(
        "TO_JSON_STRING", _FAMILY, "any", _json, k.STRING,
        ("TO_JSON_STRING(ARRAY[1, NULL])", "[1,null]"), ("TO_JSON_STRING('a')", '"a"'), ("TO_JSON_STRING(1)", "1"),
        ("TO_JSON_STRING(STRUCT(b := CAST(NULL AS INT), a := 1))", '{"A":1,"B":null}'),
        ("TO_JSON_STRING(MAP('b' := 1, 'a' := 2))", '{"a":2,"b":1}'), ("TO_JSON_STRING(FROM_DAYS(1))", '"1970-01-02"'),
        nulls="null is the text null",
    ),
)  # fmt: skip
