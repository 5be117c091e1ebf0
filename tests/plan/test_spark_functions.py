"""One record for each Spark function: complete, without a contradiction, and refused where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lakehouse.errors import ExpressionError, NeedsSpark
from lakehouse.model.evaluate import evaluate
from lakehouse.model.function.table import FUNCTIONS
from lakehouse.plan.expression.expression import Expression, expression_type, parse_expression
from lakehouse.plan.expression.schema import Column
from lakehouse.plan.spark_functions.guards import null_condition
from lakehouse.plan.spark_functions.record import Arguments, SparkFunction
from lakehouse.plan.spark_functions.table import ALLOWED, NO_FUNCTION, RECORDS, WORDS, function_named
from lakehouse.spark.expression.java_functions import FUNCTIONS as JAVA_FUNCTIONS

CALLS = (Path(__file__).parents[1] / "functions/python_calls.txt").read_text("utf-8")
COLUMNS = [Column("s", "string"), Column("xs", "array<string>"), Column("n", "int"), Column("flag", "boolean")]
USED = [record for record in RECORDS if not record.refused]
# Functions whose lambda gives no part of the value: a condition, or an order.
CONDITIONS = {"array_sort", "exists", "filter", "forall", "map_filter"}


def declared(text: str) -> Expression:
    return parse_expression(text, COLUMNS, "here")


def conditions(record: SparkFunction, more: int) -> list[str]:
    """What a record says over its arguments, for a call with so many more than it takes at least."""
    condition = null_condition(record, Arguments([None] * (record.least + more)))
    return [form for form in (condition, record.lambda_calls) if form]


def test_every_name_has_one_record() -> None:
    names = [record.name for record in RECORDS]
    assert sorted(names) == sorted(set(names))
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) and function_named(name).name == name for name in names)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_contradicts_nothing(record: SparkFunction) -> None:
    if record.refused:
        assert record == SparkFunction(name=record.name, refused=record.refused, same_as=record.same_as)
        return
    if record.same_as:
        original = function_named(record.same_as)
        assert original.name == record.same_as
        assert not original.same_as
    # What does not raise can't be null by a condition, which needs a TryEval; and a small value has no length.
    assert record.raises or not conditions(record, 2)
    assert record.size == "any" or not (record.length or record.lambda_calls)
    assert not (record.size == "small" and record.chooses)
    assert record.like is False or not record.patterns
    for more in range(3):  # `least` covers every argument that is read
        places = re.findall("`([0-9])`", " ".join(conditions(record, more)))
        assert max(map(int, places), default=-1) < record.least + more


@pytest.mark.parametrize("name", ["no_such_function", "lens", "ksql_nothing", "kll_sketch", "st_area"])
def test_a_function_without_a_record_is_refused(name: str) -> None:
    assert function_named(name).refused
    assert name not in ALLOWED
    with pytest.raises(ExpressionError):
        declared(f"{name}(s)")


def test_every_refused_function_is_refused_where_it_is_declared() -> None:
    for record in RECORDS:
        if record.refused:
            with pytest.raises(ExpressionError):
                declared(f"{record.name}(s)")
    assert all(function_named(word) is NO_FUNCTION or word in ALLOWED | {"any", "some"} for word in WORDS)


def test_the_model_has_what_the_records_say() -> None:
    computed = {record.name for record in USED if record.model in ("strict", "nulls") and not record.same_as}
    assert FUNCTIONS.keys() == computed
    for record in USED:
        if not record.model and record.name not in ("if", "cast", "try_cast"):
            with pytest.raises((NeedsSpark, ExpressionError)):
                evaluate(declared(f"{record.name}(s, s)"), {"s": "a"})


def test_javas_functions_are_those_that_spark_lacks() -> None:
    assert JAVA_FUNCTIONS.keys() == {record.name for record in USED if record.own}
    for record in USED:
        if record.own:  # the arguments that Java's forms read
            places = re.findall("`([0-9])`", " ".join(JAVA_FUNCTIONS[record.name][0]))
            assert record.least == 1 + max(map(int, places)), record.name


def test_every_function_with_a_lambda_bounds_its_values() -> None:
    with_lambda = {name.lower() for name in re.findall(r"(\w+)\([^()]*(?:\([^()]*\)[^()]*)*->", CALLS)} & ALLOWED
    assert with_lambda >= CONDITIONS | {"transform", "aggregate", "zip_with"}
    for name in with_lambda - CONDITIONS:
        record = function_named(name)
        assert record.lambda_calls or record.folds, name


@pytest.mark.parametrize(
    "text",
    [
        "transform(xs, s)",
        "aggregate(xs, s, concat(s, s))",
        "zip_with(xs, xs, s)",
        "transform(xs, x -> transform(xs, s))",
    ],
)
def test_a_value_in_the_place_of_a_lambda_is_refused(text: str) -> None:
    """Spark takes it for each element: its length is not measured like a lambda's."""
    with pytest.raises(ExpressionError, match=r"which expects a lambda, such as x -> upper\(x\)"):
        declared(text)


def test_every_function_of_patterns_bounds_how_deep_java_recurses() -> None:
    """regexp_substr is computed as regexp_extract."""
    named = [record for record in USED if re.match("regexp|rlike|split$|str_to_map", record.name)]
    assert [record.name for record in named if not record.patterns] == ["regexp_substr"]


# What was in one list and not in another, for two names of one function.
@pytest.mark.parametrize(
    ("name", "other"),
    [("len", "length"), ("ucase", "upper"), ("ceiling", "ceil"), ("date_diff", "datediff"), ("regexp", "rlike")],
)
def test_other_names_of_a_function_have_its_facts(name: str, other: str) -> None:
    facts, other_facts = function_named(name), function_named(other)
    assert facts.same_as == other
    for field in ("raises", "size", "patterns", "type", "model", "least"):
        assert getattr(facts, field) == getattr(other_facts, field)


def test_the_type_of_a_function_counts_under_each_of_its_names() -> None:
    """A choice between a whole number and a DOUBLE is a DOUBLE: `len` was in no list of the model's types."""
    for call in ("length(s)", "len(s)", "character_length(s)", "size(xs)", "cardinality(xs)"):
        value = evaluate(declared(f"if(flag, {call}, 1.5e0)"), {"s": "ab", "xs": ["a", "b"], "flag": True})
        assert (value, type(value)) == (2, float), call
    assert expression_type(declared("year(cast(s AS date))"), COLUMNS) == "int"


def test_a_group_that_looks_around_may_have_the_whole_text_in_each_match() -> None:
    def condition(*texts: str | None) -> str | None:
        return null_condition(function_named("regexp_extract_all"), Arguments(texts))

    assert condition(None, "[ab]") is None
    assert condition(None, "(?=(.*))", "0") is None
    assert "regexp_count(`0`, `1`) * " in str(condition(None, "(?=(.*))", "1"))
    assert "RLIKE" in str(condition(None, None))
