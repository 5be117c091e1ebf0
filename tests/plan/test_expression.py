"""Expressions are checked where they are declared: functions, conditions, comparisons, and moments of the clock."""

from __future__ import annotations

import re

import pytest

import lakehouse as lh
from lakehouse.errors import ExpressionError
from lakehouse.plan.expression.expression import expression_type, parse_expression

SCHEMA = (
    "status string, amount decimal(10, 2), n int, big bigint, x double, flag boolean, day date, at timestamp, "
    "tags array<string>, who struct<name: string, age: int>, marks map<string, int>, raw binary"
)
things = lh.stream("things", key="id string", schema=SCHEMA)

WRONG_NAMES = [
    ("uper(status)", r"Spark has no function 'uper'. Did you mean upper\?"),
    ("lenght(status)", r"no function 'lenght'. Did you mean length\?"),
    ("`uper`(status)", "no function 'uper'"),
    ("safe_divide(n, 2)", "no function 'safe_divide'"),
    ("regexp_contains(status, 'a')", "no function 'regexp_contains'"),
    ("upper(nothing_like_it_at_all(status))", "no function 'nothing_like_it_at_all'"),
    ("system.builtin.upper(status)", r"found upper\(\) after a dot; expected upper\(...\)"),
]
NOT_KEPT = [
    "aes_encrypt(raw, raw)", "uuid()", "`uuid`()", "rand()", "now()", "current_date", "current_timestamp()",
    "unix_timestamp()", "unix_timestamp( )", "localtimestamp()", "version()", "collations()", "python_worker_logs()",
    "sum(n)", "count(*)", "row_number()", "theta_sketch_agg(n)", "st_asbinary(raw)", "explode(tags)", "try_sum(n)",
]  # fmt: skip
CLOCKS = [
    "timestamp'now'", "date'today'", "timestamp 'tomorrow'", "cast('yesterday' AS date)", "cast('12:30' AS timestamp)",
    "timestamp'T12:30'", "to_timestamp('12:30')", "to_timestamp('now')", "date('today')", "timestamp(' Now ')",
    "coalesce('12:30', at)", "CASE WHEN n = 1 THEN at ELSE '12:30' END", "if(n = 1, 'T12:30', at)",
    "ifnull(at, '1:2')", "CASE at WHEN '12:30' THEN 1 END", "nvl2(n, at, '12:30')", "timestampadd(HOUR, 1, '12:30')",
    "timestampdiff(HOUR, '12:30', at)", "try_to_timestamp('12:30')",
    "cast('today UTC' AS timestamp)", "coalesce(at, timestamp'now')", "hour('12:30:00')", "'now'::timestamp",
    "timestamp_ntz'now'", "to_date('today')", "CASE WHEN flag THEN date'today' ELSE day END",
]  # fmt: skip
COMPARISONS = [
    ("status = 5", "compares status, a string, with 5, a int"),
    ("5 < status", "compares status, a string"),
    ("status IN ('paid', 5)", "compares status, a string, with 5"),
    ("status BETWEEN 1 AND 2", "compares status, a string, with 1"),
    ("upper(status) = n", "with n, a int"),
    ("n = 'paid'", "compares 'paid', a string, with n, a int: that is null for nearly every record. Write a number."),
    ("rowtime > '2026-01-31'", r"Write unix_millis\(timestamp'2026-01-31'\) for its milliseconds"),
    ("status = n", r"Write cast\(status AS double\)\.$"),
    ("amount > 'much'", "compares 'much', a string"),
    ("tags = 1", "compares tags, a array<string>, with 1"),
    ("at > 5", r"unix_millis\(at\)"),
    ("day = 20130101", r"unix_millis\(day\)"),
    ("status > at", r"Write cast\(status AS timestamp\)"),
    ("at > 'now'", "which depends on when it is read"),
    ("day >= 'yesterday'", "which depends on when it is read"),
    ("at BETWEEN '12:30' AND '2020-01-01'", "which depends on when it is read"),
    ("NOT (flag AND status = 5)", "compares status"),
    ("coalesce('12:30', at) > at", "compares COALESCE.*, a string, with a timestamp"),
    ("CASE status WHEN at THEN true END", r"Write cast\(status AS timestamp\)"),
    ("from_json(status, 'a timestamp').a > at", r"timestamps with from_json\(\)"),
    ("from_csv(status, 'n int, a array<timestamp>').n = 1", r"timestamps with from_csv\(\)"),
    ("from_xml(status, 'a timestamp_ltz').a > at", r"give a timestampFormat"),
]
STRUCTS = [
    "cast(who AS struct<name string, age smallint>)", "who::struct<name string, age smallint>",
    "cast(named_struct('a', array(big)) AS struct<a: array<int>>)", "try_cast(struct(status) AS struct<a timestamp>)",
    "cast(array(struct(n)) AS array<struct<a tinyint>>)", "cast(map('a', struct(n)) AS map<string, struct<a tinyint>>)",
    "transform(array(struct(big)), x -> cast(x AS struct<a: decimal(4, 2)>))",
]  # fmt: skip
CONDITIONS = ["amount", "status", "n + 1", "day", "upper(status)", "tags", "count", "-n", "coalesce(n, 0)"]
PARTS_OF_CONDITIONS = [
    ("NOT n", "takes n, a int, for a condition. Write one, such as n <> 0"),
    ("flag AND status", "takes status, a string, for a condition. Write one, such as status IS NOT NULL"),
    ("if(n, flag, flag)", "takes n, a int"), ("CASE WHEN amount THEN flag END", "takes amount, a decimal(10, 2)"),
    ("if(flag OR at, 1, 2) = 1", "takes at, a timestamp"), ("NOT (n + 1)", "for a condition"),
]  # fmt: skip
LITERALS = [
    ("status LIKE 'a' ESCAPE 'bc'", "ESCAPE 'bc': expected one character"),
    ("status LIKE 'a' ESCAPE ''", "ESCAPE '': expected one character"),
    ("status NOT LIKE 'a' ESCAPE '𝄞'", "expected one character"),
    (f"n > {'9' * 39}", "a number of 39 digits; a DECIMAL has at most 38"),
]
# What Spark accepts, with a meaning of its own, keeps working.
TAKEN = [
    "n = '5'", "amount > '1.50'", "n = 5.0", "x = 1", "big > n", "amount = x", "flag = true", "flag", "NOT flag",
    "at > '2020-01-01'", "at > '2020-01-01 12:30'", "day = '2020-01-01'", "day < at", "at IS NULL", "status = 'now'",
    "status IN ('today', '12:30')", "status LIKE '12:%'", "status RLIKE '^a' AND n IN (1, 2)", "id = 'a'",
    "who.age > 5", "who.name = 'x'", "marks['a'] = 1", "tags[0] = 'x'", "exists(tags, t -> t = 'x')", "size(tags) > 1",
    "array_contains(tags, 'x')", "status LIKE ANY ('a%', 'b%')", "status IS DISTINCT FROM 'x'", "status <=> null",
    "if(flag, n, big) > 1", "CASE WHEN (flag) THEN (n) ELSE (2) END > 1", "cast(status AS int) = 5", "status::int = 5",
    "cast(amount AS decimal(4, 2)) > 1", "rowtime > 5", "rowpartition = 0", "extract(hour FROM at) = 12",
    "hour(at) > 1",
    "try_cast(status AS int) > 1", "date_trunc('hour', at) = at", "at > timestamp'2020-01-01 00:00:00'", "null",
    "day > date'2020-01-01' - interval 1 day", "at + interval 1 hour > at", "trim(both 'x' from status) = 'a'",
    "position('a' in status) > 0", "n BETWEEN (1) AND (2)", "aggregate(tags, 0, (s, t) -> s + length(t)) > 3",
    "named_struct('a', n).a > 1", "struct(n AS b).b > 1", "map('a', 1)['a'] = n", "status || n = 'a1'", "n % 2 = 0",
    "n div 2 = 1", "x = 'NaN'", "unix_timestamp(at) > 5", "to_timestamp(status, 'HH:mm') > at", "coalesce(flag, false)",
    "day = status", "coalesce(at, '2020-01-01 12:30') IS NULL", "coalesce(status, '12:30') = '12:30'",
    "from_json(status, 'a timestamp', map('timestampFormat', 'yyyy-MM-dd HH:mm')).a > at",
    "from_json(status, 'a timestamp_ntz').a IS NULL", "hex(raw) = 'ff'", "raw = X'00'",
    "cast(null AS struct<a int>).a = 1", "cast(struct(n) AS struct<a string>).a = '1'",
    "cast(who AS struct<name string, age int>).age > 5",
    "NOT null", "null AND flag", "CASE n WHEN 1 THEN flag END", "CASE WHEN NOT flag THEN 1 END = 1", "n IS TRUE",
    "if(who.age > 5 AND NOT (status IS NULL), flag, null)", "filter(array(flag), x -> x)[0]", f"n > {'9' * 38}",
    "status LIKE 'a!%' ESCAPE '!'", "n > 00000000000000000000000000000000000000000000000000000000001",
    "sha2(status, 256) = 'x'", "transform(tags, t -> upper(t)) = tags", "isnotnull(n)",
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG_NAMES)
def test_a_function_that_does_not_exist_is_refused_with_the_nearest_name(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        things.select(f"{text} AS made")


@pytest.mark.parametrize("text", NOT_KEPT)
def test_a_function_that_would_not_give_the_same_again_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="must give the same result"):
        things.select(f"{text} AS made")


