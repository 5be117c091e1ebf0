"""Expressions as SQL text for Spark, without a JVM: what is written means what was read, and nothing else passes."""

from __future__ import annotations

import pytest

from lakehouse.errors import PlanError
from lakehouse.ksql.expression.expression import ColumnScope
from lakehouse.ksql.function.table import FUNCTIONS
from lakehouse.ksql.syntax.parser import parse
from lakehouse.plan.written.parse import parse_as_written
from lakehouse.spark.jvm.tree.ksql_functions import TYPES, without_lambdas
from lakehouse.spark.jvm.tree.read_written import parse_written
from lakehouse.spark.jvm.tree.tree import LAMBDA, Tree, all_nodes
from lakehouse.spark.jvm.tree.written_tree import WrittenTree

TEXTS = {
    "a + b * -1": "(`a` + (`b` * (-1)))",
    "-(-3) - -x": "(3 - (- `x`))",
    "a.b.c = s['k'].d": "(`a`.`b`.`c` = `s`['k'].`d`)",
    "transform(xs, (x, i) -> x.v + i)": "transform(`xs`, (`x`, `i`) -> (`x`.`v` + `i`))",
    "CASE k WHEN 1 THEN 'a' ELSE 'b' END": "(CASE `k` WHEN 1 THEN 'a' ELSE 'b' END)",
    "CASE WHEN NOT a IS NULL THEN b END": "(CASE WHEN (NOT (`a` IS NULL)) THEN `b` END)",
    "t NOT LIKE 'a!%' ESCAPE '!'": "(`t` NOT LIKE 'a!%' ESCAPE '!')",
    "t RLIKE '^\\\\d+$'": "(`t` RLIKE '^\\\\d+\\u0024')",
    "t = '${spark.app.name}'": "(`t` = '\\u0024{spark.app.name}')",
    "cast(a AS struct<x: decimal(5, 2), y: timestamp>)": "cast(`a` AS struct<`x`: decimal(5,2), `y`: timestamp>)",
    "try_cast(a AS int) IS TRUE": "(try_cast(`a` AS int) IS True)",
    "timestampadd(HOUR, 1, at)": "timestampadd(HOUR, 1, `at`)",
    "extract(year FROM at)": "extract(YEAR FROM `at`)",
    "trim(LEADING 'x' FROM t)": "trim(LEADING 'x' FROM `t`)",
    "a BETWEEN 1 AND 2 OR b IN (1, 2)": "((`a` BETWEEN 1 AND 2) OR (`b` IN (1, 2)))",
    "d + INTERVAL '1 2' DAY TO HOUR": "(`d` + INTERVAL '1 2' DAY TO HOUR)",
    "struct(a AS x, b)": "struct(`a` AS `x`, `b`)",
    "`a``b` || \"c\" 'd'": "(`a``b` || 'cd')",
}  # fmt: skip


@pytest.mark.parametrize(("text", "written"), TEXTS.items(), ids=list(TEXTS))
def test_what_is_written(text: str, written: str) -> None:
    assert parse_written(text).sql == written
    assert parse_written(written.replace("\\u0024", "$")).sql == written, "read again it is the same"


def test_a_call_that_is_tried_computes_its_arguments_once() -> None:
    call = parse_written("element_at(split(t, p), n)")
    tried = call.with_children([call.children[0].as_guarded(), call.children[1]]).try_eval()
    assert isinstance(tried, WrittenTree)
    assert tried.sql.count("split(") == 1
    assert tried.sql.count("element_at(`_lakehouse_tried`.`a0`, `n`)") == 2
    deep: Tree = parse_written("xs")
    for _ in range(30):
        deep = parse_written("f(x)").with_children([deep]).try_eval().as_guarded()
    assert isinstance(deep, WrittenTree)
    assert len(deep.sql) < 10_000, "the text grows with the depth, and does not double"


@pytest.mark.parametrize("text", ["t ILIKE ANY ('a')", "j -> k", "a COLLATE UTF8_LCASE"])
def test_what_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="internals = false"):
        parse_written(text)


def test_no_function_in_python_stays_in_a_lambda() -> None:
    for record in FUNCTIONS.values():
        for case, _ in record.cases:
            text = ColumnScope(()).sql(parse(f"SELECT {case} FROM x").items[0].expression).text  # type: ignore[union-attr, arg-type]
            if "ksql_" not in text:
                continue
            tree = without_lambdas(parse_written(text), text)
            lambdas = [node for node in all_nodes(tree) if node.kind == LAMBDA]
            assert not [node for item in lambdas for node in all_nodes(item) if node.function in TYPES], case
            assert parse_as_written(tree.sql)
    with pytest.raises(PlanError, match=r"ksql_length.*inside a lambda"):
        without_lambdas(parse_written("transform(xs, x -> ksql_length(x))"), "transform(xs, x -> ksql_length(x))")
