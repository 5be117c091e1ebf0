"""Texts whose characters are counted as in Java, where one beyond the basic plane is two; and the same of bytes."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse.ksql.function.in_bytes import A
from lakehouse.ksql.function.record import Function, Signature, function
from lakehouse.ksql.function.sql import Sql, let
from lakehouse.ksql.syntax import kind as k

_FAMILY = "Texts and bytes"


def _part(of: Sql, start: Sql, length: Sql | None = None) -> str:
    """SUBSTRING of a text: places are counted as in Java, where a character beyond the basic plane is two."""
    return let(f"ksql_length({of.text})", "_long", lambda long: _cut(of.text, long, start, length))


def _cut(of: str, long: str, start: Sql, length: Sql | None) -> str:
    known = None if start.literal is None else int(start.literal)
    back, forth = f"greatest({long} + {start.text}, 0)", f"greatest(least({start.text} - 1, {long}), 0)"
    begin = (
        f"CASE WHEN {start.text} < 0 THEN {back} ELSE {forth} END" if known is None else forth if known >= 0 else back
    )
    if length is None:
        made = f"ksql_substring({of}, {begin}, {long})"
    else:
        end = f"least(({begin}) + cast({length.text} AS bigint), {long})"
        made = f"ksql_substring({of}, {begin}, greatest({end}, {begin}))"
    # Spark's GREATEST and LEAST pass over a null.
    there = [f"{one.text} IS NOT NULL" for one in (start, length) if one is not None and one.literal is None]
    return f"CASE WHEN {' AND '.join(there)} THEN {made} END" if there else made


def _bytes_part(of: Sql, start: Sql, length: Sql | None = None) -> str:
    begin = start.text
    if start.literal is None or int(start.literal) < 0:
        begin = f"CASE WHEN {begin} < 0 THEN greatest(length({of.text}) + {begin} + 1, 1) ELSE {begin} END"
    return f"substring({of.text}, {begin}{f', {length.text}' if length else ''})"


def _instr(of: Sql, part: Sql, start: Sql | None = None, occurrence: Sql | None = None) -> str:
    """The place of a part; with a negative start it is looked for, and the occurrences are counted, from the end."""
    number = "1" if occurrence is None else occurrence.text
    long, begin = f"ksql_length({of.text})", "1" if start is None else start.text
    forward = let(
        f"ksql_find({of.text}, {part.text}, {begin} - 1, {number})", "_place",
        lambda place: f"CASE WHEN {place} >= 0 THEN {place} + {begin} ELSE 0 END",
    )  # fmt: skip
    backward = let(
        f"ksql_find(ksql_reverse({of.text}), ksql_reverse({part.text}), -({begin}) - 1, {number})", "_place",
        lambda place: (
            f"CASE WHEN {place} >= 0 THEN {long} + ({begin}) - {place} - ksql_length({part.text}) + 2 ELSE 0 END"
        ),
    )  # fmt: skip
    made = f"CASE WHEN {begin} < 0 THEN {backward} ELSE {forward} END"
    if start is None:
        made = forward
    elif start.literal is not None:
        made = backward if int(start.literal) < 0 else forward
    return f"coalesce(CASE WHEN abs({begin}) <= {long} THEN cast({made} AS int) END, 0)"


def _padded(side: str) -> str:
    return f"CASE WHEN {{1}} >= 0 AND length({{2}}) > 0 THEN {side}({{0}}, {{1}}, {{2}}) END"


def _padded_text(side: str) -> Callable[..., str]:
    """LPAD or RPAD of a text, whose characters are counted as in Java."""

    def made(of: Sql, long: Sql, fill: Sql) -> str:
        missing = f"greatest({long.text} - ksql_length({of.text}), 0)"
        times = f"cast({missing} div ksql_length({fill.text}) AS int) + 1"
        more = f"ksql_substring(repeat({fill.text}, {times}), 0, {missing})"
        whole = f"concat({more}, {of.text})" if side == "lpad" else f"concat({of.text}, {more})"
        inside = f"{long.text} >= 0 AND length({fill.text}) > 0"
        return f"CASE WHEN {inside} THEN ksql_substring({whole}, 0, {long.text}) END"

    return made


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "LEN", _FAMILY,
        (Signature(("text",), "ksql_length({0})", k.INTEGER), Signature(("bytes",), "length({0})", k.INTEGER)),
        (("LEN('abc')", 3), ("LEN('')", 0), ("LEN('\U0001d11ekey')", 5), ("LEN(CAST(NULL AS VARCHAR))", None)),
    ),
    Function(
        "SUBSTRING", _FAMILY,
        tuple(
            Signature((of, "int", "int?"), part, kind)
            for of, part, kind in (("text", _part, k.STRING), ("bytes", _bytes_part, k.BYTES))
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
    function(
        "INSTR", _FAMILY, "text text int? int?", _instr, k.INTEGER,
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
                Signature((of, "int", of), padded(name.lower()), kind)
                for of, padded, kind in (("text", _padded_text, k.STRING), ("bytes", _padded, k.BYTES))
            ),
            cases,
        )
        for name, cases in (
            ("LPAD", (
                ("LPAD('foo', 7, 'Bar')", "BarBfoo"), ("LPAD('foo', 2, 'Bar')", "fo"), ("LPAD('foo', -1, 'x')", None),
                ("LPAD('foo', 4, '')", None), ("LPAD('\U0001d11ekey', 6, '-')", "-\U0001d11ekey"),
                (f"LPAD({A}, 2, TO_BYTES('b', 'utf8'))", "YmE="),
            )),
            ("RPAD", (
                ("RPAD('foo', 7, 'Bar')", "fooBarB"), ("RPAD('\U0001d11ekey', 6, '-')", "\U0001d11ekey-"),
                ("RPAD('foo', 2, 'Bar')", "fo"),
                ("RPAD(CAST(NULL AS VARCHAR), 2, 'x')", None), (f"RPAD({A}, 2, TO_BYTES('b', 'utf8'))", "YWI="),
            )),
        )
    ),
)  # fmt: skip
