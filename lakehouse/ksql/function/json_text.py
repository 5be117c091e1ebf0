"""Functions of JSON texts. Numbers in them keep their digits."""

from __future__ import annotations

from operator import itemgetter

from lakehouse.errors import SqlError
from lakehouse.ksql.function.moment import time_text
from lakehouse.ksql.function.record import Function, define_function
from lakehouse.ksql.function.sql import Sql, let_sql
from lakehouse.ksql.function.sql import text_literal as literal
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax.kind import Kind
from lakehouse.plan.names.field import field_name
from lakehouse.plan.names.json_path import json_pointer

_FAMILY = "Texts and bytes"
# A pattern for the next text, number with an exponent, other number, or anything else, of JSON without blanks.
_JSON_PIECE = '"[^"]*"|-?[0-9.]+E[+-][0-9]+|-?[0-9.]+|[^"0-9-]+'
_ESCAPED = {"\\\\": "\1", '\\"': "\2"}  # and the characters for them, which no JSON has, while pieces are searched for
_ZEROS_MAX = 9999  # Jackson's own limit


def _quote_json(text: str) -> str:
    """Return a text as a JSON string."""
    return let_sql(
        f"to_json(array({text}))", "_shown", lambda json_array: f"substring({json_array}, 2, length({json_array}) - 2)"
    )


def _extract_field(json_value: Sql, path: Sql) -> str:
    if path.literal is None:
        pointer_sql = f"ksql_json_pointer({path.text})"
    else:
        known_pointer = json_pointer(path.literal)
        pointer_sql = "cast(NULL AS string)" if known_pointer is None else literal(known_pointer)
    value_sql = "CASE WHEN _at LIKE '\"%' THEN ksql_json_text(_at) WHEN _at NOT IN ('', 'null') THEN _at END"
    return let_sql(f"ksql_json_at({json_value.text}, {pointer_sql})", "_at", lambda _: value_sql)


def _json_records(json_text: str) -> str:
    """Return the fields of an object: texts as they are, other values as JSON; null for anything but an object."""
    field_text = (
        "CASE WHEN _written LIKE '\"%' THEN get_json_object(concat('[', _written, ']'), '$[0]') ELSE _written END"
    )
    return f"transform_values(ksql_json_fields({json_text}), (_name, _written) -> {field_text})"


def _json_array_contains(json_value: Sql, item: Sql) -> str:
    """Return JSON_ARRAY_CONTAINS, which compares JSON: a whole number never equals a number with a point."""
    item_kind, equals_item = item.kind, f"_item = cast({item.text} AS string)"
    if item_kind.is_null:
        equals_item = "_item = 'null'"
    elif item_kind == k.DOUBLE:
        equals_item = f"_item RLIKE '^-?[0-9].*[.E]' AND cast(_item AS double) = {item.text}"
    elif item_kind == k.STRING:
        equals_item = f"_item LIKE '\"%' AND get_json_object(concat('[', _item, ']'), '$[0]') = {item.text}"
    elif not item_kind.is_whole and item_kind != k.BOOLEAN:
        raise SqlError(f"JSON_ARRAY_CONTAINS looks for a text, a number, true, false or NULL, not for a {item_kind}")
    if item.literal is None and not item_kind.is_null:
        equals_item = f"CASE WHEN {item.text} IS NULL THEN _item = 'null' ELSE {equals_item} END"
    is_contained = f"exists(ksql_json_items({json_value.text}), _item -> {equals_item})"
    return f"CASE WHEN {json_value.text} IS NOT NULL THEN coalesce({is_contained}, false) END"


