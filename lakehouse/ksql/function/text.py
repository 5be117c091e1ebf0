"""Texts and bytes."""

from __future__ import annotations

from typing import Any

from lakehouse.errors import SqlError
from lakehouse.ksql.function.record import STRICT, Function, Signature, function
from lakehouse.ksql.function.sql import Sql, text
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"
_MASK = ("'X'", "'x'", "'n'", "'-'")  # for an upper-case letter, a lower-case one, a digit, anything else
_ENCODINGS = ("hex", "utf8", "ascii", "base64")


def _concat(*parts: Sql) -> str:
    texts = [f"coalesce({part.text}, '')" for part in parts]
    return f"concat({', '.join(texts)})"


def _substring(of: Sql, start: Sql, length: Sql | None = None) -> str:
    begin = start.text
    if start.literal is None or int(start.literal) < 0:
        begin = f"CASE WHEN {begin} < 0 THEN greatest(length({of.text}) + {begin} + 1, 1) ELSE {begin} END"
    return f"substring({of.text}, {begin}{f', {length.text}' if length else ''})"


def quoted(of: Sql) -> str:
    """Return a text as a pattern that matches it alone."""
    if of.literal is not None:
        return text("\\Q" + of.literal.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    return f"concat('\\\\Q', {of.text}, '\\\\E')"


def _split(of: Sql, by: Sql) -> str:
    if by.literal == "":
        return f"split({of.text}, '(?<=.)(?=.)', -1)"
    return f"split({of.text}, {quoted(by)}, -1)"


def _split_to_map(of: Sql, between: Sql, within: Sql) -> str:
    pairs = (
        f"filter(transform({_split(of, between)}, part -> split(part, {quoted(within)}, 2)), pair -> size(pair) = 2)"
    )
    return (
        f"aggregate({pairs}, cast(map() AS map<string, string>), (found, pair) -> map_concat(map_filter(found, "
        "(name, value) -> name <> pair[0]), map(pair[0], pair[1])))"
    )


def _extract(pattern: Sql, of: Sql, group: Sql | None = None) -> str:
    number = group.text if group else "0"
    return f"CASE WHEN {of.text} RLIKE {pattern.text} THEN regexp_extract({of.text}, {pattern.text}, {number}) END"


def _all(pattern: Sql, of: Sql, group: Sql | None = None) -> str:
    return f"regexp_extract_all({of.text}, {pattern.text}, {group.text if group else '0'})"


def _mask(of: str, masks: tuple[Sql, ...]) -> str:
    given = [mask.text for mask in masks]
    every = ", ".join([*given, *_MASK[len(given) :]])
    return f"mask({of}, {every})"


def _mask_left(of: Sql, many: Sql, *masks: Sql) -> str:
    return f"concat({_mask(f'left({of.text}, {many.text})', masks)}, substring({of.text}, {many.text} + 1))"


def _keep_left(of: Sql, many: Sql, *masks: Sql) -> str:
    return f"concat(left({of.text}, {many.text}), {_mask(f'substring({of.text}, {many.text} + 1)', masks)})"


def _head(of: Sql, many: Sql) -> str:
    return f"left({of.text}, greatest(length({of.text}) - {many.text}, 0))"


def _mask_right(of: Sql, many: Sql, *masks: Sql) -> str:
    return f"concat({_head(of, many)}, {_mask(f'right({of.text}, {many.text})', masks)})"


def _keep_right(of: Sql, many: Sql, *masks: Sql) -> str:
    return f"concat({_mask(_head(of, many), masks)}, right({of.text}, {many.text}))"


def _encoding(of: Sql, at: str) -> str:
    if of.literal is None or of.literal.lower() not in _ENCODINGS:
        raise SqlError(f"{at}: the encoding is one of {', '.join(_ENCODINGS)}, in quotes")
    return of.literal.lower()


def _to_bytes(of: Sql, encoding: Sql) -> str:
    match _encoding(encoding, "TO_BYTES"):
        case "hex":
            return f"unhex(regexp_replace({of.text}, '^(0x|0X)', ''))"
        case "base64":
            return f"unbase64({of.text})"
    return f"encode({of.text}, 'UTF-8')"


def _from_bytes(of: str, encoding: Sql) -> str:
    match _encoding(encoding, "FROM_BYTES"):
        case "hex":
            return f"concat('0x', lower(hex({of})))"
        case "base64":
            return f"base64({of})"
    return f"decode({of}, 'UTF-8')"


def _padded(side: str) -> Any:
    return f"CASE WHEN {{1}} >= 0 AND {{2}} <> '' THEN {side}({{0}}, {{1}}, {{2}}) END"


_MASKS = "text? text? text? text?"
FUNCTIONS: tuple[Function, ...] = (
    function("UCASE", _FAMILY, "text", "upper({0})", k.STRING, ("UCASE('aB')", "AB"), ("UCASE(NULL)", None)),
    function("LCASE", _FAMILY, "text", "lower({0})", k.STRING, ("LCASE('aB')", "ab"), ("LCASE(NULL)", None)),
    function("TRIM", _FAMILY, "text", "trim({0})", k.STRING, ("TRIM('  a b ')", "a b"), ("TRIM(NULL)", None)),
    Function(
        "LEN", _FAMILY,
        (Signature(("text",), "length({0})", k.INTEGER), Signature(("bytes",), "length({0})", k.INTEGER)),
        (("LEN('abc')", 3), ("LEN('')", 0), ("LEN(CAST(NULL AS VARCHAR))", None)),
    ),
    function("INITCAP", _FAMILY, "text", "initcap({0})", k.STRING, ("INITCAP('the QUICK fox')", "The Quick Fox")),
    function(
        "CONCAT", _FAMILY, "text text*", _concat, k.STRING, ("CONCAT('a', 'b', 'c')", "abc"),
        ("CONCAT('a', CAST(NULL AS VARCHAR))", "a"),
        nulls="a null is an empty text",
    ),
    function(
        "CONCAT_WS", _FAMILY, "text text*", "concat_ws({all})", k.STRING,
        ("CONCAT_WS('-', 'a', 'b')", "a-b"), ("CONCAT_WS('-', 'a', CAST(NULL AS VARCHAR), 'c')", "a-c"),
        nulls="nulls are left out; null if the separator is null",
    ),
    function(
        "SUBSTRING", _FAMILY, "text whole whole?", _substring, k.STRING,
        ("SUBSTRING('stream', 1, 4)", "stre"), ("SUBSTRING('stream', 2)", "tream"), ("SUBSTRING('stream', -2)", "am"),
        ("SUBSTRING('abc', -5, 2)", "ab"), ("SUBSTRING('abc', 9)", ""), ("SUBSTRING(CAST(NULL AS VARCHAR), 1)", None),
    ),
    function(
        "REPLACE", _FAMILY, "text text text", "replace({0}, {1}, {2})", k.STRING,
        ("REPLACE('foobar', 'oo', 'x')", "fxbar"), ("REPLACE('a.b.c', '.', '-')", "a-b-c"),
        ("REPLACE('a', 'a', CAST(NULL AS VARCHAR))", None),
    ),
    function(
        "INSTR", _FAMILY, "text text whole?",
        lambda of, part, start=None: f"locate({part.text}, {of.text}, {start.text})" if start
        else f"instr({of.text}, {part.text})",
        k.INTEGER, ("INSTR('CORPORATE FLOOR', 'OR')", 2), ("INSTR('CORPORATE FLOOR', 'OR', 3)", 5),
        ("INSTR('abc', 'x')", 0), differs="no search from the end, and no fourth argument",
    ),
    function(
        "LPAD", _FAMILY, "text whole text", _padded("lpad"), k.STRING,
        ("LPAD('foo', 7, 'Bar')", "BarBfoo"), ("LPAD('foo', 2, 'Bar')", "fo"), ("LPAD('foo', -1, 'x')", None),
        ("LPAD('foo', 4, '')", None),
    ),
    function(
        "RPAD", _FAMILY, "text whole text", _padded("rpad"), k.STRING,
        ("RPAD('foo', 7, 'Bar')", "fooBarB"), ("RPAD('foo', 2, 'Bar')", "fo"),
        ("RPAD(CAST(NULL AS VARCHAR), 2, 'x')", None),
    ),
    function(
        "SPLIT", _FAMILY, "text text", _split, k.array(k.STRING),
        ("SPLIT('a,b,,c', ',')", ["a", "b", "", "c"]), ("SPLIT('a.b', '.')", ["a", "b"]),
        ("SPLIT('abc', 'x')", ["abc"]),
        ("SPLIT('$a$', '$')", ["", "a", ""]), ("SPLIT('abc', '')", ["a", "b", "c"]),
        ("SPLIT(CAST(NULL AS VARCHAR), ',')", None),
    ),
    function(
        "SPLIT_TO_MAP", _FAMILY, "text text text", _split_to_map, k.map_of(k.STRING, k.STRING),
        ("SPLIT_TO_MAP('a=1,b=2', ',', '=')", {"a": "1", "b": "2"}),
        ("SPLIT_TO_MAP('a=1,x,a=3', ',', '=')", {"a": "3"}),
    ),
    function(
        "REGEXP_EXTRACT", _FAMILY, "text text whole?", _extract, k.STRING,
        ("REGEXP_EXTRACT('b(.)d', 'abcd', 1)", "c"), ("REGEXP_EXTRACT('b.', 'abcd')", "bc"),
        ("REGEXP_EXTRACT('x', 'abcd')", None),
    ),
    function(
        "REGEXP_EXTRACT_ALL", _FAMILY, "text text whole?", _all, k.array(k.STRING),
        ("REGEXP_EXTRACT_ALL('[0-9]+', 'a1b22')", ["1", "22"]), ("REGEXP_EXTRACT_ALL('x', 'abcd')", []),
    ),
    function(
        "REGEXP_REPLACE", _FAMILY, "text text text", "regexp_replace({0}, {1}, {2})", k.STRING,
        ("REGEXP_REPLACE('foo123', '[0-9]+', '#')", "foo#"), ("REGEXP_REPLACE('a', 'b', CAST(NULL AS VARCHAR))", None),
    ),
    function(
        "REGEXP_SPLIT_TO_ARRAY", _FAMILY, "text text", "split({0}, {1}, -1)", k.array(k.STRING),
        ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+')", ["a", "b", "c"]),
    ),
    function(
        "CHR", _FAMILY, "whole", "decode(unhex(lpad(hex({0}), 8, '0')), 'UTF-32')", k.STRING,
        ("CHR(75)", "K"), ("CHR(22909)", "\u597d"), differs="takes a number, not a text of Java's escapes",
    ),
    function(
        "ENCODE", _FAMILY, "text text text", lambda of, one, other: _from_bytes(_to_bytes(of, one), other), k.STRING,
        ("ENCODE('hello', 'utf8', 'base64')", "aGVsbG8="), ("ENCODE('hello', 'ascii', 'hex')", "0x68656c6c6f"),
        ("ENCODE('0x68656c6c6f', 'hex', 'utf8')", "hello"),
    ),
    function(
        "TO_BYTES", _FAMILY, "text text", _to_bytes, k.BYTES, ("TO_BYTES('aGk=', 'base64')", "aGk="),
        ("TO_BYTES('hi', 'utf8')", "aGk="), ("TO_BYTES('6869', 'hex')", "aGk="),
    ),
    function(
        "FROM_BYTES", _FAMILY, "bytes text", lambda of, encoding: _from_bytes(of.text, encoding), k.STRING,
        ("FROM_BYTES(TO_BYTES('hi', 'utf8'), 'utf8')", "hi"), ("FROM_BYTES(TO_BYTES('hi', 'utf8'), 'hex')", "0x6869"),
    ),
    function(
        "INT_FROM_BYTES", _FAMILY, "bytes", "cast(cast(conv(hex({0}), 16, 10) AS bigint) AS int)", k.INTEGER,
        ("INT_FROM_BYTES(TO_BYTES('00000102', 'hex'))", 258), ("INT_FROM_BYTES(TO_BYTES('FFFFFFFF', 'hex'))", -1),
        differs="no byte order: the first byte is the largest",
    ),
    function(
        "BIGINT_FROM_BYTES", _FAMILY, "bytes", "cast(conv(hex({0}), 16, -10) AS bigint)", k.BIGINT,
        ("BIGINT_FROM_BYTES(TO_BYTES('0000000000000102', 'hex'))", 258),
        ("BIGINT_FROM_BYTES(TO_BYTES('FFFFFFFFFFFFFFFF', 'hex'))", -1),
        differs="no byte order: the first byte is the largest",
    ),
    function(
        "MASK", _FAMILY, f"text {_MASKS}", lambda of, *masks: _mask(of.text, masks), k.STRING,
        ("MASK('My Test $123')", "Xx-Xxxx--nnn"), ("MASK('Ab1', '*')", "*xn"), ("MASK(CAST(NULL AS VARCHAR))", None),
    ),
    function(
        "MASK_LEFT", _FAMILY, f"text whole {_MASKS}", _mask_left, k.STRING, ("MASK_LEFT('My Test', 4)", "Xx-Xest"),
    ),
    function(
        "MASK_RIGHT", _FAMILY, f"text whole {_MASKS}", _mask_right, k.STRING, ("MASK_RIGHT('Test12', 3)", "Tesxnn"),
    ),
    function(
        "MASK_KEEP_LEFT", _FAMILY, f"text whole {_MASKS}", _keep_left, k.STRING,
        ("MASK_KEEP_LEFT('My Test', 4)", "My Txxx"),
    ),
    function(
        "MASK_KEEP_RIGHT", _FAMILY, f"text whole {_MASKS}", _keep_right, k.STRING,
        ("MASK_KEEP_RIGHT('My Test', 4)", "Xx-Test"),
    ),
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
    function(
        "URL_ENCODE_PARAM", _FAMILY, "text", "url_encode({0})", k.STRING,
        ("URL_ENCODE_PARAM('a b&c')", "a+b%26c"), nulls=STRICT,
    ),
    function(
        "URL_DECODE_PARAM", _FAMILY, "text", "try_url_decode({0})", k.STRING, ("URL_DECODE_PARAM('a+b%26c')", "a b&c"),
    ),
    *(
        function(f"URL_EXTRACT_{name}", _FAMILY, "text", f"try_parse_url({{0}}, '{part}')", k.STRING, (case, value))
        for name, part, case, value in (
            ("HOST", "HOST", "URL_EXTRACT_HOST('https://a.org:8080/x/y?q=1#f')", "a.org"),
            ("PATH", "PATH", "URL_EXTRACT_PATH('https://a.org:8080/x/y?q=1#f')", "/x/y"),
            ("QUERY", "QUERY", "URL_EXTRACT_QUERY('https://a.org:8080/x/y?q=1#f')", "q=1"),
            ("FRAGMENT", "REF", "URL_EXTRACT_FRAGMENT('https://a.org:8080/x/y?q=1#f')", "f"),
            ("PROTOCOL", "PROTOCOL", "URL_EXTRACT_PROTOCOL('https://a.org:8080/x/y?q=1#f')", "https"),
        )
    ),
    function(
        "URL_EXTRACT_PARAMETER", _FAMILY, "text text", "try_url_decode(try_parse_url({0}, 'QUERY', {1}))", k.STRING,
        ("URL_EXTRACT_PARAMETER('http://a.org/x?q=a%20b', 'q')", "a b"),
        ("URL_EXTRACT_PARAMETER('http://a.org/', 'q')", None),
    ),
    function(
        "URL_EXTRACT_PORT", _FAMILY, "text",
        "cast(nullif(regexp_extract({0}, '^[^/]*//[^/?#]*:([0-9]+)([/?#]|$)', 1), '') AS int)", k.INTEGER,
        ("URL_EXTRACT_PORT('https://a.org:8080/x')", 8080), ("URL_EXTRACT_PORT('https://a.org/x')", None),
    ),
)  # fmt: skip
