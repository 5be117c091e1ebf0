"""Joins and sums of rows on Spark equal the model where one record changes both sides, times are equal, rows go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.properties.test_operators import check
from tests.rows_meeting import APP, WINDOWED, records
from tests.seeds import seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.plan.app import App


@pytest.mark.slow
@pytest.mark.parametrize(("app", "count"), [(APP, 200), (WINDOWED, 100)], ids=["joins", "windows"])
@pytest.mark.parametrize("seed", seeds(1, on_spark=True))
def test_rows(spark: SparkSession, tmp_path: Path, app: App, count: int, seed: int) -> None:
    check(spark, tmp_path, app, records(seed, count, 3), seed)