def _concat_json(*parts: Sql) -> str:
    """Return JSON_CONCAT: objects are merged, a name's later value wins; anything else makes all one array."""
    whole_texts = [f"ksql_json_at({part.text}, '')" for part in parts]
    field_maps = [f"ksql_json_fields({part.text})" for part in parts]
    # A value that is no array becomes an array's only item.
    item_arrays = [
        f"coalesce(ksql_json_items({item_source.text}), array({whole_text}))"
        for item_source, whole_text in zip(parts, whole_texts, strict=True)
    ]
    member_text = f"concat({_quote_json('_entry.key')}, ':', _entry.value)"
    all_fields = field_maps[0] if len(parts) == 1 else f"map_concat({', '.join(field_maps)})"
    merged_object = (
        f"concat('{{', array_join(transform(map_entries({all_fields}), _entry -> {member_text}), ','), '}}')"
    )
    merged_array = f"concat('[', array_join(flatten(array({', '.join(item_arrays)})), ','), ']')"
    if len(parts) == 1:
        merged_array = whole_texts[0]
    has_missing = " OR ".join(f"coalesce({whole_text}, '') = ''" for whole_text in whole_texts)
    all_objects = " AND ".join(f"{field_map} IS NOT NULL" for field_map in field_maps)
    merged = f"CASE WHEN {has_missing} THEN NULL WHEN {all_objects} THEN {merged_object} ELSE {merged_array} END"
    return let_sql(merged, "_joined", _without_exponents)


def _without_exponents(json_text: str) -> str:
    """Return JSON with 100000 in place of 1E+5; null if a number then has more zeros than Jackson writes."""
    shortened = json_text
    for escape, character in _ESCAPED.items():
        shortened = f"replace({shortened}, {literal(escape)}, {literal(character)})"
    pieces = f"regexp_extract_all({shortened}, {literal(_JSON_PIECE)}, 0)"
    plain_pieces = f"transform({pieces}, _piece -> {_plain_number('_piece')})"
    restored = "array_join(_plain, '')"
    for escape, character in reversed(_ESCAPED.items()):
        restored = f"replace({restored}, {literal(character)}, {literal(escape)})"
    joined = f"CASE WHEN NOT exists(_plain, _piece -> _piece IS NULL) THEN {restored} END"
    plain_text = let_sql(plain_pieces, "_plain", lambda _: joined)
    return f"CASE WHEN {json_text} RLIKE '[0-9]E[+-]' THEN {plain_text} ELSE {json_text} END"


def _plain_number(piece: str) -> str:
    """Return a piece, without the exponent if it is a number with one: a digit, maybe others after a point, E, a sign.

    As Java writes it, E+ comes only where all digits stand before the point.
    """
    whole, fraction, exponent = (
        f"regexp_extract({piece}, '^-?([0-9])(?:[.]([0-9]+))?E([+-][0-9]+)', {place})" for place in (1, 2, 3)
    )
    power, digits = f"cast({exponent} AS int)", f"concat({whole}, {fraction})"
    large = f"CASE WHEN {digits} = '0' THEN '0' ELSE rpad({digits}, {power} + 1, '0') END"
    small = f"concat('0.', repeat('0', -{power} - 1), {digits})"
    plain = (
        f"concat(CASE WHEN {piece} LIKE '-%' THEN '-' ELSE '' END, CASE WHEN {power} > 0 THEN {large} ELSE {small} END)"
    )
    is_written = f"abs(length({fraction}) - {power}) <= {_ZEROS_MAX}"
    return f"CASE WHEN {piece} NOT RLIKE '^-?[0-9.]+E' THEN {piece} WHEN {is_written} THEN {plain} END"


