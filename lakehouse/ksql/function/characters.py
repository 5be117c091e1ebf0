"""Functions that count characters as Java does: one beyond the basic plane is two. The same functions for bytes."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse.ksql.function.in_bytes import BYTES_OF_A
from lakehouse.ksql.function.record import Function, Signature, define_function
from lakehouse.ksql.function.sql import Sql, let_sql
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"


def _substring(source: Sql, start: Sql, length: Sql | None = None) -> str:
    """Return SUBSTRING of a text; positions are counted as in Java."""
    return let_sql(
        f"ksql_length({source.text})",
        "_long",
        lambda text_length: _substring_sql(source.text, text_length, start, length),
    )


def _substring_sql(source: str, text_length: str, start: Sql, length: Sql | None) -> str:
    known_start = None if start.literal is None else int(start.literal)
    from_end, from_start = (
        f"greatest({text_length} + {start.text}, 0)",
        f"greatest(least({start.text} - 1, {text_length}), 0)",
    )
    begin = (
        f"CASE WHEN {start.text} < 0 THEN {from_end} ELSE {from_start} END"
        if known_start is None
        else from_start
        if known_start >= 0
        else from_end
    )
    if length is None:
        substring = f"ksql_substring({source}, {begin}, {text_length})"
    else:
        end = f"least(({begin}) + cast({length.text} AS bigint), {text_length})"
        substring = f"ksql_substring({source}, {begin}, greatest({end}, {begin}))"
    # Spark's GREATEST and LEAST skip nulls.
    present_checks = [
        f"{argument.text} IS NOT NULL"
        for argument in (start, length)
        if argument is not None and argument.literal is None
    ]
    return f"CASE WHEN {' AND '.join(present_checks)} THEN {substring} END" if present_checks else substring


def _bytes_substring(source: Sql, start: Sql, length: Sql | None = None) -> str:
    begin = start.text
    if start.literal is None or int(start.literal) < 0:
        begin = f"CASE WHEN {begin} < 0 THEN greatest(length({source.text}) + {begin} + 1, 1) ELSE {begin} END"
    return f"substring({source.text}, {begin}{f', {length.text}' if length else ''})"


def _instr_sql(source: Sql, part: Sql, start: Sql | None = None, occurrence: Sql | None = None) -> str:
    """Return the position of a part; with a negative start the search and the count of occurrences go from the end."""
    occurrence_number = "1" if occurrence is None else occurrence.text
    text_length, begin = f"ksql_length({source.text})", "1" if start is None else start.text
    forward = let_sql(
        f"ksql_find({source.text}, {part.text}, {begin} - 1, {occurrence_number})", "_place",
        lambda place: f"CASE WHEN {place} >= 0 THEN {place} + {begin} ELSE 0 END",
    )  # fmt: skip
    backward = let_sql(
        f"ksql_find(ksql_reverse({source.text}), ksql_reverse({part.text}), -({begin}) - 1, {occurrence_number})",
        "_place",
        lambda place: (
            f"CASE WHEN {place} >= 0 THEN {text_length} + ({begin}) - {place} - ksql_length({part.text}) + 2 ELSE 0 END"
        ),
    )  # fmt: skip
    place_sql = f"CASE WHEN {begin} < 0 THEN {backward} ELSE {forward} END"
    if start is None:
        place_sql = forward
    elif start.literal is not None:
        place_sql = backward if int(start.literal) < 0 else forward
    return f"coalesce(CASE WHEN abs({begin}) <= {text_length} THEN cast({place_sql} AS int) END, 0)"


def _pad_bytes(side: str) -> str:
    return f"CASE WHEN {{1}} >= 0 AND length({{2}}) > 0 THEN {side}({{0}}, {{1}}, {{2}}) END"


def _pad_text(side: str) -> Callable[..., str]:
    """Return LPAD or RPAD of a text; characters are counted as in Java."""

    def compile_call(source: Sql, padded_length: Sql, fill_value: Sql) -> str:
        missing_length = f"greatest({padded_length.text} - ksql_length({source.text}), 0)"
        repeat_count = f"cast({missing_length} div ksql_length({fill_value.text}) AS int) + 1"
        fill_text = f"ksql_substring(repeat({fill_value.text}, {repeat_count}), 0, {missing_length})"
        padded_text = f"concat({fill_text}, {source.text})" if side == "lpad" else f"concat({source.text}, {fill_text})"
        is_valid = f"{padded_length.text} >= 0 AND length({fill_value.text}) > 0"
        return f"CASE WHEN {is_valid} THEN ksql_substring({padded_text}, 0, {padded_length.text}) END"

    return compile_call


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "LEN", _FAMILY,
        (Signature(("text",), "ksql_length({0})", k.INTEGER), Signature(("bytes",), "length({0})", k.INTEGER)),
        (("LEN('abc')", 3), ("LEN('')", 0), ("LEN('\U0001d11ekey')", 5), ("LEN(CAST(NULL AS VARCHAR))", None)),
    ),
    Function(
        "SUBSTRING", _FAMILY,
        tuple(
            Signature((type_name, "int", "int?"), part, kind)
            for type_name, part, kind in (("text", _substring, k.STRING), ("bytes", _bytes_substring, k.BYTES))
        ),
        (
            ("SUBSTRING('stream', 1, 4)", "stre"), ("SUBSTRING('stream', 2)", "tream"),
            ("SUBSTRING('stream', -2)", "am"), ("SUBSTRING('abc', -5, 2)", "ab"), ("SUBSTRING('abc', 9)", ""),
            ("SUBSTRING('\U0001d11ekey', 3, 2)", "ke"), ("SUBSTRING('abc', 0, 2)", "ab"),
            ("SUBSTRING('abc', 2, -1)", ""), ("SUBSTRING('abc', 9223372036854775807)", ""),
            ("SUBSTRING(CAST(NULL AS VARCHAR), 1)", None), ("SUBSTRING('abc', NULL)", None),
            ("SUBSTRING('abc', CAST(NULL AS INT))", None), ("SUBSTRING('abc', 1, CAST(NULL AS INT))", None),
            ("SUBSTRING(TO_BYTES('cab', 'utf8'), 2, 1)", "YQ=="),
        ),
    ),
    define_function(
        "INSTR", _FAMILY, "text text int? int?", _instr_sql, k.INTEGER,
        ("INSTR('CORPORATE FLOOR', 'OR')", 2), ("INSTR('CORPORATE FLOOR', 'OR', 3)", 5),
        ("INSTR('CORPORATE FLOOR', 'OR', 3, 2)", 14), ("INSTR('CORPORATE FLOOR', 'OR', -3)", 5),
        ("INSTR('CORPORATE FLOOR', 'OR', -3, 2)", 2), ("INSTR('abc', 'x')", 0), ("INSTR('abc', 'a', 1, 2)", 0),
        ("INSTR('\U0001d11ekey', 'e')", 4), ("INSTR('abc', 'a', -9)", 0),
        ("INSTR(CAST(NULL AS VARCHAR), 'x')", 0), nulls="0 for null",
    ),
    *(
        Function(
            name, _FAMILY,
            tuple(
                Signature((type_name, "int", type_name), padded(name.lower()), kind)
                for type_name, padded, kind in (("text", _pad_text, k.STRING), ("bytes", _pad_bytes, k.BYTES))
            ),
            cases,
        )
        for name, cases in (
            ("LPAD", (
                ("LPAD('foo', 7, 'Bar')", "BarBfoo"), ("LPAD('foo', 2, 'Bar')", "fo"), ("LPAD('foo', -1, 'x')", None),
                ("LPAD('foo', 4, '')", None), ("LPAD('\U0001d11ekey', 6, '-')", "-\U0001d11ekey"),
                (f"LPAD({BYTES_OF_A}, 2, TO_BYTES('b', 'utf8'))", "YmE="),
            )),
            ("RPAD", (
                ("RPAD('foo', 7, 'Bar')", "fooBarB"), ("RPAD('\U0001d11ekey', 6, '-')", "\U0001d11ekey-"),
                ("RPAD('foo', 2, 'Bar')", "fo"),
                ("RPAD(CAST(NULL AS VARCHAR), 2, 'x')", None),
                (f"RPAD({BYTES_OF_A}, 2, TO_BYTES('b', 'utf8'))", "YWI="),
            )),
        )
    ),
)  # fmt: skip
