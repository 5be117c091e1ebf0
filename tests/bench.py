"""A lake on real Spark and Delta whose tables tests catch up, read and rebuild."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.app import App
from lakehouse.plan.table import Table
from lakehouse.run.scenario.replay import rows_of
from lakehouse.semantics.moment import At
from lakehouse.spark.changelog.upstream import open_lake
from lakehouse.spark.history import reading
from lakehouse.spark.history.moments import Past
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.silver.query import Silver


class Bench:
    """A lake, and the content of its tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.layout = spark, Layout(str(folder / "lake"))

    @property
    def lake(self) -> OpenLake:
        return open_lake(self.spark, self.layout)

    def catch_up(self, app: App, *ticks: int) -> None:
        with Silver(self.lake, app, lambda tick, count: None) as silver:
            for tick in ticks:
                silver.catch_up(tick)

    def rows(self, table: Table, at: At | None = None) -> dict[Any, Any]:
        frame = reading.read_rows(self.lake.open(table), at)
        return rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))

    def rebuilt(self, table: Table, tick: int) -> dict[Any, Any]:
        """The table at a tick, from bronze and interventions alone."""
        frame = Past(self.lake.open(table), anchored=False).visible_rows(Cut(tick))
        return rows_of(table, frame.toArrow().to_pylist(maps_as_pydicts="strict"))
