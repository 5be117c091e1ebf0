"""Interventions: what was decided by hand, appended with the tick at which it takes effect (DESIGN.md, decision 1).

A rebuild folds bronze plus interventions, and nothing else. An intervention has a tick of its own, which holds no
records, so a table at the tick before it is the table without it. Kinds:

    late   these late records of a table are taken in after all, each at its original position
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.delta.late import PLACE
from lakehouse.delta.layout import Layout
from lakehouse.delta.transaction import append
from lakehouse.semantics.epoch import Progress

NAME = "interventions"
SCHEMA = (
    "at bigint, table string, kind string, reason string, decided_at timestamp, "
    "tick bigint, topic string, partition int, offset bigint, ordinal bigint"
)


def write(spark: SparkSession, layout: Layout, table: str, records: DataFrame, at: int, reason: str) -> None:
    """Append the decision that records (their `PLACE`) count for a table from tick `at` on."""
    if not DeltaTable.isDeltaTable(spark, layout.interventions):
        columns = spark.createDataFrame([], SCHEMA).schema
        DeltaTable.createIfNotExists(spark).location(layout.interventions).addColumns(columns).execute()
    now = F.lit(datetime.now(UTC)).alias("decided_at")
    said = [F.lit(at).cast("bigint").alias("at"), F.lit(table).alias("table"), F.lit("late").alias("kind")]
    rows = records.select(*said, F.lit(reason).alias("reason"), now, *PLACE)
    metadata: Mapping[str, object] = {"table": table, "kind": "late"}
    append(rows.coalesce(1), layout.interventions, NAME, Progress(0, at), metadata)


def ticks(spark: SparkSession, layout: Layout, table: str) -> list[int]:
    """Return the ticks at which something was decided for a table, in order."""
    rows = _of(spark, layout, table)
    return [] if rows is None else sorted(row[0] for row in rows.select("at").distinct().collect())


def corrected(spark: SparkSession, layout: Layout, table: str, to: int, *, only: bool = False) -> DataFrame | None:
    """Return the late records (their `PLACE`) that count for a table at tick `to`: None if there are none.

    only: those that were decided at this very tick.
    """
    rows = _of(spark, layout, table)
    if rows is None:
        return None
    return rows.where(F.col("at") == to if only else F.col("at") <= to).select(*PLACE).distinct()


def _of(spark: SparkSession, layout: Layout, table: str) -> DataFrame | None:
    if not DeltaTable.isDeltaTable(spark, layout.interventions):
        return None
    rows = spark.read.format("delta").load(layout.interventions)
    return rows.where((F.col("table") == table) & (F.col("kind") == "late"))
