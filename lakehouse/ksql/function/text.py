"""Texts and bytes."""

from __future__ import annotations

import re

from lakehouse.errors import SqlError
from lakehouse.ksql.function.in_bytes import EMPTY, A, joined_bytes, split_bytes
from lakehouse.ksql.function.record import STRICT, Function, Signature, function
from lakehouse.ksql.function.sql import Sql, text
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"
# What Java's trim cuts off: the controls and the blank, as a literal of Spark SQL has them.
BLANKS = "".join(map(chr, range(33)))
BETWEEN_CHARACTERS = "(?s)(?<=.)(?=.)"  # a pattern
_MASK = ("'X'", "'x'", "'n'", "'-'")  # for an upper-case letter, a lower-case one, a digit, anything else


def _concat(*parts: Sql) -> str:
    empty = EMPTY if any(part.kind == k.BYTES for part in parts) else "''"
    return f"concat({', '.join(f'coalesce({part.text}, {empty})' for part in parts)})"


def quoted(of: Sql) -> str:
    """Return a text as a pattern that matches it alone."""
    if of.literal is not None:
        return text("\\Q" + of.literal.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    inside = f"replace({of.text}, '\\\\E', '\\\\E\\\\\\\\E\\\\Q')"
    return f"concat('\\\\Q', {inside}, '\\\\E')"


def _split(of: Sql, by: Sql) -> str:
    apart, parts = f"split({of.text}, '{BETWEEN_CHARACTERS}', -1)", f"split({of.text}, {quoted(by)}, -1)"
    if by.literal is not None:
        return parts if by.literal else apart
    return f"CASE WHEN {by.text} = '' THEN {apart} ELSE {parts} END"


def _split_to_map(of: Sql, between: Sql, within: Sql) -> str:
    parts = _split(Sql("_part", k.STRING), within)
    pairs = f"filter(transform({_split(of, between)}, _part -> {parts}), _pair -> size(_pair) > 1)"
    made = (
        f"aggregate({pairs}, cast(map() AS map<string, string>), (_found, _pair) -> map_concat(map_filter(_found, "
        "(_name, _value) -> _name <> _pair[0]), map(_pair[0], _pair[1])))"
    )
    if between.literal and within.literal and between.literal != within.literal:
        return made
    apart = f"{between.text} <> '' AND {within.text} <> '' AND {between.text} <> {within.text}"
    return f"CASE WHEN {apart} THEN {made} END"


def _extract(pattern: Sql, of: Sql, group: Sql | None = None) -> str:
    number = group.text if group else "0"
    return f"CASE WHEN {of.text} RLIKE {pattern.text} THEN regexp_extract({of.text}, {pattern.text}, {number}) END"


def _all(pattern: Sql, of: Sql, group: Sql | None = None) -> str:
    return f"regexp_extract_all({of.text}, {pattern.text}, {group.text if group else '0'})"


def _mask(of: str, masks: tuple[Sql, ...]) -> str:
    for mask in masks:
        if not mask.kind.is_null and (mask.literal is None or len(mask.literal) != 1):
            raise SqlError("what stands for a masked character is written as one character in quotes, or as NULL")
    given = [mask.text for mask in masks]
    every = ", ".join([*given, *_MASK[len(given) :]])
    return f"mask({of}, {every})"


def _counted(made: str, many: Sql) -> str:
    """Null for a negative number of characters."""
    is_known = many.literal is not None and int(many.literal) >= 0
    return made if is_known else f"CASE WHEN {many.text} >= 0 THEN {made} END"


def _mask_left(of: Sql, many: Sql, *masks: Sql) -> str:
    made = f"concat({_mask(f'left({of.text}, {many.text})', masks)}, {_tail(of, many)})"
    return _counted(made, many)


def _keep_left(of: Sql, many: Sql, *masks: Sql) -> str:
    made = f"concat(left({of.text}, {many.text}), {_mask(_tail(of, many), masks)})"
    return _counted(made, many)


def _tail(of: Sql, many: Sql) -> str:
    """What follows so many characters; one more than the largest INTEGER would be below zero."""
    if many.literal is not None:
        return f"substring({of.text}, {many.text} + 1)"
    return f"right({of.text}, greatest(length({of.text}) - {many.text}, 0))"


def _head(of: Sql, many: Sql) -> str:
    return f"left({of.text}, greatest(length({of.text}) - {many.text}, 0))"


def _mask_right(of: Sql, many: Sql, *masks: Sql) -> str:
    return _counted(f"concat({_head(of, many)}, {_mask(f'right({of.text}, {many.text})', masks)})", many)


def _keep_right(of: Sql, many: Sql, *masks: Sql) -> str:
    return _counted(f"concat({_mask(_head(of, many), masks)}, right({of.text}, {many.text}))", many)


def _character(of: Sql) -> str:
    made = f"decode(unhex(lpad(hex({of.text}), 8, '0')), 'UTF-32')"
    return f"CASE WHEN {of.text} >= 0 AND {of.text} <= 1114111 THEN {made} END"


def _escaped(of: Sql) -> str:
    """The characters that Java's escapes stand for; null without one."""
    if of.literal is None:
        units = f"array_join(regexp_extract_all({of.text}, '\\\\\\\\u([0-9a-fA-F]{{4}})', 1), '')"
        right = f"{of.text} RLIKE '^(\\\\\\\\u[0-9a-fA-F]{{4}})+$'"
        return f"CASE WHEN {right} THEN decode(unhex({units}), 'UTF-16BE') END"
    codes = re.findall(r"\\u([0-9a-fA-F]{4})", of.literal)
    if "".join(f"\\u{code}" for code in codes) != of.literal or not codes:
        return "cast(NULL AS string)"
    return text(bytes.fromhex("".join(codes)).decode("utf-16-be", "replace"))


def _first_letters(of: Sql) -> str:
    """Each word with its first letter large: words are between blanks of any kind, and those at the begin go."""
    words = f"regexp_extract_all(lower({of.text}), '[^\\\\s]+\\\\s*', 0)"
    return f"array_join(transform({words}, _word -> concat(upper(left(_word, 1)), substring(_word, 2))), '')"


_MASKS = "text? text? text? text?"
FUNCTIONS: tuple[Function, ...] = (
    function("UCASE", _FAMILY, "text", "upper({0})", k.STRING, ("UCASE('aB')", "AB"), ("UCASE(NULL)", None)),
    function(
        "MD5", _FAMILY, "text", "md5({0})", k.STRING, ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
        ("MD5(NULL)", None),
    ),
    function("LCASE", _FAMILY, "text", "lower({0})", k.STRING, ("LCASE('aB')", "ab"), ("LCASE(NULL)", None)),
    function(
        "TRIM", _FAMILY, "text", f"btrim({{0}}, '{BLANKS}')", k.STRING, ("TRIM('  a b ')", "a b"),
        ("TRIM('\t a \n')", "a"), ("TRIM(CHR(1) || ' a ')", "a"), ("TRIM(NULL)", None),
    ),
    function(
        "INITCAP", _FAMILY, "text", _first_letters, k.STRING, ("INITCAP('the QUICK fox')", "The Quick Fox"),
        ("INITCAP(' a\tb-c ')", "A\tB-c "), nulls=f"{STRICT}; blanks at the begin are left out",
    ),
    Function(
        "CONCAT", _FAMILY,
        (Signature(("text", "text*"), _concat, k.STRING), Signature(("bytes", "bytes*"), _concat, k.BYTES)),
        (
            ("CONCAT('a', 'b', 'c')", "abc"), ("CONCAT('a', CAST(NULL AS VARCHAR))", "a"), ("'a' || NULL || 'c'", "ac"),
            (f"CONCAT({A}, NULL, {A})", "YWE="),
        ),
        "a null is an empty text",
    ),
    Function(
        "CONCAT_WS", _FAMILY,
        (
            Signature(("text", "text", "text*"), "concat_ws({all})", k.STRING),
            Signature(("bytes", "bytes", "bytes*"), joined_bytes, k.BYTES),
        ),
        (
            ("CONCAT_WS('-', 'a', 'b')", "a-b"), ("CONCAT_WS('-', 'a', CAST(NULL AS VARCHAR), 'c')", "a-c"),
            (f"CONCAT_WS({A}, {A}, NULL, {A})", "YWFh"),
        ),
        "nulls are left out; null if the separator is null",
    ),
    function(
        "REPLACE", _FAMILY, "text text text", "replace({0}, {1}, {2})", k.STRING,
        ("REPLACE('foobar', 'oo', 'x')", "fxbar"), ("REPLACE('a.b.c', '.', '-')", "a-b-c"),
        ("REPLACE('a', 'a', CAST(NULL AS VARCHAR))", None),
    ),
    Function(
        "SPLIT", _FAMILY,
        (
            Signature(("text", "text"), _split, k.array(k.STRING)),
            Signature(("bytes", "bytes"), split_bytes, k.array(k.BYTES)),
        ),
        (
            ("SPLIT('a,b,,c', ',')", ["a", "b", "", "c"]), ("SPLIT('a.b', '.')", ["a", "b"]),
            ("SPLIT('abc', 'x')", ["abc"]), ("SPLIT('$a$', '$')", ["", "a", ""]),
            ("SPLIT('abc', '')", ["a", "b", "c"]), ("SPLIT('a\nb', SUBSTRING('x', 2))", ["a", "\n", "b"]),
            ("SPLIT('', '')", [""]),
            ("SPLIT(TO_BYTES('AP+A', 'base64'), TO_BYTES('', 'utf8'))", ["AA==", "/w==", "gA=="]),
            ("SPLIT(CAST(NULL AS VARCHAR), ',')", None),
            ("SPLIT(TO_BYTES('bab', 'utf8'), TO_BYTES('a', 'utf8'))", ["Yg==", "Yg=="]),
        ),
    ),
    function(
        "SPLIT_TO_MAP", _FAMILY, "text text text", _split_to_map, k.map_of(k.STRING, k.STRING),
        ("SPLIT_TO_MAP('a=1,b=2', ',', '=')", {"a": "1", "b": "2"}),
        ("SPLIT_TO_MAP('a=1,x,a=3', ',', '=')", {"a": "3"}), ("SPLIT_TO_MAP('a=1=2', ',', '=')", {"a": "1"}),
        ("SPLIT_TO_MAP('a=1', '', '=')", None),
    ),
    function(
        "REGEXP_EXTRACT", _FAMILY, "text text int?", _extract, k.STRING,
        ("REGEXP_EXTRACT('b(.)d', 'abcd', 1)", "c"), ("REGEXP_EXTRACT('b.', 'abcd')", "bc"),
        ("REGEXP_EXTRACT('x', 'abcd')", None),
    ),
    function(
        "REGEXP_EXTRACT_ALL", _FAMILY, "text text int?", _all, k.array(k.STRING),
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
    Function(
        "CHR", _FAMILY,
        (Signature(("int",), _character, k.STRING), Signature(("text",), _escaped, k.STRING)),
        (
            ("CHR(75)", "K"), ("CHR(22909)", "\u597d"), ("CHR(-1)", None), ("CHR('\\u4e2d')", "\u4e2d"),
            ("CHR('x')", None),
        ),
    ),
    function(
        "MASK", _FAMILY, f"text {_MASKS}", lambda of, *masks: _mask(of.text, masks), k.STRING,
        ("MASK('My Test $123')", "Xx-Xxxx--nnn"), ("MASK('Ab1', '*')", "*xn"), ("MASK(CAST(NULL AS VARCHAR))", None),
    ),
    function(
        "MASK_LEFT", _FAMILY, f"text int {_MASKS}", _mask_left, k.STRING, ("MASK_LEFT('My Test', 4)", "Xx-Xest"),
    ),
    function(
        "MASK_RIGHT", _FAMILY, f"text int {_MASKS}", _mask_right, k.STRING, ("MASK_RIGHT('Test12', 3)", "Tesxnn"),
    ),
    function(
        "MASK_KEEP_LEFT", _FAMILY, f"text int {_MASKS}", _keep_left, k.STRING,
        ("MASK_KEEP_LEFT('My Test', 4)", "My Txxx"),
    ),
    function(
        "MASK_KEEP_RIGHT", _FAMILY, f"text int {_MASKS}", _keep_right, k.STRING,
        ("MASK_KEEP_RIGHT('My Test', 4)", "Xx-Test"),
    ),
)  # fmt: skip
