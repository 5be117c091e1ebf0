"""The rows of bronze, and the records, that count by a cut (`lakehouse.lake.moment.cut`)."""

from __future__ import annotations

from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.step import Retime
from lakehouse.plan.stream import Stream, walk
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.plan.table import Table


def is_in_time(cut: Cut) -> Column | None:
    """Return the condition on arrived records whose event time counts; None if all count."""
    return None if cut.event_ms is None else F.col("rowtime") <= cut.event_ms


def is_before_offsets(cut: Cut) -> Column:
    """Return the condition that rows of bronze, or places of records, lie before the offsets."""
    place = [F.col(name) for name in ("topic", "topic_id", "partition", "offset")]
    return F.lit(True) if cut.offsets is None else cast(Column, cut.lies_before(*place))


def rows_before_offsets(cut: Cut, bronze_rows: DataFrame) -> DataFrame:
    """Return the rows of bronze before the cut's offsets; all if it has none."""
    return bronze_rows if cut.offsets is None else bronze_rows.where(is_before_offsets(cut))


def filter_counting_rows(cut: Cut, bronze_rows: DataFrame, table: Table) -> DataFrame:
    """Return the rows of bronze that count, or that decide whether others are late."""
    bronze_rows = rows_before_offsets(cut, bronze_rows)
    uses_record_time = all(source.event_time is None for source in table.stream.sources) and not _is_retimed(table)
    if cut.event_ms is not None and uses_record_time and not table.has_clock and not meeting_streams(table.stream):
        bronze_rows = bronze_rows.where(F.col("timestamp") <= F.timestamp_millis(F.lit(cut.event_ms)))  # skips files
    return bronze_rows


def _is_retimed(table: Table) -> bool:
    """Say whether a step gives records another time than their own."""
    steps = (step for node in walk(table) if isinstance(node, Stream) for step in node.steps)
    return any(isinstance(step, Retime) for step in steps)
