"""Functions of texts, some also of bytes."""

from __future__ import annotations

import re

from lakehouse.errors import SqlError
from lakehouse.ksql.function.in_bytes import BYTES_OF_A, EMPTY, join_bytes, split_bytes
from lakehouse.ksql.function.record import STRICT, Function, Signature, define_function
from lakehouse.ksql.function.sql import Sql, let_sql, map_of_last, text_literal, trimmed
from lakehouse.ksql.syntax import kind as k
from lakehouse.semantics.blanks import BETWEEN_CHARACTERS

_FAMILY = "Texts and bytes"
_MAY_MATCH_NOTHING = r"[*?{|^$()\\]"  # a pattern with none of these characters matches no empty text
_MASK = ("'X'", "'x'", "'n'", "'-'")  # for an upper-case letter, a lower-case one, a digit, anything else


def _concat_texts(*parts: Sql) -> str:
    empty_value = EMPTY if any(part.kind == k.BYTES for part in parts) else "''"
    return f"concat({', '.join(f'coalesce({part.text}, {empty_value})' for part in parts)})"


def quote_pattern(source: Sql) -> str:
    """Return a pattern that matches only this text."""
    if source.literal is not None:
        return text_literal("\\Q" + source.literal.replace("\\E", "\\E\\\\E\\Q") + "\\E")
    escaped_text = f"replace({source.text}, '\\\\E', '\\\\E\\\\\\\\E\\\\Q')"
    return f"concat('\\\\Q', {escaped_text}, '\\\\E')"


def _split_text(source: Sql, separator: Sql) -> str:
    characters, split_parts = (
        f"split({source.text}, '{BETWEEN_CHARACTERS}', -1)",
        f"split({source.text}, {quote_pattern(separator)}, -1)",
    )
    if separator.literal is not None:
        return split_parts if separator.literal else characters
    return f"CASE WHEN {separator.text} = '' THEN {characters} ELSE {split_parts} END"


def _replace_text(source: Sql, search: Sql, replacement: Sql) -> str:
    """Return REPLACE: an empty text is found around every character, as in Java; Spark finds it nowhere."""
    replaced = f"replace({source.text}, {search.text}, {replacement.text})"
    if search.literal:
        return replaced
    between = f"array_join(split({source.text}, '{BETWEEN_CHARACTERS}', -1), {replacement.text})"
    around = f"concat({replacement.text}, {between}, {replacement.text})"
    everywhere = f"CASE WHEN {source.text} = '' THEN {replacement.text} ELSE {around} END"
    return everywhere if search.literal == "" else f"CASE WHEN {search.text} = '' THEN {everywhere} ELSE {replaced} END"


def _split_to_map(source: Sql, pair_separator: Sql, key_separator: Sql) -> str:
    pair_parts = _split_text(Sql("_part", k.STRING), key_separator)
    pair_arrays = (
        f"filter(transform({_split_text(source, pair_separator)}, _part -> {pair_parts}), _pair -> size(_pair) > 1)"
    )
    last_entries = map_of_last("size(_pairs)", "get(_pairs, _place)[0]", "get(_pairs, _place)[1]")
    merged_map = let_sql(
        pair_arrays,
        "_pairs",
        lambda _: (
            f"CASE WHEN size(_pairs) > 0 THEN {last_entries} "
            "WHEN _pairs IS NOT NULL THEN cast(map() AS map<string, string>) END"
        ),
    )
    if pair_separator.literal and key_separator.literal and pair_separator.literal != key_separator.literal:
        return merged_map
    is_separable = (
        f"{pair_separator.text} <> '' AND {key_separator.text} <> '' AND {pair_separator.text} <> {key_separator.text}"
    )
    return f"CASE WHEN {is_separable} THEN {merged_map} END"


def _split_by_pattern(source: Sql, pattern: Sql) -> str:
    """Return REGEXP_SPLIT_TO_ARRAY: if the pattern matches an empty text, empty parts at the end are left out."""
    all_parts = f"split({source.text}, {pattern.text}, -1)"
    if pattern.literal and not re.search(_MAY_MATCH_NOTHING, pattern.literal):
        return all_parts
    empty_count = "aggregate(_parts, 0, (_empty, _part) -> CASE WHEN _part = '' THEN _empty + 1 ELSE 0 END)"
    parts = let_sql(all_parts, "_parts", lambda _: f"slice(_parts, 1, size(_parts) - {empty_count})")
    # As in Java, a text without a separator in it is itself the only part.
    return f"CASE WHEN '' RLIKE {pattern.text} AND {source.text} <> '' THEN {parts} ELSE {all_parts} END"


