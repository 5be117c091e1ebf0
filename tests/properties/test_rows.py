"""Joins and sums of rows on Spark equal the model where one record changes both sides, times are equal, rows go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ..rows_meeting import APP, WINDOWED, records
from .test_operators import SEEDS, check, examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.plan.app import App


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("app", "count"), [(APP, 200), (WINDOWED, 100)], ids=["joins", "windows"])
@examples(1)
@given(seed=SEEDS, restarts=st.lists(st.integers(1, 2), max_size=1))
def test_rows(spark: SparkSession, tmp_path_factory: Any, app: App, count: int, seed: int, restarts: list[int]) -> None:
    check(spark, Path(tmp_path_factory.mktemp("rows")), app, records(seed, count, 3), restarts)