def json_ready(text: str, kind: Kind, depth: int = 0) -> str:
    """Return a value in a form that to_json writes as ksqlDB does: moments as texts, fields and keys in order."""
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
            is_less, is_more = f"a{depth}.key < b{depth}.key", f"a{depth}.key > b{depth}.key"
            order = f"(a{depth}, b{depth}) -> CASE WHEN {is_less} THEN -1 WHEN {is_more} THEN 1 ELSE 0 END"
            return f"map_from_entries(transform(array_sort(map_entries({text}), {order}), {item} -> {pair}))"
        case "STRUCT":
            sorted_members = sorted(
                zip(map(field_name, kind.names), kind.names, kind.inner, strict=True), key=itemgetter(0)
            )
            ready_members = (
                (field_title, json_ready(f"{text}.`{name}`", inner_kind, depth))
                for field_title, name, inner_kind in sorted_members
            )
            field_texts = ", ".join(
                f"{literal(field_title)}, {ready_value}" for field_title, ready_value in ready_members
            )
            return f"CASE WHEN {text} IS NOT NULL THEN named_struct({field_texts}) END"
    return text


def _to_json_string(value: Sql) -> str:
    json_array = f"to_json(array({json_ready(value.text, value.kind)}), map('ignoreNullFields', 'false'))"
    json_text = let_sql(json_array, "_shown", lambda json_text: f"substring({json_text}, 2, length({json_text}) - 2)")
    return f"CASE WHEN {value.text} IS NULL THEN 'null' ELSE {json_text} END"


