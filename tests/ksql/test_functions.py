"""Every function's golden cases, on the model; tests/ksql/test_on_spark.py has the same cases on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import NeedsSpark, SqlError
from lakehouse.ksql.expression.expression import ColumnScope
from lakehouse.ksql.function.aggregate import AGGREGATES
from lakehouse.ksql.function.page import functions_page
from lakehouse.ksql.function.table import FUNCTIONS, NOT_HERE, TABLE_FUNCTIONS
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax.parser import parse
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression.expression import parse_expression
from lakehouse.run.scenario.as_written import plain_value
from lakehouse.run.scenario.compare import is_same_value

CASES = [(record.name, text, value) for record in FUNCTIONS.values() for text, value in record.cases]


def compiled(text: str) -> str:
    query = parse(f"SELECT {text} FROM x")
    assert isinstance(query, s.Query)
    assert query.items[0].expression is not None
    return ColumnScope(()).sql(query.items[0].expression).text


@pytest.mark.parametrize(("name", "text", "wanted"), CASES, ids=[text for _, text, _ in CASES])
def test_golden_case_on_the_model(name: str, text: str, wanted: Any) -> None:
    made = parse_expression(compiled(text), [], name)
    try:
        actual = evaluate(made, {})
    except NeedsSpark:
        pytest.skip("the model has no form of it; Spark has")
    actual = plain_value(actual)
    assert is_same_value(wanted, float(actual) if isinstance(wanted, float) else actual), actual


def test_every_function_has_cases_and_a_null_rule() -> None:
    assert all(record.cases and record.nulls for record in FUNCTIONS.values())


def test_the_page_is_made_from_the_table() -> None:
    written = Path(__file__).parents[2] / "docs" / "sql-functions.md"
    assert written.read_text("utf-8") == functions_page(), (
        "python -m lakehouse.ksql.function.page > docs/sql-functions.md"
    )


def test_no_name_is_in_two_tables() -> None:
    names = [*FUNCTIONS, *AGGREGATES, *TABLE_FUNCTIONS, *NOT_HERE]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("UCAS('a')", "Did you mean 'UCASE'?"),
        ("UCASE(1)", "function 'UCASE' does not accept parameters (INTEGER)"),
        ("UCASE()", "does not accept parameters ()"),
        ("RANDOM()", "a replay would give another table"),
        ("COUNT('a')", "COUNT is an aggregate"),
        ("TIMESTAMPADD(MOONS, 1, FROM_UNIXTIME(0))", "unknown unit of time MOONS"),
        ("UCASE(x => 1)", "does not accept parameters (LAMBDA)"),
        ("TRANSFORM(ARRAY[1], (a, b) => a)", "does not accept parameters"),
        ("ENCODE('a', 'utf8', 'rot13')", "the encoding is one of"),
        ("NULLIF(1, 'a')", "the arguments need one type, found INTEGER, VARCHAR(STRING)"),
        ("ARRAY_CONTAINS(ARRAY[1], 'a')", "an array of INTEGER has no VARCHAR(STRING)"),
        ("ARRAY_CONCAT(ARRAY[1], ARRAY['a'])", "the arguments need one type"),
        ("AS_MAP(ARRAY[1], ARRAY[2])", "does not accept parameters (ARRAY<INTEGER>, ARRAY<INTEGER>)"),
        ("GREATEST(MAP('a' := 1), MAP('b' := 1))", "MAP<VARCHAR(STRING), INTEGER> have no order"),
        ("ARRAY_DISTINCT(ARRAY[MAP('a' := 1)])", "can't be compared"),
        ("ARRAY_JOIN(ARRAY[FROM_DAYS(1)])", "ARRAY_JOIN(TRANSFORM(array, x => CAST(x AS VARCHAR))). Found elements of"),
        ("ARRAY_JOIN(ARRAY[ARRAY[1]], '-')", "TO_JSON_STRING(x))). Found elements of the type ARRAY<INTEGER>"),
        ("GEO_DISTANCE(90.5, 0, 0, 90)", "a latitude is a number from -90 to 90. Found 90.5"),
        ("GEO_DISTANCE(0, 0, 90, 181)", "a longitude is a number from -180 to 180. Found 181"),
        ("MASK('a', UCASE('x'))", "is written as one character in quotes"),
        ("MASK('a', 'xy')", "is written as one character in quotes"),
        ("CONCAT_WS(',')", "does not accept parameters"),
        ("FILTER(ARRAY[1], x => x + 1)", "FILTER takes a lambda that gives a condition. Found a value of type INTEGER"),
        ("FILTER(MAP('a' := 1), (k, v) => k)", "Found a value of type VARCHAR(STRING)"),
        ("ROUND(1, -38)", "a number has at most 38 digits to round. Found place -38"),
        ("TRUNC(1e0, -9223372036854775808)", "a number has at most 38 digits to round"),
        ("MAP('a' := 1)[1]", "a MAP by a key, which is a text; found MAP<VARCHAR(STRING), INTEGER>[INTEGER]"),
        (
            "REDUCE(ARRAY[1], 0, (s, x) => 'a')",
            "the start of REDUCE is of the type INTEGER, and its lambda gives VARCHAR(STRING)",
        ),
        (
            "REDUCE(ARRAY[1], STRUCT(n := 0), (s, x) => STRUCT(n := 1.5))",
            "the start of REDUCE is of the type STRUCT<N INTEGER>, and its lambda gives STRUCT<N DECIMAL(2, 1)>",
        ),
    ],
)
def test_a_call_that_means_nothing_is_refused(text: str, said: str) -> None:
    with pytest.raises(SqlError) as error:
        compiled(text)
    assert said in str(error.value)
