"""Which rows of bronze, and which records, count by a cut (`lakehouse.lake.moment.cut`)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.table import Table


def in_time(cut: Cut) -> Column | None:
    """Return the condition on records of `arrivals`; None where all of them count."""
    return None if cut.event_ms is None else F.col("rowtime") <= cut.event_ms


def before(cut: Cut, rows: DataFrame) -> DataFrame:
    """Return the rows of bronze before the offsets; all if there are none."""
    for topic, of in (cut.offsets or {}).items():
        # Of a topic that was made anew the offsets are those of the present one; all of earlier ones came before.
        inside = F.col("topic") != topic
        for partition, offset in of.items():
            inside |= (F.col("partition") == partition) & (F.col("offset") < offset)
        rows = rows.where(inside)
    return rows


def counting(cut: Cut, rows: DataFrame, table: Table) -> DataFrame:
    """Return the rows of bronze that count, or that judge others."""
    rows = before(cut, rows)
    plain = all(source.event_time is None for source in table.stream.sources)
    if cut.event_ms is not None and plain and not table.has_clock:
        rows = rows.where(F.col("timestamp") <= F.timestamp_millis(F.lit(cut.event_ms)))  # leaves files out
    return rows