def _regexp_extract(pattern: Sql, source: Sql, group: Sql | None = None) -> str:
    """Return REGEXP_EXTRACT: null for a group that took no part in a match, as in Java; Spark gives an empty text."""
    arguments = f"({source.text}, {pattern.text}, {group.text if group else '0'})"
    function_name = "ksql_regexp_group" if group and group.literal != "0" else "regexp_extract"
    return f"CASE WHEN {source.text} RLIKE {pattern.text} THEN {function_name}{arguments} END"


def _regexp_extract_all(pattern: Sql, source: Sql, group: Sql | None = None) -> str:
    arguments = f"({source.text}, {pattern.text}, {group.text if group else '0'})"
    if group is None or group.literal in (None, "0"):  # Java's loop over the matches knows no column
        return f"regexp_extract_all{arguments}"
    return f"CASE WHEN regexp_extract_all{arguments} IS NOT NULL THEN ksql_regexp_groups{arguments} END"


def _mask_text(source: str, masks: tuple[Sql, ...]) -> str:
    for mask in masks:
        if not mask.kind.is_null and (mask.literal is None or len(mask.literal) != 1):
            raise SqlError("what stands for a masked character is written as one character in quotes, or as NULL")
    given_masks = [mask.text for mask in masks]
    all_masks = ", ".join([*given_masks, *_MASK[len(given_masks) :]])
    return f"mask({source}, {all_masks})"


def _null_if_negative(result: str, count: Sql) -> str:
    """Return a result, or null for a negative number of characters."""
    is_known = count.literal is not None and int(count.literal) >= 0
    return result if is_known else f"CASE WHEN {count.text} >= 0 THEN {result} END"


def _mask_left(source: Sql, count: Sql, *masks: Sql) -> str:
    left, right = _split_at(source, f"least({count.text}, ksql_length({source.text}))")
    return _null_if_negative(f"concat({_mask_text(left, masks)}, {right})", count)


def _keep_left(source: Sql, count: Sql, *masks: Sql) -> str:
    left, right = _split_at(source, f"least({count.text}, ksql_length({source.text}))")
    return _null_if_negative(f"concat({left}, {_mask_text(right, masks)})", count)


def _mask_right(source: Sql, count: Sql, *masks: Sql) -> str:
    left, right = _split_at(source, f"greatest(ksql_length({source.text}) - {count.text}, 0)")
    return _null_if_negative(f"concat({left}, {_mask_text(right, masks)})", count)


def _keep_right(source: Sql, count: Sql, *masks: Sql) -> str:
    left, right = _split_at(source, f"greatest(ksql_length({source.text}) - {count.text}, 0)")
    return _null_if_negative(f"concat({_mask_text(left, masks)}, {right})", count)


def _split_at(source: Sql, place: str) -> tuple[str, str]:
    """Return the two parts of a text; place: how many of Java's characters the first one has."""
    return (
        f"ksql_substring({source.text}, 0, {place})",
        f"ksql_substring({source.text}, {place}, ksql_length({source.text}))",
    )


def _character_of_code(code_value: Sql) -> str:
    character = f"decode(unhex(lpad(hex({code_value.text}), 8, '0')), 'UTF-32')"
    return f"CASE WHEN {code_value.text} >= 0 AND {code_value.text} <= 1114111 THEN {character} END"


def _unescape_text(source: Sql) -> str:
    """Return a text that begins with a code unit, with Java's escapes replaced; null for another text."""
    return f"CASE WHEN {source.text} RLIKE '^\\\\\\\\u' THEN ksql_unescape({source.text}) END"


def _first_letters(source: Sql) -> str:
    """Return a text with each word capitalized: any white space separates words; leading white space goes."""
    words = f"regexp_extract_all(lower({source.text}), '[^\\\\s]+\\\\s*', 0)"
    return f"array_join(transform({words}, _word -> concat(upper(left(_word, 1)), substring(_word, 2))), '')"


