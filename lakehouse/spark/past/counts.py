"""Which rows of bronze, and which records, count by a cut (`lakehouse.lake.moment.cut`)."""

from __future__ import annotations

from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.step import Retime
from lakehouse.plan.stream import Stream, walk
from lakehouse.plan.stream_join import meetings
from lakehouse.plan.table import Table


def in_time(cut: Cut) -> Column | None:
    """Return the condition on records of `arrivals`; None if all of them count."""
    return None if cut.event_ms is None else F.col("rowtime") <= cut.event_ms


def by_offsets(cut: Cut) -> Column:
    """Return the condition that rows of bronze, or places of records, lie before the offsets."""
    place = [F.col(name) for name in ("topic", "topic_id", "partition", "offset")]
    return F.lit(True) if cut.offsets is None else cast(Column, cut.lies_before(*place))


def before(cut: Cut, rows: DataFrame) -> DataFrame:
    """Return the rows of bronze before the offsets; all if there are none."""
    return rows if cut.offsets is None else rows.where(by_offsets(cut))


def counting(cut: Cut, rows: DataFrame, table: Table) -> DataFrame:
    """Return the rows of bronze that count, or that judge others."""
    rows = before(cut, rows)
    plain = all(source.event_time is None for source in table.stream.sources) and not _is_retimed(table)
    if cut.event_ms is not None and plain and not table.has_clock and not meetings(table.stream):
        rows = rows.where(F.col("timestamp") <= F.timestamp_millis(F.lit(cut.event_ms)))  # skips files
    return rows


def _is_retimed(table: Table) -> bool:
    """Whether a step gives records another time than their own."""
    steps = (step for node in walk(table) if isinstance(node, Stream) for step in node.steps)
    return any(isinstance(step, Retime) for step in steps)
