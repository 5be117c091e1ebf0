"""A constant with which a call can't give a value is refused where it is declared; whatever may give one is not."""

from __future__ import annotations

import re

import pytest

import lakehouse as lh
from lakehouse.errors import ExpressionError, SqlError
from lakehouse.ksql.script import application

SCHEMA = "t string, at timestamp, day date, n int, f double, b binary, xs array<int>"
NEVER = [
    ("encode(t, 'nope')", "found 'nope', expected one of UTF-8"), ("decode(b, 'latin')", "expected one of UTF-8"),
    ("trunc(at, 'lunch')", "expected one of YEAR"), ("trunc(day, 'day')", "found 'day', expected one of YEAR"),
    ("date_trunc('lunch', at)", "expected one of YEAR"), ("timestampadd(LUNCH, 1, at)", "found LUNCH, expected one of"),
    ("datediff(lunch, at, at)", "expected one of YEAR"), ("next_day(day, 'luncheon')", "expected one of SU"),
    ("conv(t, 1, 10)", "a number from 2 to 36"), ("conv(t, 10, -99)", "found -99, expected a number from 2 to 36, or"),
    ("make_date(n, 13, 1)", "found 13, expected a number from 1 to 12"),
    ("make_timestamp(2026, 1, n, 24, 0, 0)", "from 0 to 23"), ("try_make_timestamp(2026, 1, 1, 0, 60, n)", "0 to 59"),
    ("sequence(1, n, 0)", "another number than 0"), ("sequence(day, day, interval 0 days)", "another number than 0"),
    ("regexp_extract(t, 'a(b)', 2)", "group 2 of a pattern with 1"), ("regexp_extract(t, 'a')", "pattern with none"),
    ("regexp_extract(t, '(', -1)", "the number of a group"), ("regexp_extract_all(t, 'a', 1)", "pattern with none"),
    ("regexp_replace(t, '(a)', '$2')", r"'\$2' in the replacement for a pattern with 1 groups"),
    ("regexp_replace(t, 'a', 'b$')", "a backslash before"), ("t LIKE 'a/b' ESCAPE '/'", "_, % or / behind each /"),
    (r"t LIKE 'a\\b'", "behind each"), ("t ILIKE '%/' ESCAPE '/'", "behind each /"),
    ("parse_url(t, 'host')", "found 'host', expected one of HOST"), ("try_parse_url(t, 'X')", "one of HOST"),
    ("get_json_object(t, 'a.b')", r"a path such as '\$.customer"), ("get_json_object(t, '$.a[')", "a path such as"),
    ("get_json_object(t, '$..a')", "a path such as"), ("sha2(t, 100)", "224, 256, 384 or 512"),
    ("split_part(t, ',', 0)", "another number than 0"), ("array_insert(xs, 0, 1)", "another number than 0"),
    ("slice(xs, 0, 1)", "another number than 0"), ("slice(xs, 1, -1)", "0 or more"), ("bit_get(n, 64)", "0 to 63"),
    ("width_bucket(f, 0, 9, 0)", "1 bucket or more"), ("log(0, f)", "a base above 0"), ("format_number(f, -1)", "0 or"),
    ("to_binary(t, 'nope')", "one of HEX"), ("aes_decrypt(b, 'short')", "16, 24 or 32 bytes"),
    ("cast('abc' AS int)", "a text that can be read as int"), ("try_cast('1,5' AS decimal(5, 2))", "read as decimal"),
    ("day > cast('2026-02-30' AS date)", "read as date"), ("to_date('lunch')", "read as date"),
    ("date'2026-13-01'", "read as date"), ("boolean('maybe')", "read as boolean"), ("bigint('x')", "read as bigint"),
    ("n / 0", "found 0, expected another number than 0"), ("try_divide(n, 0)", "another number"),
    ("f / 0.0", "found 0.0, expected another"),
    ("element_at(xs, 0)", "element_at counts from 1"),
    ("xs[-1]", r"element_at\(xs, -1\)"), ("make_date(2026, 2, 29)", "day 29 of month 2, expected a day up to 28"),
    ("make_date(n, 2, 30)", "up to 29"), ("make_timestamp(2026, 4, 31, 0, 0, 0)", "a day up to 30"),
    ("transform(xs, x -> conv(x, 10, 37))", "a number from 2 to 36"), ("day = '2026-02-30'", "null for nearly every"),
    ("at BETWEEN '2026-01-01' AND 'lunch'", "null for nearly every record"),
]  # fmt: skip
SOMETIMES = [
    "encode(t, 'utf-16le')", "decode(n, 1, 'one', 'other')", "trunc(at, 'Week')", "date_trunc('MILLISECOND', at)",
    "timestampadd(hour, 1, at)", "date_add(day, 1)", "next_day(day, 'tue')", "conv(t, 16, -10)", "conv(t, n, n)",
    "make_timestamp(2024, 2, 29, 23, 59, 60)", "make_timestamp(2026, 1, 1, 0, 0, 1.5)", "sequence(n, 0)",
    "sequence(9, n, -1)", "sequence(day, day, interval 1 month)", "regexp_extract(t, '(a)|(b)', 2)",
    "regexp_extract(t, 'a', n)", "regexp_extract(t, '(?<x>a)', 1)", r"regexp_extract(t, '\\Q(\\E(a)', 1)",
    r"regexp_replace(t, '(a)', '$1$0 \\$9 ${x}')", "t LIKE 'a/%b//' ESCAPE '/'", r"t LIKE '100\\%'", "t LIKE f",
    "parse_url(t, 'QUERY', 'a b')", "get_json_object(t, ' $ .a[0][*].b[\\'c d\\'].*')", "sha2(t, 0)",
    "get_json_object(t, '$[\"user-id\"]')", "get_json_object(t, '$.müller kg')", "slice(xs, -2, 0)",
    "log(10)", "log(2, f)", "format_number(f, '##.0')", "cast(' +1e3 ' AS int)", "cast('-.5d' AS double)",
    "double('0x1.8p1')",
    "cast('NaN' AS float)", "cast('Infinity' AS double)", "cast('2024-02-29' AS date)", "cast('2026' AS timestamp)",
    "cast('2026-1-2 03:04:05.678+02:00' AS timestamp)", "cast('-0044-03-15' AS date)", "cast('Y' AS boolean)",
    "cast('x' AS string)", "cast('x' AS binary)", "day = '2026-02-28'", "at > '2026-02-28T12:00:00Z'", "t = 'lunch'",
    "cast(null AS int)", "aes_decrypt(b, '0000111122223333')", "bit_get(n, 31)", "elt(3, t, t)",
    "n / f", "coalesce(n / 0, -1)", "n % 0", "n DIV 0", "n / 0.5", "mod(n, n)", "element_at(map(0, t), 0)",
    "map(-1, t)[-1]", "element_at(xs, -1)", "xs[0]", "make_date(n, 2, 29)", "make_date(n, n, 31)",
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), NEVER)
def test_a_constant_that_never_works_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=f"{re.escape(repr(text))}.*{message}"):
        lh.stream("s", key="id string", schema=SCHEMA).select(x=text)


@pytest.mark.parametrize("text", SOMETIMES)
def test_a_constant_that_may_work_is_taken(text: str) -> None:
    lh.stream("s", key="id string", schema=SCHEMA).select(x=text)


def test_sql_refuses_it_too() -> None:
    source = "CREATE STREAM s (id VARCHAR KEY, t VARCHAR) WITH (kafka_topic='s', value_format='JSON');"
    with pytest.raises((ExpressionError, SqlError), match="'abc', expected a text that can be read as int"):
        application(f"{source} CREATE TABLE g AS SELECT id, MAX(CAST('abc' AS INT)) AS n FROM s GROUP BY id;")
