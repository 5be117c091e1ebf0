"""A table made anew from bronze and the interventions alone, and compared with what stands in the lake."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.table import Table
from lakehouse.spark.operators.content import image
from lakehouse.spark.past.moments import Past
from lakehouse.spark.table import tables

ROWS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows that one of two contents has and the other has not: how many, and some of them as JSON."""

    here: int
    there: int
    here_rows: list[str]
    there_rows: list[str]


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


def _images(rows: DataFrame, count: int) -> DataFrame:
    """The visible columns of each row as one text, and a number."""
    names = [name for name in rows.columns if not name.startswith("_")]
    return rows.select(image(None, names).alias("image"), F.lit(count).alias("n"))


def difference(here: DataFrame, there: DataFrame) -> Difference:
    """Return the rows, by their visible columns, that only one of two frames has."""
    both = _images(here, 1).unionByName(_images(there, -1))
    left = both.groupBy("image").agg(F.sum("n").alias("n")).where("n <> 0").persist()
    try:
        sides = [left.where("n > 0"), left.where("n < 0")]
        counts = [side.agg(F.coalesce(F.sum(F.abs("n")), F.lit(0))).collect()[0][0] for side in sides]
        some = [[row["image"] for row in side.orderBy("image").limit(ROWS_SHOWN).collect()] for side in sides]
    finally:
        left.unpersist()
    return Difference(counts[0], counts[1], some[0], some[1])