FUNCTIONS: tuple[Function, ...] = (
    define_function(
        "EXTRACTJSONFIELD", _FAMILY, "text text", _extract_field, k.STRING,
        ("EXTRACTJSONFIELD('{\"a\": {\"b\": \"x\"}}', '$.a.b')", "x"), ("EXTRACTJSONFIELD('{\"a\": 1}', '$.b')", None),
        ("EXTRACTJSONFIELD('{\"@t\": [1, 2]}', '$.@t[1]')", "2"), ("EXTRACTJSONFIELD('no json', '$.b')", None),
        ("EXTRACTJSONFIELD('{\"user-id\": \"u7\", \"a.b\": 1}', '$[\"user-id\"]')", "u7"),
        ("EXTRACTJSONFIELD('{\"a.b\": {\"c\\\"d\": 1}}', '$[\"a.b\"][\"c\\\"d\"]')", "1"),
        ("EXTRACTJSONFIELD('{\"a\": 799.929496989092949698}', '$.a')", "799.929496989092949698"),
        ("EXTRACTJSONFIELD('{\"a\": [1.50, {\"b\": \"x\"}]}', '$.a')", '[1.50,{"b":"x"}]'),
        differs="null for null, not the text null",
    ),
    define_function(
        "IS_JSON_STRING", _FAMILY, "text", "coalesce(ksql_json_at({0}, '') <> '', false)", k.BOOLEAN,
        ("IS_JSON_STRING('[1, 2]')", True), ("IS_JSON_STRING('abc')", False),
        ("IS_JSON_STRING('')", False), nulls="false for null",
    ),
    define_function(
        "JSON_ARRAY_LENGTH", _FAMILY, "text",
        "CASE WHEN ksql_json_items({0}) IS NOT NULL THEN size(ksql_json_items({0})) END", k.INTEGER,
        ("JSON_ARRAY_LENGTH('[1, 2, 3]')", 3), ("JSON_ARRAY_LENGTH('{}')", None),
    ),
    define_function(
        "JSON_ARRAY_CONTAINS", _FAMILY, "text any", _json_array_contains, k.BOOLEAN,
        ("JSON_ARRAY_CONTAINS('[1, 2, 3]', 2)", True), ("JSON_ARRAY_CONTAINS('[\"1\"]', 1)", False),
        ("JSON_ARRAY_CONTAINS('[1.5, true, null, \"a\"]', 'a')", True), ("JSON_ARRAY_CONTAINS('[true]', true)", True),
        ("JSON_ARRAY_CONTAINS('[1.5]', 1.5e0)", True), ("JSON_ARRAY_CONTAINS('[null]', NULL)", True),
        ("JSON_ARRAY_CONTAINS('[1, null]', CAST(NULL AS INT))", True),
        ("JSON_ARRAY_CONTAINS('[\"null\"]', CAST(NULL AS VARCHAR))", False),
        ("JSON_ARRAY_CONTAINS('{}', 1)", False), nulls="null for a null text; a null can be looked for",
    ),
    define_function(
        "JSON_CONCAT", _FAMILY, "text text*", _concat_json, k.STRING,
        ("JSON_CONCAT('{\"b\": 1, \"a\": 2}', '{\"b\": \"x\"}')", '{"b":"x","a":2}'),
        ("JSON_CONCAT('[1]', '[\"x\", {\"a\": 1}]')", '[1,"x",{"a":1}]'),
        ("JSON_CONCAT('{\"a\": 1}', '2')", '[{"a":1},2]'),
        ("JSON_CONCAT('x', '[2]')", None),
        ("JSON_CONCAT('{\"x\": 1.50}', '{\"y\": 2}', '{\"k\": true}')", '{"x":1.50,"y":2,"k":true}'),
        ("JSON_CONCAT('[1]', '{\"a\": 1}', '2', 'null')", '[1,{"a":1},2,null]'), ("JSON_CONCAT('1')", "1"),
        ("JSON_CONCAT('{}', CAST(NULL AS VARCHAR), '{}')", None),
        ("JSON_CONCAT('{\"a 1E+5\": 1e5, \"b\": \"\\\" 1E+5\"}', '{\"c\": [-1.50e+10, 2E-8, -1.25e-9, 0e3, 7, true]}')",
         '{"a 1E+5":100000,"b":"\\\" 1E+5","c":[-15000000000,0.00000002,-0.00000000125,0,7,true]}'),
        ("JSON_CONCAT('[0.0e-8]', '1e-9999', '1')", f"[0.000000000,0.{'0' * 9998}1,1]"),
        ("JSON_CONCAT('[1]', '1e10000')", None),
        ("JSON_CONCAT('{\"p\": \"c:\\\\\", \"n\": 1e3}')", '{"p":"c:\\\\","n":1000}'),
    ),
    define_function(
        "JSON_ITEMS", _FAMILY, "text", "ksql_json_items({0})", k.array_of(k.STRING),
        ("JSON_ITEMS('[{\"b\": 1, \"a\": \"x\"}, {}]')", ['{"b":1,"a":"x"}', "{}"]),
        ("JSON_ITEMS('[1.50, \"a\"]')", ["1.50", '"a"']),
        ("JSON_ITEMS('x')", None), nulls="null if an argument is null, or not an array",
    ),
    define_function(
        "JSON_KEYS", _FAMILY, "text", "map_keys(ksql_json_fields({0}))", k.array_of(k.STRING),
        ("JSON_KEYS('{\"a\": 1, \"b\": 2}')", ["a", "b"]), ("JSON_KEYS('[1]')", None),
    ),
    define_function(
        "JSON_RECORDS", _FAMILY, "text", lambda value: _json_records(value.text), k.map_of(k.STRING, k.STRING),
        ("JSON_RECORDS('{\"a\": \"x\", \"b\": {\"c\": 2.50}, \"d\": null}')", {"a": "x", "b": '{"c":2.50}',
        "d": "null"}),
        ("JSON_RECORDS('[]')", None), nulls="null if an argument is null, or not an object",
    ),
    define_function(
        "TO_JSON_STRING", _FAMILY, "any", _to_json_string, k.STRING,
        ("TO_JSON_STRING(ARRAY[1, NULL])", "[1,null]"), ("TO_JSON_STRING('a')", '"a"'), ("TO_JSON_STRING(1)", "1"),
        ("TO_JSON_STRING(STRUCT(b := CAST(NULL AS INT), a := 1))", '{"A":1,"B":null}'),
        ("TO_JSON_STRING(MAP('b' := 1, 'a' := 2))", '{"a":2,"b":1}'), ("TO_JSON_STRING(FROM_DAYS(1))", '"1970-01-02"'),
        nulls="null is the text null", differs="a DECIMAL of many places may have an exponent: 2.5E-17",
    ),
)  # fmt: skip
