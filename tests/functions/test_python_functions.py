"""Every function that Python's expressions may use: the model gives what Spark gives, or says that it needs Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.plan.spark_functions.record import word_set
from lakehouse.plan.spark_functions.table import ALLOWED

from ..seeds import seeds
from .comparing import compare, judged, listed, needing
from .forms import calls, casts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE, ROWS = Path(__file__).parent, 240


# Of the type TIME, which this Spark knows and does not support: it refuses them before the first tick.
TIMES = word_set(
    """
    make_time time time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
    time_to_seconds time_trunc to_time try_to_time
    """
)


def test_every_allowed_function_is_called() -> None:
    called = {  # also inside of others
        name.lower() for call in calls() for name in re.findall(r"(\w+)\(", call)
    }
    assert ALLOWED - called == TIMES


def test_where_the_model_needs_spark_is_listed() -> None:
    """The list may only get shorter: what needs Spark no more leaves it, and nothing comes."""
    assert needing([*calls(), *casts()]) == listed(HERE / "python_needs_spark.txt")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1))
def test_the_model_gives_what_spark_gives(spark: SparkSession, seed: int) -> None:
    outcomes = compare(spark, [*calls(), *casts()], seed, ROWS)
    wrong = judged(outcomes, listed(HERE / "python_differs.txt"))
    assert not wrong, "\n".join(wrong)