@pytest.mark.parametrize("text", CLOCKS)
def test_a_moment_that_the_clock_decides_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match="depends on when it is read"):
        things.select(f"{text} AS made")


@pytest.mark.parametrize(("text", "message"), COMPARISONS)
def test_a_comparison_that_is_never_true_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        things.filter(text)


@pytest.mark.parametrize("text", STRUCTS)
def test_a_cast_to_a_struct_that_may_wrap_around_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"would wrap around .* named_struct\('.*', cast\("):
        things.select(f"{text} AS made")


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_filter_that_is_no_condition_is_refused(text: str) -> None:
    columns = things.group_by("id").agg(count=lh.count())
    with pytest.raises(ExpressionError, match="expected a condition"):
        columns.having(text) if text == "count" else things.filter(text)
    if text != "count":
        with pytest.raises(ExpressionError, match="expected a condition"):
            things.branch("flag", text)


@pytest.mark.parametrize(("text", "message"), [*PARTS_OF_CONDITIONS, *LITERALS])
def test_a_part_that_spark_does_not_take_is_refused(text: str, message: str) -> None:
    """Where it is declared, not at the start of a run; and the model gives no result for it."""
    with pytest.raises(ExpressionError, match=re.escape(message)):
        things.filter(text)


@pytest.mark.parametrize("text", TAKEN)
def test_what_spark_accepts_with_a_meaning_is_accepted(text: str) -> None:
    things.filter(text)


