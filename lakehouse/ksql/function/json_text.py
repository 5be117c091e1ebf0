"""Texts that are JSON. Numbers in them keep their digits."""

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
from lakehouse.plan.names.json_path import pointer

_FAMILY = "Texts and bytes"


def _quoted(of: str) -> str:
    """A text as JSON has it."""
    return let(f"to_json(array({of}))", "_shown", lambda shown: f"substring({shown}, 2, length({shown}) - 2)")


def _extracted(of: Sql, path: Sql) -> str:
    if path.literal is None:
        at = f"ksql_json_pointer({path.text})"
    else:
        known = pointer(path.literal)
        at = "cast(NULL AS string)" if known is None else literal(known)
    value = "CASE WHEN _at LIKE '\"%' THEN ksql_json_text(_at) WHEN _at NOT IN ('', 'null') THEN _at END"
    return let(f"ksql_json_at({of.text}, {at})", "_at", lambda _: value)


def _fields(of: str) -> str:
    """The fields of an object: texts as they are, other values as JSON has them; null for anything else."""
    value = "CASE WHEN _written LIKE '\"%' THEN get_json_object(concat('[', _written, ']'), '$[0]') ELSE _written END"
    return f"transform_values(ksql_json_fields({of}), (_name, _written) -> {value})"


def _contains(of: Sql, one: Sql) -> str:
    """An item is compared as JSON has it: a whole number is none with a point."""
    kind, same = one.kind, f"_item = cast({one.text} AS string)"
    if kind.is_null:
        same = "_item = 'null'"
    elif kind == k.DOUBLE:
        same = f"_item RLIKE '^-?[0-9].*[.E]' AND cast(_item AS double) = {one.text}"
    elif kind == k.STRING:
        same = f"_item LIKE '\"%' AND get_json_object(concat('[', _item, ']'), '$[0]') = {one.text}"
    elif not kind.is_whole and kind != k.BOOLEAN:
        raise SqlError(f"JSON_ARRAY_CONTAINS looks for a text, a number, true, false or NULL, not for a {kind}")
    found = f"exists(ksql_json_items({of.text}), _item -> {same})"
    return f"CASE WHEN {of.text} IS NOT NULL THEN coalesce({found}, false) END"


def _concat(*parts: Sql) -> str:
    """Objects are one, with the later value of a name; if there is anything else, all are one array."""
    wholes = [f"ksql_json_at({part.text}, '')" for part in parts]
    fields = [f"ksql_json_fields({part.text})" for part in parts]
    # A value that is no array is the only item of one.
    items = [f"coalesce(ksql_json_items({one.text}), array({whole}))" for one, whole in zip(parts, wholes, strict=True)]
    member = f"concat({_quoted('_entry.key')}, ':', _entry.value)"
    both = fields[0] if len(parts) == 1 else f"map_concat({', '.join(fields)})"
    merged = f"concat('{{', array_join(transform(map_entries({both}), _entry -> {member}), ','), '}}')"
    listed = f"concat('[', array_join(flatten(array({', '.join(items)})), ','), ']')"
    if len(parts) == 1:
        listed = wholes[0]
    missing = " OR ".join(f"coalesce({whole}, '') = ''" for whole in wholes)
    are_objects = " AND ".join(f"{of} IS NOT NULL" for of in fields)
    return f"CASE WHEN {missing} THEN NULL WHEN {are_objects} THEN {merged} ELSE {listed} END"


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
        "EXTRACTJSONFIELD", _FAMILY, "text text", _extracted, k.STRING,
        ("EXTRACTJSONFIELD('{\"a\": {\"b\": \"x\"}}', '$.a.b')", "x"), ("EXTRACTJSONFIELD('{\"a\": 1}', '$.b')", None),
        ("EXTRACTJSONFIELD('{\"@t\": [1, 2]}', '$.@t[1]')", "2"), ("EXTRACTJSONFIELD('no json', '$.b')", None),
        ("EXTRACTJSONFIELD('{\"user-id\": \"u7\", \"a.b\": 1}', '$[\"user-id\"]')", "u7"),
        ("EXTRACTJSONFIELD('{\"a.b\": {\"c\\\"d\": 1}}', '$[\"a.b\"][\"c\\\"d\"]')", "1"),
        ("EXTRACTJSONFIELD('{\"a\": 799.929496989092949698}', '$.a')", "799.929496989092949698"),
        ("EXTRACTJSONFIELD('{\"a\": [1.50, {\"b\": \"x\"}]}', '$.a')", '[1.50,{"b":"x"}]'),
        differs="null for null, not the text null",
    ),
    function(
        "IS_JSON_STRING", _FAMILY, "text", "coalesce(ksql_json_at({0}, '') <> '', false)", k.BOOLEAN,
        ("IS_JSON_STRING('[1, 2]')", True), ("IS_JSON_STRING('abc')", False),
        ("IS_JSON_STRING('')", False), nulls="false for null",
    ),
    function(
        "JSON_ARRAY_LENGTH", _FAMILY, "text",
        "CASE WHEN ksql_json_items({0}) IS NOT NULL THEN size(ksql_json_items({0})) END", k.INTEGER,
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
        ("JSON_CONCAT('{\"x\": 1.50}', '{\"y\": 2}', '{\"k\": true}')", '{"x":1.50,"y":2,"k":true}'),
        ("JSON_CONCAT('[1]', '{\"a\": 1}', '2', 'null')", '[1,{"a":1},2,null]'), ("JSON_CONCAT('1')", "1"),
        ("JSON_CONCAT('{}', CAST(NULL AS VARCHAR), '{}')", None),
    ),
    function(
        "JSON_ITEMS", _FAMILY, "text", "ksql_json_items({0})", k.array(k.STRING),
        ("JSON_ITEMS('[{\"b\": 1, \"a\": \"x\"}, {}]')", ['{"b":1,"a":"x"}', "{}"]),
        ("JSON_ITEMS('[1.50, \"a\"]')", ["1.50", '"a"']),
        ("JSON_ITEMS('x')", None), nulls="null if an argument is null, or not an array",
    ),
    function(
        "JSON_KEYS", _FAMILY, "text", "map_keys(ksql_json_fields({0}))", k.array(k.STRING),
        ("JSON_KEYS('{\"a\": 1, \"b\": 2}')", ["a", "b"]), ("JSON_KEYS('[1]')", None),
    ),
    function(
        "JSON_RECORDS", _FAMILY, "text", lambda of: _fields(of.text), k.map_of(k.STRING, k.STRING),
        ("JSON_RECORDS('{\"a\": \"x\", \"b\": {\"c\": 2.50}, \"d\": null}')", {"a": "x", "b": '{"c":2.50}',
        "d": "null"}),
        ("JSON_RECORDS('[]')", None), nulls="null if an argument is null, or not an object",
    ),
    function(
        "TO_JSON_STRING", _FAMILY, "any", _json, k.STRING,
        ("TO_JSON_STRING(ARRAY[1, NULL])", "[1,null]"), ("TO_JSON_STRING('a')", '"a"'), ("TO_JSON_STRING(1)", "1"),
        ("TO_JSON_STRING(STRUCT(b := CAST(NULL AS INT), a := 1))", '{"A":1,"B":null}'),
        ("TO_JSON_STRING(MAP('b' := 1, 'a' := 2))", '{"a":2,"b":1}'), ("TO_JSON_STRING(FROM_DAYS(1))", '"1970-01-02"'),
        nulls="null is the text null", differs="a DECIMAL of many places may have an exponent: 2.5E-17",
    ),
)  # fmt: skip
