"""A stream's own records, as they are published: those in bronze that fit, and bad ones once they were fixed."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.expression import Expression
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meetings
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.changelog.changefeed import CHANGE_COLUMNS
from lakehouse.spark.expressions import column_of
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.past.refold import replaced
from lakehouse.spark.table.input import Input, not_skipped


def stream_events(
    lake: OpenLake, stream: Stream, after: int, to: int, place: Expression | None = None, covered: str | None = None,
) -> DataFrame:  # fmt: skip
    """Return a stream's records of the ticks in (after, to], in position order, with `_null_key` and CHANGE_COLUMNS.

    Bad records that were fixed in these ticks are included, at their own positions. place: a custom partitioner's
    number, as `_place`. covered: offsets before which records are left out, as JSON.
    """
    sources = [source.name for source in stream.decodes]
    fixed = interventions.fixed_in_stream(lake, sources, after, to)

    # A record that was fixed after this lake had published its tick lies before the covered offsets, but is not in the
    # topic. What another lake covers may have it.
    lacking = None if fixed is None else not_skipped(fixed, covered if after == NO_TICK else None)

    def counting(rows: DataFrame) -> DataFrame:
        return rows if lacking is None else replaced(rows, lacking)

    # A covered record still meets later ones. Those of earlier ticks do so by themselves, in their own order.
    if covered is not None and meetings(stream) and bronze.has_all(lake, stream.topics, json.loads(covered), after):
        covered = None
    frame = Input(lake, stream, covered, counting).frame(after, to)
    frame = frame.withColumn("_event_time_ms", F.col("rowtime"))
    placed = [] if place is None else [column_of(place).cast("bigint").alias("_place")]
    names = [column.name for column in stream.columns]
    return frame.select(*names, *placed, "_null_key", *CHANGE_COLUMNS).orderBy("_position")