def test_functions_are_recognized_by_their_written_names_alone() -> None:
    # A text, a column and a lambda's variable may have the name of a function that is refused.
    stream = lh.stream("t", key="id string", schema="uuid string, now string, rand int")
    stream.filter("uuid = 'uuid()' AND now = 'now' AND rand > 1").select("now", "upper(uuid) AS u")


def test_types_are_told_as_spark_has_them() -> None:
    columns = [*things.columns]
    told = {
        "year(at)": "int", "round(x)": "double", "round(big)": "bigint", "trunc(day, 'MM')": "date",
        "datediff(day, day)": "int", "timestampdiff(HOUR, at, at)": "bigint", "substring(n, 1)": "string",
        "substring(raw, 1)": "binary", "array_position(tags, 'a')": "bigint", "day - day": None, "at - at": None,
        "round(amount)": None, "year(at) + 1": None, "extract(HOUR FROM at)": "int", "extract(SECOND FROM at)": None,
        "3000000000": "bigint", "year(at) * 3000000000": None, "length(n) + 3000000000": "bigint", "2147483647": "int",
        "-2147483648": "int", "-2147483649": "bigint", "array(1, 3000000000)": "array<bigint>",
        "9223372036854775808": None,
    }  # fmt: skip
    assert {text: expression_type(parse_expression(text, columns, text), columns) for text in told} == told


def test_half_of_a_surrogate_pair_in_a_literal_is_a_question_mark() -> None:
    selected = things.select("status", half="concat(status, '\ud83d')").filter("half <> '\udc00'")
    texts = [expression.text for step in selected.steps for expression in step.expressions]
    assert "concat(status, '?')" in texts
    assert "half <> '?'" in texts
    assert parse_expression("'\ud83d\U0001f600'", [], "x").text == "'?\U0001f600'"
