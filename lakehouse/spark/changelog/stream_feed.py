"""A stream's own records, for a sink: those in bronze that fit the schema, and bad ones once they are fixed."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.expression.expression import Expression
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import meeting_streams
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.changelog.changefeed import CHANGE_COLUMNS
from lakehouse.spark.expression.declared import column_of
from lakehouse.spark.history.refold import replace_fixed
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.table.input import TableInput, drop_skipped


def stream_events(
    lake: OpenLake,
    stream: Stream,
    after_tick: int,
    to_tick: int,
    place_expression: Expression | None = None,
    covered: str | None = None,
) -> DataFrame:
    """Return a stream's records of the ticks in (after_tick, to_tick], in position order.

    After the columns come `_null_key` and CHANGE_COLUMNS. Bad records that were fixed in these ticks are included, at
    their own positions.

    place_expression: a custom partitioner's number, returned as `_place`. covered: offsets before which records are
    left out, as JSON.
    """
    sources = [source.name for source in stream.decodes]
    fixed_rows = interventions.read_fixed_in_stream(lake, sources, after_tick, to_tick)

    # A record that was fixed after this lake had published its tick lies before the covered offsets, but is not in the
    # topic. If another lake covers the offsets, the topic may have it.
    lacking_rows = None if fixed_rows is None else drop_skipped(fixed_rows, covered if after_tick == NO_TICK else None)

    def with_fixes(bronze_rows: DataFrame) -> DataFrame:
        return bronze_rows if lacking_rows is None else replace_fixed(bronze_rows, lacking_rows)

    # A covered record still meets later ones. If bronze has all of them in earlier ticks, joins read them there.
    if (
        covered is not None
        and meeting_streams(stream)
        and bronze.has_all_records(lake, stream.topics, json.loads(covered), after_tick)
    ):
        covered = None
    frame = TableInput(lake, stream, covered, with_fixes).frame(after_tick, to_tick)
    frame = frame.withColumn("_event_time_ms", F.col("rowtime"))
    place_columns = [] if place_expression is None else [column_of(place_expression).cast("bigint").alias("_place")]
    column_names = [column.name for column in stream.columns]
    return frame.select(*column_names, *place_columns, "_null_key", *CHANGE_COLUMNS).orderBy("_position")
