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


@pytest.mark.slow
@pytest.mark.timeout(3600)
@examples(1)
@given(seed=SEEDS, restarts=st.lists(st.integers(1, 2), max_size=1))
def test_both_sides_of_joins_change(spark: SparkSession, tmp_path_factory: Any, seed: int, restarts: Any) -> None:
    check(spark, Path(tmp_path_factory.mktemp("rows")), APP, records(seed, 200, 3), restarts)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@examples(1)
@given(seed=SEEDS, restarts=st.lists(st.integers(1, 2), max_size=1))
def test_rows_of_windows(spark: SparkSession, tmp_path_factory: Any, seed: int, restarts: Any) -> None:
    check(spark, Path(tmp_path_factory.mktemp("rows")), WINDOWED, records(seed, 100, 3), restarts)
