"""A table folded from bronze and the interventions alone."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.table import Table
from lakehouse.spark.past.moments import Past
from lakehouse.spark.table import tables


def refolded(spark: SparkSession, layout: Layout, table: Table, tick: int) -> DataFrame:
    """Return the visible rows of a table at a tick that it has taken in, folded from bronze and the interventions.

    Of any table, whatever it keeps beside what is seen. Raises NotFound for one that was restored from a topic: what it
    began with is in no bronze.
    """
    if tables.skipped_offsets(spark, layout, table):
        raise NotFound(
            f"table {table.name!r} was restored from a topic: this lake's bronze does not have its restored rows, so "
            "it can't be folded from bronze."
        )
    made = Past(spark, layout, table).seen(Cut(tick), anchored=False)
    return made.select(*[f"`{name}`" for name in made.columns if not name.startswith("_")])
