"""Both engines know every part of a plan: a step or a fold that one of them lacks is found here, not in a job."""

from __future__ import annotations

import sys
from typing import Any, get_args

import pytest

import lakehouse as lh
from lakehouse.model import fold
from lakehouse.model import step as model_step
from lakehouse.plan.operator import IN_TEXT, Fold, Operator
from lakehouse.plan.step import Step
from lakehouse.spark.fold import fold_choice
from lakehouse.spark.fold.latest import LatestFold
from lakehouse.spark.fold.latest_by_order import LatestByOrderFold
from lakehouse.spark.fold.python_aggregates import PythonFold
from lakehouse.spark.fold.sql_aggregates import SqlFold
from lakehouse.spark.stream import step as spark_step

EVENTS = lh.stream("events", key="id string", schema="n bigint")
BY_N = EVENTS.group_by("n")
ROWS_BY_N = EVENTS.latest("newest").rows.group_by("n")
COUNT = {"records": lh.count()}
FOLDS = {
    LatestFold: [EVENTS.latest("t"), EVENTS.latest("t", suppress=True)],
    LatestByOrderFold: [EVENTS.latest("t", order_by="n"), EVENTS.latest("t", order_by="n", tombstones="newest")],
    SqlFold: [
        BY_N.agg(**COUNT).table("t"),
        BY_N.window(lh.tumbling("1 hour")).agg(**COUNT).table("t", emit="final"),
        BY_N.window(lh.hopping("1 hour", advance="1 minute")).agg(**COUNT, newest=lh.latest("id")).table("t"),
        ROWS_BY_N.agg(**COUNT, total=lh.sum("n")).table("t"),
    ],
    PythonFold: [
        BY_N.agg(**COUNT, ids=lh.count_distinct("id")).table("t"),
        BY_N.window(lh.session("1 hour")).agg(**COUNT).table("t"),
        BY_N.window(lh.sliding("1 hour")).agg(**COUNT).table("t"),
        ROWS_BY_N.agg(**COUNT, largest=lh.max("n")).table("t"),
    ],
}


def kinds(base: type) -> list[type]:
    """The classes of a base that its module has; a dataclass with slots leaves a second class of its name behind."""
    return [kind for kind in base.__subclasses__() if getattr(sys.modules[base.__module__], kind.__name__) is kind]


@pytest.mark.parametrize("kind", kinds(Step), ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize("applied", [model_step.apply_step, spark_step.apply_step], ids=["model", "spark"])
def test_a_step_runs_on_both(kind: type, applied: Any) -> None:
    assert applied.dispatch(kind) is not applied.dispatch(object)


@pytest.mark.parametrize("kind", get_args(Fold), ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize(
    "question", [fold.fold_events, fold.reached_key, fold_choice.fold_class], ids=["folded", "reached", "chosen"]
)
def test_a_fold_runs_on_both(kind: type, question: Any) -> None:
    assert question.dispatch(kind) is not question.dispatch(object)


@pytest.mark.parametrize(("kind", "table"), [(kind, table) for kind, tables in FOLDS.items() for table in tables])
def test_spark_folds_in_sql_what_it_can(kind: type, table: lh.Table) -> None:
    assert type(fold_choice.choose_fold(table)) is kind


def test_an_operator_folds_or_has_its_place_in_the_text() -> None:
    known = {*get_args(Fold), *IN_TEXT}
    assert {kind for kind in kinds(Operator) if kind not in known} == set()