_MASKS = "text? text? text? text?"
FUNCTIONS: tuple[Function, ...] = (
    define_function("UCASE", _FAMILY, "text", "upper({0})", k.STRING, ("UCASE('aB')", "AB"), ("UCASE(NULL)", None)),
    define_function(
        "MD5", _FAMILY, "text", "md5({0})", k.STRING, ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661"),
        ("MD5(NULL)", None),
    ),
    define_function("LCASE", _FAMILY, "text", "lower({0})", k.STRING, ("LCASE('aB')", "ab"), ("LCASE(NULL)", None)),
    define_function(
        "TRIM", _FAMILY, "text", trimmed("{0}"), k.STRING, ("TRIM('  a b ')", "a b"),
        ("TRIM('\t a \n')", "a"), ("TRIM(CHR(1) || ' a ')", "a"), ("TRIM(NULL)", None),
    ),
    define_function(
        "INITCAP", _FAMILY, "text", _first_letters, k.STRING, ("INITCAP('the QUICK fox')", "The Quick Fox"),
        ("INITCAP(' a\tb-c ')", "A\tB-c "), nulls=f"{STRICT}; blanks at the begin are left out",
    ),
    Function(
        "CONCAT", _FAMILY,
        (Signature(("text", "text*"), _concat_texts, k.STRING), Signature(("bytes", "bytes*"), _concat_texts, k.BYTES)),
        (
            ("CONCAT('a', 'b', 'c')", "abc"), ("CONCAT('a', CAST(NULL AS VARCHAR))", "a"), ("'a' || NULL || 'c'", "ac"),
            (f"CONCAT({BYTES_OF_A}, NULL, {BYTES_OF_A})", "YWE="),
        ),
        "a null is an empty text",
    ),
    Function(
        "CONCAT_WS", _FAMILY,
        (
            Signature(("text", "text", "text*"), "concat_ws({all})", k.STRING),
            Signature(("bytes", "bytes", "bytes*"), join_bytes, k.BYTES),
        ),
        (
            ("CONCAT_WS('-', 'a', 'b')", "a-b"), ("CONCAT_WS('-', 'a', CAST(NULL AS VARCHAR), 'c')", "a-c"),
            (f"CONCAT_WS({BYTES_OF_A}, {BYTES_OF_A}, NULL, {BYTES_OF_A})", "YWFh"),
        ),
        "nulls are left out; null if the separator is null",
    ),
    define_function(
        "REPLACE", _FAMILY, "text text text", _replace_text, k.STRING,
        ("REPLACE('foobar', 'oo', 'x')", "fxbar"), ("REPLACE('a.b.c', '.', '-')", "a-b-c"),
        ("REPLACE('abc', '', 'n')", "nanbncn"), ("REPLACE('', '', 'n')", "n"),
        ("REPLACE('a\nb', SUBSTRING('x', 2), '$1')", "$1a$1\n$1b$1"), ("REPLACE('aba', LCASE('A'), '')", "b"),
        ("REPLACE('a', '', CAST(NULL AS VARCHAR))", None), ("REPLACE(CAST(NULL AS VARCHAR), '', 'n')", None),
        ("REPLACE('a', 'a', CAST(NULL AS VARCHAR))", None),
    ),
    Function(
        "SPLIT", _FAMILY,
        (
            Signature(("text", "text"), _split_text, k.array_of(k.STRING)),
            Signature(("bytes", "bytes"), split_bytes, k.array_of(k.BYTES)),
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
    define_function(
        "SPLIT_TO_MAP", _FAMILY, "text text text", _split_to_map, k.map_of(k.STRING, k.STRING),
        ("SPLIT_TO_MAP('a=1,b=2', ',', '=')", {"a": "1", "b": "2"}),
        ("SPLIT_TO_MAP('a=1,x,a=3', ',', '=')", {"a": "3"}), ("SPLIT_TO_MAP('a=1=2', ',', '=')", {"a": "1"}),
        ("SPLIT_TO_MAP('a=1', '', '=')", None), ("SPLIT_TO_MAP('a', ',', '=')", {}),
        ("SPLIT_TO_MAP(CAST(NULL AS VARCHAR), ',', '=')", None),
        ("MAP_KEYS(SPLIT_TO_MAP('a=1,b=2,c=3,a=4', ',', '='))", ["b", "c", "a"]),
        ("ARRAY_LENGTH(MAP_KEYS(SPLIT_TO_MAP("
         "ARRAY_JOIN(TRANSFORM(GENERATE_SERIES(1, 4000), x => CAST(x AS VARCHAR) || '=1')), ',', '=')))", 4000),
    ),
    define_function(
        "REGEXP_EXTRACT", _FAMILY, "text text int?", _regexp_extract, k.STRING,
        ("REGEXP_EXTRACT('b(.)d', 'abcd', 1)", "c"), ("REGEXP_EXTRACT('b.', 'abcd')", "bc"),
        ("REGEXP_EXTRACT('x', 'abcd')", None), ("REGEXP_EXTRACT('(x)|b', 'abcd', 1)", None),
        ("REGEXP_EXTRACT('(x*)b', 'abcd', 1)", ""),
    ),
    define_function(
        "REGEXP_EXTRACT_ALL", _FAMILY, "text text int?", _regexp_extract_all, k.array_of(k.STRING),
        ("REGEXP_EXTRACT_ALL('[0-9]+', 'a1b22')", ["1", "22"]), ("REGEXP_EXTRACT_ALL('x', 'abcd')", []),
        ("REGEXP_EXTRACT_ALL('(x)|b', 'abxb', 1)", [None, "x", None]),
        differs="an empty array, not null, if nothing matches and the pattern has no such group; an empty text, not "
        "null, for a group that took no part in a match, if its number is not written out",
    ),
    define_function(
        "REGEXP_REPLACE", _FAMILY, "text text text", "regexp_replace({0}, {1}, {2})", k.STRING,
        ("REGEXP_REPLACE('foo123', '[0-9]+', '#')", "foo#"), ("REGEXP_REPLACE('a', 'b', CAST(NULL AS VARCHAR))", None),
    ),
    define_function(
        "REGEXP_SPLIT_TO_ARRAY", _FAMILY, "text text", _split_by_pattern, k.array_of(k.STRING),
        ("REGEXP_SPLIT_TO_ARRAY('a1b22c', '[0-9]+')", ["a", "b", "c"]),
        ("REGEXP_SPLIT_TO_ARRAY('a,,', ',')", ["a", "", ""]), ("REGEXP_SPLIT_TO_ARRAY('a b', '\\s*')", ["a", "", "b"]),
        ("REGEXP_SPLIT_TO_ARRAY('ab', '.*')", []), ("REGEXP_SPLIT_TO_ARRAY('a,,', SUBSTRING(',', 1))", ["a", "", ""]),
        ("REGEXP_SPLIT_TO_ARRAY('ab', '')", ["a", "b"]), ("REGEXP_SPLIT_TO_ARRAY('', 'x*')", [""]),
    ),
    Function(
        "CHR", _FAMILY,
        (Signature(("int",), _character_of_code, k.STRING), Signature(("text",), _unescape_text, k.STRING)),
        (
            ("CHR(75)", "K"), ("CHR(22909)", "\u597d"), ("CHR(-1)", None), ("CHR(55357)", "?"),
            ("CHR('\\u4e2d')", "\u4e2d"), ("CHR('x')", None), ("CHR('\\u0041b\\tc')", "Ab\tc"),
            ("CHR('b\\u0041')", None), ("CHR('\\u004')", None),
        ),
    ),
    define_function(
        "MASK", _FAMILY, f"text {_MASKS}", lambda value, *masks: _mask_text(value.text, masks), k.STRING,
        ("MASK('My Test $123')", "Xx-Xxxx--nnn"), ("MASK('Ab1', '*')", "*xn"), ("MASK(CAST(NULL AS VARCHAR))", None),
    ),
    define_function(
        "MASK_LEFT", _FAMILY, f"text int {_MASKS}", _mask_left, k.STRING, ("MASK_LEFT('My Test', 4)", "Xx-Xest"),
    ),
    define_function(
        "MASK_RIGHT", _FAMILY, f"text int {_MASKS}", _mask_right, k.STRING, ("MASK_RIGHT('Test12', 3)", "Tesxnn"),
    ),
    define_function(
        "MASK_KEEP_LEFT", _FAMILY, f"text int {_MASKS}", _keep_left, k.STRING,
        ("MASK_KEEP_LEFT('My Test', 4)", "My Txxx"),
    ),
    define_function(
        "MASK_KEEP_RIGHT", _FAMILY, f"text int {_MASKS}", _keep_right, k.STRING,
        ("MASK_KEEP_RIGHT('My Test', 4)", "Xx-Test"),
    ),
)  # fmt: skip
