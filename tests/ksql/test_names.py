"""Columns may have SQL's words as names: their Spark SQL reads the column, wherever the name stands."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import pytest
from sqlglot.dialects.spark import Spark

from lakehouse.errors import LakehouseError
from lakehouse.ksql.expression.expression import ColumnScope, ScopeColumn
from lakehouse.ksql.function.sql import column_sql
from lakehouse.ksql.syntax import kind as k
from lakehouse.ksql.syntax import statement as s
from lakehouse.ksql.syntax import tree as t
from lakehouse.ksql.syntax.parser import parse
from lakehouse.model.evaluate import evaluate
from lakehouse.plan.expression.expression import Expression, name_text, parse_expression
from lakehouse.plan.expression.schema import parse_schema
from lakehouse.plan.spark_functions.record import word_set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Words that Spark itself or an SQL dialect knows, beside those of sqlglot's tokenizer.
OTHERS = word_set(
    "user session_user now nan inf infinity e n r x b u d l f s1 y bd epoch today sysdate pi rand day hour month "
    "second years any some grouping input version key value timestampadd extract year quarter week minute type zone"
)
WORDS = sorted(
    {word.lower() for word in Spark.Tokenizer.KEYWORDS if word.replace("_", "").isalnum()}
    | {word.lower() for word in (*Spark.Parser.FUNCTION_PARSERS, *Spark.Parser.NO_PAREN_FUNCTION_PARSERS)}
    | OTHERS
)
# Over a column N that holds 5.
CASES = [
    ("COALESCE(N, 1)", 5), ("N < 6", True), ("N + 1", 6), ("N / 2", 2), ("ARRAY[N, 1]", [5, 1]),
    ("STRUCT(c := N)->c", 5), ("N BETWEEN 4 AND 6", True), ("CASE N WHEN 5 THEN N ELSE 1 END", 5),
]  # fmt: skip
FIELD_CASES = [("INSIDE->{0} < 6", True), ("COALESCE(INSIDE->{0}, 1)", 5)]  # the same, of a field


@cache
def syntax_tree(text: str) -> t.Expr:
    query = parse(f"SELECT {text} FROM x")
    assert isinstance(query, s.Query)
    assert query.items[0].expression is not None
    return query.items[0].expression


def compiled(word: str) -> Iterator[tuple[str, object]]:
    """Each case's Spark SQL, where the column, or the field, has this name."""
    number, struct = column_sql(word, k.INTEGER), column_sql("inside", k.struct_of({word: k.INTEGER}))
    scope = ColumnScope((ScopeColumn("N", "S", number), ScopeColumn("INSIDE", "S", struct)))
    for text, wanted in [*CASES, *((text.format(f"`{word}`"), wanted) for text, wanted in FIELD_CASES)]:
        yield scope.sql(syntax_tree(text)).text, wanted


@pytest.mark.rotated
def test_a_column_may_have_any_word_of_sql_as_its_name() -> None:
    wrong = []
    for word in WORDS:
        columns = parse_schema(f"`{word}` int, inside struct<`{word}`: int>", "s")
        for text, wanted in compiled(word):
            try:
                value = evaluate(parse_expression(text, columns, "s"), {word: 5, "inside": {word: 5}})
            except LakehouseError as error:
                value = error
            if value != wanted:
                wrong.append(f"{text}: {value!r}")
    assert not wrong, wrong


def test_only_words_with_another_meaning_are_put_in_backticks() -> None:
    """Backticks would make another text, and so another declaration, of a table that exists."""
    assert [
        word for word in ("id", "value", "date", "timestamp", "key", "offset", "type") if "`" in name_text(word)
    ] == []
    assert name_text("ALL") == "`ALL`"


@pytest.mark.rotated
def test_words_with_another_meaning_on_spark(spark: SparkSession) -> None:
    from lakehouse.spark.expression.declared import column_of

    words = [word for word in WORDS if "`" in name_text(word)]
    cases = [(word, text, wanted) for word in words for text, wanted in compiled(word)]
    fields = ", ".join(f"'{word}', 5" for word in words)
    frame = spark.sql(f"SELECT named_struct({fields}) AS inside").select("inside", "inside.*")
    row = frame.select(*(column_of(Expression(text)).alias(f"c{n}") for n, (_, text, _) in enumerate(cases))).collect()[
        0
    ]
    assert [(text, value) for (_, text, _), value in zip(cases, row, strict=True)] == [case[1:] for case in cases]
