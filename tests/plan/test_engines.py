"""Both engines know every part of a plan: a step or a fold that one of them lacks is found here, not in a job."""

from __future__ import annotations

import sys
from typing import Any, get_args

import pytest

from lakehouse.model import fold
from lakehouse.model import step as model_step
from lakehouse.plan.operator import IN_TEXT, Fold, Operator
from lakehouse.plan.step import Step
from lakehouse.spark.fold import arrivals
from lakehouse.spark.stream import step as spark_step


def kinds(base: type) -> list[type]:
    """The classes of a base that its module has; a dataclass with slots leaves a second class of its name behind."""
    return [kind for kind in base.__subclasses__() if getattr(sys.modules[base.__module__], kind.__name__) is kind]


@pytest.mark.parametrize("kind", kinds(Step), ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize("applied", [model_step.apply_step, spark_step.apply_step], ids=["model", "spark"])
def test_a_step_runs_on_both(kind: type, applied: Any) -> None:
    assert applied.dispatch(kind) is not applied.dispatch(object)


@pytest.mark.parametrize("kind", get_args(Fold), ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize(
    "question", [fold.fold_events, fold.reached_key, arrivals._operator_input], ids=["folded", "reached", "taken"]
)
def test_a_fold_runs_on_both(kind: type, question: Any) -> None:
    assert question.dispatch(kind) is not question.dispatch(object)


def test_an_operator_folds_or_has_its_place_in_the_text() -> None:
    known = {*get_args(Fold), *IN_TEXT}
    assert {kind for kind in kinds(Operator) if kind not in known} == set()
