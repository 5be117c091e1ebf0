"""Aggregates as they are declared: their types, their text, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakehouse as lh
from lakehouse.errors import NeedsSpark, PlanError
from lakehouse.plan.aggregate_functions import Aggregation
from lakehouse.plan.aggregation import bind_types, named_aggregation, rule_for_model, shown_type
from lakehouse.plan.expression.schema import Column

COLUMNS = [
    Column("i", "int"), Column("n", "bigint"), Column("x", "double"), Column("d", "decimal(10, 2)"),
    Column("s", "string"), Column("who", "struct<first: string>"), Column("tags", "array<string>"),
    Column("unknown", ""),
]  # fmt: skip
POSITION = (
    "struct<tick: bigint, order_time: bigint, topic: string, partition: int, offset: bigint, ordinals: array<bigint>>"
)


def bound(item: Aggregation, kind: str) -> tuple[str, str | None]:
    made = bind_types(named_aggregation("a", item, COLUMNS, "test"), kind)
    return made.visible_type, made.accumulator


WIDE = "struct<high: decimal(37, 0), middle: decimal(37, 0), low: decimal(37, 0)>"


@pytest.mark.parametrize(
    ("item", "kind", "shown", "kept"),
    [
        (lh.count(), "", "bigint", None),
        (lh.count("s"), "string", "bigint", None),
        (lh.sum("i"), "int", "bigint", "decimal(37, 0)"),
        (lh.sum("x"), "double", "double", None),
        (lh.sum("d"), "decimal(10, 2)", "decimal(20, 2)", "decimal(37, 2)"),
        (lh.sum("d"), "decimal(38, 2)", "decimal(38, 2)", WIDE),
        (lh.avg("n"), "bigint", "double", "struct<sum: decimal(37, 0), n: bigint>"),
        (lh.min("s"), "string", "string", None),
        (lh.stddev("i"), "int", "double", "struct<n: bigint, mean: double, m2: double>"),
        (lh.latest("tags"), "array<string>", "array<string>", f"struct<at: {POSITION}, value: array<string>>"),
        (lh.latest("s", 2), "string", "array<string>", f"array<struct<at: {POSITION}, value: string>>"),
        (lh.only("n"), "bigint", "bigint", "array<bigint>"),
        (lh.variance("i"), "int", "double", "struct<n: bigint, mean: double, m2: double>"),
        (lh.correlation("i", "n"), "struct<x: double, y: double>", "double",
         "struct<n: bigint, x: double, y: double, xx: double, yy: double, xy: double>"),
        (lh.top_k("who", 2, by="first"), "struct<first: string>", "array<struct<first: string>>", None),
        (lh.collect_set("who"), "struct<first: string>", "array<struct<first: string>>", None),
        (lh.count_distinct("s"), "string", "bigint", "array<string>"),
        (lh.top_k("who", 2, by="FIRST"), "struct<first: string>", "array<struct<first: string>>", None),
        (lh.top_k("n", 3), "bigint", "array<bigint>", None),
        (lh.histogram("s"), "string", "map<string, bigint>", None),
        (lh.reduce("n", max), "bigint", "bigint", None),
        (lh.aggregate("n", zero=0, add=max, accumulator="bigint"), "bigint", "bigint", None),
        (lh.aggregate("n", zero=0, add=max, accumulator="bigint", result=str, returns="string"), "bigint", "string",
         "bigint"),
    ],
    ids=str,
)  # fmt: skip
def test_types(item: Aggregation, kind: str, shown: str, kept: str | None) -> None:
    assert bound(item, kind) == (shown, kept)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lh.sum("s"), r'sum\(s\) AS a sums a string. Cast it: lh.sum\("cast\(s AS double\)"\)'),
        (lambda: lh.avg("who"), "averages a struct<first: string>"),
        (lambda: lh.stddev("s"), "is over a string"),
        (lambda: lh.max("who"), "a struct has no order; use one of its fields"),
        (lambda: lh.min("tags"), "a array has no order|an array has no order"),
        (lambda: lh.top_k("who", 2), "a struct has no order"),
        (lambda: lh.top_k("who", 2, by="last"), "expected a field of a struct, found a struct<first: string>"),
        (lambda: lh.top_k("struct(tags AS t, i)", 2, by="t"), "a array has no order"),
        (lambda: lh.top_k("struct(tags AS t, i)", 2, by="T"), "a array has no order"),
        (lambda: lh.top_k("n", 2, by="n"), "expected a field of a struct, found a bigint"),
        (lambda: lh.latest("n", 0), "latest: k=0; expected a whole number from 1"),
        (lambda: lh.variance("s"), "is over a string"),
        (lambda: lh.histogram("n"), r'counts texts, but found a bigint: histogram\("cast\(n AS string\)"\)'),
        (lambda: lh.top_k("n", 0), "top_k: k=0; expected a whole number from 1"),
        (lambda: lh.top_k("n", True), "top_k: k=True; expected a whole number from 1"),
        (lambda: lh.collect_list("n", limit=0), "collect_list: limit=0"),
        (lambda: lh.collect_set("n", limit=-1), "collect_set: limit=-1"),
        (lambda: lh.count("nowhere"), "'nowhere', which does not exist"),
        (lambda: lh.aggregate("n", zero=0, add=max, accumulator="number of"), "aggregate: accumulator"),
        (lambda: lh.aggregate("n", zero=0, add=max, accumulator="bigint", returns="int"), "go together"),
        (lambda: lh.aggregate("n", zero=0, add=max, accumulator="bigint", result=str), "go together"),
    ],
)  # fmt: skip
def test_refused(make: Callable[[], Aggregation], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        named_aggregation("a", make(), COLUMNS, "test")


def test_a_type_that_only_spark_knows_is_accepted_and_the_model_says_what_to_write() -> None:
    for text in ("who.first", "unknown"):
        item = named_aggregation("a", lh.sum(text), COLUMNS, "test")
        assert shown_type(item, COLUMNS) is None
        with pytest.raises(NeedsSpark, match=r"write cast\(.* AS bigint\)"):
            rule_for_model(item, COLUMNS)
        cast = named_aggregation("a", lh.sum(f"cast({text} AS bigint)"), COLUMNS, "test")
        assert shown_type(cast, COLUMNS) == "bigint"
        rule_for_model(cast, COLUMNS)


def test_what_can_be_merged() -> None:
    assert lh.sum("n").can_merge
    assert not lh.aggregate("n", zero=0, add=max, accumulator="bigint").can_merge
    assert lh.aggregate("n", zero=0, add=max, accumulator="bigint", merge=max).can_merge


def test_as_text_a_function_is_told_by_its_code() -> None:
    def text(item: Aggregation) -> str:
        return str(named_aggregation("a", item, COLUMNS, "test"))

    assert text(lh.count()) == "count(*) AS a"
    assert text(lh.top_k("n", 2)) == "top_k(n, k=2, distinct=False) AS a"
    one, same, other = (lh.reduce("n", f) for f in (lambda a, b: a + b, lambda a, b: a + b, lambda a, b: a - b))
    assert text(one) == text(same) != text(other)
