"""Expressions in Python: they give what Spark gives, and say so where that can't be known."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf
from typing import Any

import pytest

import lakehouse as lh
from lakehouse.errors import NeedsSpark
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression.expression import Expression, parse_expression
from lakehouse.plan.expression.schema import Column
from lakehouse.testing import Replay

VALUES: dict[str, Any] = {
    "n": 7, "z": 0, "neg": -7, "d": 2.5, "nan": float("nan"), "big": 2**31, "low": -(2**31), "least": -(2**63),
    "s": "Paris", "blank": "  x ", "list": [5],
    "t": True, "f": False, "nothing": None, "price": Decimal("1.10"), "who": {"First": "Ada", "last": None},
    "at": datetime(2020, 1, 1, tzinfo=UTC),
}  # fmt: skip

GIVES: list[tuple[str, Any]] = [
    *((f"conv('11', 2, {base})", None) for base in ("n - 6", "z", "neg + 6", "n + 30", "neg - 30")),
    *((f"conv('11', {base}, 10)", None) for base in ("n - 6", "z", "neg", "n + 30")), ("conv('11', n, neg)", "11"),
    ("array_size(nothing)", None), ("size(nothing)", -1), ("forall(array(1, null), y -> y < 5)", None),
    ("forall(array(9, null), y -> y < 5)", False), ("try_cast(4e9 AS int)", None), ("CAST(4e9 AS int)", None),
    ("try_cast(70000 AS smallint)", None), ("try_cast('1.9' AS int)", None), ("try_cast(-1.9e0 AS bigint)", -1),
    ("'a%b' LIKE 'a/%%' ESCAPE '/'", True), ("'axb' NOT LIKE 'a/%%' ESCAPE '/'", True),
    ("decode(encode(s, 'utf-8'), 'utf-8')", "Paris"), ("map('a', 1)['a']", 1), ("array(1, 2)[1]", 2), ("list[0]", 5),
    ("""get_json_object('{"user-id": "x"}', '$["user-id"]')""", "x"),
    ("""get_json_object('{"user-id": {"b": [7]}}', "$['user-id'].b[0]")""", "7"), ("struct(n, 1)", {"n": 7, "col2": 1}),
    ("named_struct('a', n).a", 7), ("equal_null(nothing, null)", True), ("ucase(s)", "PARIS"), ("nvl(nothing, n)", 7),
    ("'a_c' LIKE 'a\\\\_c'", True), ("'abc' LIKE 'a\\\\_c'", False),
    ("'abc' LIKE 'a%'", True), ("'abc' NOT LIKE 'a%'", False),
    ("9223372036854775808", Decimal(2**63)), ("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775809", Decimal(-(2**63) - 1)), ("-9223372036854775808 - 1", 2**63 - 1),
    ("n < 9223372036854775808", True), ("cast(9223372036854775808 AS bigint)", None),
    ("least div -1", -(2**63)),
    ("7 div -2", -3), ("transform(array(1, 2), x -> x + 1)", [2, 3]), ("try_element_at(map('a', 1), 'a')", 1),
    ("try_element_at(array(1, 2), -1)", 2), ("try_element_at(array(1, 2), -3)", None),
    ("aggregate(array(1, 2), 0, (s, x) -> s + x)", 3), ("get(array(1, 2), 5) IS NULL", True), ("null <=> 1", False),
    ("filter(array(1, null, 3), x -> x > 1)", [3]), ("concat_ws('-', 'a', null, 'b')", "a-b"),
    ("try_element_at(array(1, 2, 3), -1)", 3), ("try_element_at(array(1, 2, 3), -4)", None),
    ("try_element_at(array(1, 2, 3), 4)", None), ("size(nothing)", -1), ("size(array(1))", 1),
    ("exists(array(1, null), x -> x > 5)", None), ("exists(array(1, null), x -> x > 0)", True),
    ("exists(array(1), x -> x > 5)", False), ("chr(0)", "\0"), ("chr(-1)", ""),
    ("pmod(-7, -3)", -1), ("pmod(-7, 3)", 2),
    ("pmod(7, -3)", 1), ("pmod(7, 0)", None), ("floor(-1.5e0)", -2), ("floor(1e300)", 2**63 - 1),
    ("ceil(-1e300)", -(2**63)),
    ("N", 7), ("n + 1", 8), ("n - 1", 6), ("n * 2", 14), ("n / 2", 3.5), ("-n", -7), ("n / z", None), ("n % z", None),
    ("n % 4", 3), ("neg % 4", -3), ("n + d", 9.5), ("n + nothing", None), ("big * big * 2 + big", -(2**63) + 2**31),
    ("n = 7", True), ("n <> 7", False), ("n > d", True), ("price > d", False), ("s < 'Q'", True), ("n = nothing", None),
    ("price = 1.1e0", True), ("t AND nothing", None), ("f AND nothing", False), ("t OR nothing", True),
    ("f OR nothing", None), ("NOT nothing", None), ("NOT f", True), ("nothing IS NULL", True), ("n IS NOT NULL", True),
    ("t IS TRUE", True), ("nothing IS TRUE", False), ("n IN (1, 7)", True), ("n IN (1, NULL)", None),
    ("n IN (1, 2)", False), ("nothing IN (1)", None), ("n NOT IN (1, NULL)", None), ("n BETWEEN 7 AND 9", True),
    ("n BETWEEN NULL AND 3", False), ("n NOT BETWEEN NULL AND 3", True), ("n BETWEEN NULL AND 9", None),
    ("coalesce(nothing, s)", "Paris"), ("coalesce(nothing, nothing)", None), ("who.first", "Ada"), ("who.last", None),
    ("nothing.x", None), ("upper(s)", "PARIS"), ("lower(s)", "paris"), ("length(s)", 5), ("trim(blank)", "x"),
    ("concat(s, '-', n)", "Paris-7"), ("concat(s, nothing)", None), ("s || t", "Paristrue"), ("abs(neg)", 7),
    ("substring(s, 2)", "aris"), ("substring(s, 2, 2)", "ar"), ("substring(s, 0, 2)", "Pa"),
    ("substring(s, -3)", "ris"), ("substring(s, -3, 2)", "ri"), ("substring(s, -7, 3)", "P"),
    ("substring(s, cast(-2147483648 AS int))", "Pari"),
    ("substring(s, 2, -1)", ""), ("substring(s, 9)", ""), ("struct(n, s AS town)", {"n": 7, "town": "Paris"}),
    ("CASE WHEN n > 9 THEN 'big' WHEN n > 5 THEN 'mid' END", "mid"), ("CASE WHEN nothing THEN 1 ELSE 2 END", 2),
    ("CASE WHEN f THEN 1 END", None), ("CAST('42' AS int)", 42), ("CAST(' 42 ' AS bigint)", 42),
    ("CAST('1.9' AS int)", 1), ("CAST('x' AS int)", None), ("CAST('-.5' AS int)", 0),
    ("CAST('2020-02-30' AS date)", None),
    ("CAST('1_0' AS int)", None), ("CAST('' AS int)", None),
    ("CAST('2147483648' AS int)", None), ("CAST(big AS int)", None), ("CAST(d AS int)", 2),
    ("CAST(nan AS bigint)", None), ("CAST(1e30 AS bigint)", None), ("CAST(t AS int)", 1),
    ("CAST(big AS bigint)", 2**31), ("CAST(-129 AS tinyint)", None), ("CAST(-128 AS tinyint)", -128),
    ("CAST(price AS int)", 1), ("CAST('1e-999999999' AS decimal(5, 2))", Decimal("0.00")),
    ("CAST('1e999999999' AS decimal(5, 2))", None), ("CAST(big * 1000000 AS timestamp)", None),
    ("CAST(big AS timestamp)", datetime(2038, 1, 19, 3, 14, 8, tzinfo=UTC)),
    ("CAST('1.5e1' AS double)", 15.0), ("CAST('x' AS double)", None), ("CAST(n AS double)", 7.0),
    ("CAST(n AS string)", "7"), ("CAST(d AS string)", "2.5"), ("concat(d * 4, s)", "10.0Paris"),
    ("CAST(1.50 AS string)", "1.50"), ("CAST(1e30 AS string)", "1.0E30"), ("greatest(1.5, NULL, 2.5)", Decimal("2.5")),
    ("array_sort(array(2.5e0, NULL, 1e0))", [1.0, 2.5, None]), ("array_distinct(array(1.5, 1.5))", [Decimal("1.5")]),
    ("array_sort(array(1, 3, 2), (a, b) -> b - a)", [3, 2, 1]), ("split('a1b2', '([0-9])')", ["a", "b", ""]),
    ("nullif(s, 'Paris')", None), ("nullif(s, 'Rome')", "Paris"), ("sqrt(-1e0) IS NULL", False), ("exp(1e3)", inf),
    ("sinh(-1e3)", -inf), ("power(10, 400)", inf), ("power(-10, 401)", -inf), ("power(0, -1)", inf),
    ("date_format(to_timestamp('1-Feb-24 03:05 pm', 'd-MMM-yy hh:mm a'), 'yyyy-MM-dd HH:mm X')", "2024-02-01 15:05 Z"),
    ("date_format(to_timestamp('10:00+0130', 'HH:mmX'), 'HH:mm')", "08:30"), ("to_timestamp('13 am', 'hh a')", None),
    ("date_format(from_utc_timestamp(to_timestamp('10', 'HH'), '+0530'), 'HH:mm')", "15:30"),
    ("try_parse_json('[1')", None), ("schema_of_variant(try_parse_json('[1.50, 2]'))", "ARRAY<VARIANT>"),
    ("cast(cast(try_parse_json('[7]') AS array<variant>)[0] AS bigint)", 7),
    ("from_json('{\"a\": [1, 2.50], \"b\": null}', 'map<string, string>')", {"a": "[1,2.5]", "b": None}),
    ("from_json('{}', 'array<string>')", None), ("to_json(array(1.50, NULL))", "[1.50,null]"),
    ("to_json(array('\u001f\"'))", '["\\u001F\\""]'),
    ("try_parse_url('https://a.org:80/x?q=1#f', 'HOST')", "a.org"), ("try_parse_url('a b', 'HOST')", None),
    ("try_parse_url('https://a.org/?x=1&y=2', 'QUERY', 'y')", "2"), ("try_url_decode('%zz')", None),
    ("try_url_decode('%+5%\u0664\uff21%ed%a0%80')", "\x05J\ufffd"), ("try_url_decode('%-1')", None),
    ("url_encode('a b~*')", "a+b%7E*"), ("transform(array(date'1970-01-02'), x -> unix_date(x))", [1]),
    ("nan > n", True), ("nan = nan", True), ("CAST('2020-1-1' AS date)", date(2020, 1, 1)),
    ("CAST('1d' AS double)", 1.0), ("CAST('-.' AS int)", 0), ("CAST('\x7f7.' AS bigint)", 7),
    ("try_cast(-128.9e0 AS tinyint)", -128), ("try_cast(-129e0 AS tinyint)", None),
    ("try_cast(9223372036854775807e0 AS bigint)", 2**63 - 1), ("try_cast(-1e19 AS bigint)", None),
    ("CAST('+' AS int)", None), ("initcap('aΣ b')", "Aς B"),
    ("timestamp_millis(9999999999999999)", None), ("date_from_unix_date(99999999)", None),
    ("decode(unhex('ff'), 'UTF-8')", None), ("cast(-5.5 AS double) % 2", -1.5),
 ("CAST(t AS string)", "true"), ("CAST(nothing AS string)", None),
    ("struct(1 AS A) = struct(1 AS a)", True), ("array(struct(1 AS A)) <=> array(struct(1 AS a))", True),
    ("struct('x' AS First) IN (struct('y' AS first), struct('x' AS FIRST))", True),
    (r"""json_object_keys('{"\\ud83d": 1}')""", ["?"]), (r"""get_json_object('{"b": "\\ud83d"}', '$.b')""", None),
    (r"""get_json_object('["\\ud83d", "\\ud83d\\ude00"]', '$')""", r'["\uD83D","\uD83D\uDE00"]'),
    (r"""from_json('{"\\ud83d": "\\ude00"}', 'map<string, string>')""", {"?": "?"}),
    (r"""from_json('[["\\ude00", "\\ud83d\\ude00"]]', 'array<string>')""", [r'["\uDE00","\uD83D\uDE00"]']),
    (r"""schema_of_variant(try_parse_json('{"b": "\\ud83d"}'))""", None), ("decode(unhex('0000D83D'), 'UTF-32')", "?"),
    ("cast(cast('9223372036854775808' AS decimal(19, 0)) AS bigint)", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), GIVES, ids=[text for text, _ in GIVES])
def test_gives(text: str, expected: Any) -> None:
    actual = evaluate(Expression(text), VALUES)
    assert actual == expected
    assert type(actual) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "date_format(at, 'YYYY')", "date_format(at, 'YY')", "to_char(at, 'yyyy')", "to_char(n, '9999')",
        """get_json_object('{"b": 1} and more', '$.b')""", """get_json_object('{"b": 1, "b": 2}', '$.b')""",
        "get_json_object(s, '$.b[*]')", "json_array_length('[1] [2]')", "decode(unhex('00'), 'utf-7')", "'it''s'",
        "sha2(s, 256)", "ltrim(blank)", "trim(BOTH 'x' FROM blank)", "price + 1", "price / 2", "n = s",
        "n = t",
        "2147483647 + n", "-2147483648 - 1", "CASE n WHEN 7 THEN 1 END", "at > s",
        "transform(array(10, 20), (x, i) -> x + i)", "filter(array(10, 20), (x, i) -> i > 0)",
        "aggregate(array(1, 2), 0, (s, x) -> s + x, s -> s * 10)", "floor(d, 1)", "replace(s, 'a')", "lpad(s, 9)",
        "sequence(date'2020-01-01', date'2020-01-03')", "greatest(n, s)", "length(n)", "upper(n)", "substring(n, 1)",
        "try_element_at(array(1), 0)",
        "pmod(d, 2)", "array(n, s)", "array(n, d)", "abs(low)", "-low", "n IS TRUE", "s IS NOT FALSE", "d IS TRUE",
        "filter(list, x -> x)", "exists(list, x -> x - 4)", "forall(list, x -> x)",
        "map_filter(map('a', n), (k, v) -> v)",
        "map('1', 5)[1]", "try_element_at(map('1', 5), 1)", "map(1, 5)['1']", "map_contains_key(map('1', 5), n)",
        "NOT list[0]", "t AND list[0]", "list[0] OR f", "CASE WHEN list[0] THEN 1 END", "if(who.first, 1, 2)",
    ],
)  # fmt: skip
def test_says_that_it_needs_spark_rather_than_guess(text: str) -> None:
    with pytest.raises(NeedsSpark, match="Spark"):
        evaluate(Expression(text), VALUES)


TYPED = [Column("i", "int"), Column("d", "double"), Column("h", "smallint"), Column("p", "decimal(10, 2)"),
         Column("s", "array<int>")]  # fmt: skip


@pytest.mark.parametrize("text", ["coalesce(d, i)", "if(true, i, d)", "CASE WHEN true THEN i ELSE d END",
                                  "greatest(d, i)", "array(i, d)[0]", "if(true, i, d * 2)",
                                  "coalesce(i * array_size(array(1)), d)", "coalesce(cardinality(s), d * 2)",
                                  "CASE WHEN true THEN array_size(s) ELSE d END"])  # fmt: skip
def test_values_of_which_one_is_given_have_one_type(text: str) -> None:
    value = evaluate(parse_expression(text, TYPED, text), {"i": 7, "d": None, "s": [0] * 7})
    assert (value, type(value)) == (7.0, float)


@pytest.mark.parametrize("text", ["if(true, 1, p)", "coalesce(p, d)", "h * h", "-h", "abs(h)", "array(i, 'x')"])
def test_types_that_the_model_does_not_put_together_need_spark(text: str) -> None:
    with pytest.raises(NeedsSpark, match="Spark"):
        evaluate(parse_expression(text, TYPED, text), {"i": 7, "d": 1.0, "h": 300, "p": Decimal("1.10")})


def test_the_next_step_reads_a_long_literal_as_a_bigint() -> None:
    numbers = lh.stream("s", key="id string", schema="i int").select(v="coalesce(i, 0) + 3000000000")
    replay = Replay(lh.app(numbers.select(w="v + 1").latest("t")))
    replay.send("s", key="a", value={"i": 7})
    assert replay.run().row("t", "a")["w"] == 3_000_000_008
