"""Every function of SQL: the model gives what Spark gives, or says that it needs Spark; and so do its casts.

Aggregates are not in it: they are the graph's own, and tests/properties/ has them over drawn records, in batches, with
restarts, on both. EXPLODE and CUBE_EXPLODE make rows: tests/ksql/scenarios/ has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakehouse.ksql.function.sql import Sql
from lakehouse.ksql.function.table import FUNCTIONS

from ..seeds import draw, seeds
from .comparing import Outcome, compare, is_one_type, judged, listed, needing
from .sql_forms import HERE, calls, casts, of_signature

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, FEW_ROWS = 240, 60
FEW_CASTS = 12
NEEDS = HERE / "sql_needs_spark.txt"
DIFFERS = HERE / "sql_differs.txt"


def test_every_signature_is_called() -> None:
    for record in FUNCTIONS.values():
        for form in record.forms:
            lambdas = {int(word[-1]) for word in form.takes if word.startswith("lambda")}
            texts = [text for text in calls() if text.startswith(f"{record.name}(")]
            names = {1 + part.count(",") for text in texts for part in re.findall(r"(\w+|\([\w, ]+\)) =>", text)}
            assert lambdas <= names if lambdas else of_signature(record, form), (record.name, form.takes)


@pytest.mark.rotated
def test_where_the_model_needs_spark_is_listed() -> None:
    """The list may only get shorter: what needs Spark no more leaves it, and nothing comes."""
    every = {**calls(), **casts()}
    silent = needing({sql.text for sql in every.values()})
    assert {text: silent[sql.text] for text, sql in every.items() if sql.text in silent} == listed(NEEDS)


@pytest.mark.rotated
def test_one_call_of_each_function_on_spark(spark: SparkSession) -> None:
    """Others in each run; the slow test has all."""
    random = Random(draw())
    by_name: dict[str, list[str]] = {}
    for text in calls():
        by_name.setdefault(text.partition("(")[0], []).append(text)
    chosen = [random.choice(by_name[name]) for name in FUNCTIONS] + random.sample(list(casts()), FEW_CASTS)
    wrong = differing(spark, {text: {**calls(), **casts()}[text] for text in chosen}, draw(), FEW_ROWS)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1))
def test_the_model_gives_what_spark_gives(spark: SparkSession, seed: int) -> None:
    wrong = differing(spark, {**calls(), **casts()}, seed, ROWS)
    assert not wrong, "\n".join(wrong)


def differing(spark: SparkSession, every: Mapping[str, Sql], seed: int, many: int) -> list[str]:
    """Return where the two differ, or a type is not what SQL says, over the fixed rows and so many of a seed."""
    texts = list(dict.fromkeys(sql.text for sql in every.values()))
    outcomes = dict(zip(texts, compare(spark, texts, seed, many), strict=True))
    return judged((_named(text, sql, outcomes[sql.text]) for text, sql in every.items()), listed(DIFFERS))


def _named(text: str, sql: Sql, outcome: Outcome) -> Outcome:
    """What was given for the Spark SQL of a call, as that of the call."""
    wrong = [] if is_one_type(sql.kind.spark, outcome.kind) else [f"its type is {outcome.kind}, in SQL {sql.kind}"]
    return Outcome(text, [*wrong, *outcome.differs], outcome.compared, outcome.kind)
