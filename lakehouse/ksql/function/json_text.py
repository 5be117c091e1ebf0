"""Texts that are JSON."""

from __future__ import annotations

from lakehouse.ksql.function.record import Function, function
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"
FUNCTIONS: tuple[Function, ...] = (
    function(
        "EXTRACTJSONFIELD", _FAMILY, "text text", "get_json_object({0}, {1})", k.STRING,
        ("EXTRACTJSONFIELD('{\"a\": {\"b\": \"x\"}}', '$.a.b')", "x"), ("EXTRACTJSONFIELD('{\"a\": 1}', '$.b')", None),
        ("EXTRACTJSONFIELD('no json', '$.b')", None),
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
        "JSON_KEYS", _FAMILY, "text", "json_object_keys({0})", k.array(k.STRING),
        ("JSON_KEYS('{\"a\": 1, \"b\": 2}')", ["a", "b"]), ("JSON_KEYS('[1]')", None),
    ),
    function(
        "TO_JSON_STRING", _FAMILY, "any",
        "CASE WHEN {0} IS NULL THEN 'null' ELSE substring(to_json(array({0})), 2, length(to_json(array({0}))) - 2) END",
        k.STRING, ("TO_JSON_STRING(ARRAY[1, 2])", "[1,2]"), ("TO_JSON_STRING('a')", "\"a\""), ("TO_JSON_STRING(1)",
        "1"),
        nulls="null is the text null",
    ),
)  # fmt: skip
