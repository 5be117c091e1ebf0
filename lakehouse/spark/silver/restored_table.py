"""A restored table: created with all that it keeps, and with what is visible of that."""

from __future__ import annotations

import json
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.properties import CLOCK
from lakehouse.semantics.time.clock import clock_from_plain
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.erased import add_erased_places
from lakehouse.spark.bronze.gaps import Gap
from lakehouse.spark.fold.fold_choice import choose_fold
from lakehouse.spark.fold.visibility import is_expired, is_final, is_unneeded, is_visible
from lakehouse.spark.jvm import folders
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.table import tables


def create_restored(
    open_table: OpenTable, kept_rows: DataFrame, final_rows: DataFrame, begin_properties: dict[str, str]
) -> int:
    """Create the Delta tables of a restored table; return the number of visible rows.

    kept_rows: all that the table keeps, and rows that have expired since: no change deletes those. final_rows: the
    final results that are out; for other tables the visible rows follow from the kept ones. begin_properties: see
    `tables.create_filled`. The state comes first: if the visible table exists, all does. Until then a mark says that
    an unfinished table was begun here, see `tables.remove_unfinished`.
    """
    folders.create_folder(open_table.spark, open_table.layout.restore_mark(open_table.name))
    row_count = _create_filled(open_table, kept_rows, final_rows, begin_properties)
    folders.remove_folder(open_table.spark, open_table.layout.restore_mark(open_table.name))
    return row_count


def _create_filled(
    open_table: OpenTable, kept_rows: DataFrame, final_rows: DataFrame, begin_properties: dict[str, str]
) -> int:
    table = open_table.table
    watermark = clock_from_plain(json.loads(begin_properties[CLOCK])).watermark if CLOCK in begin_properties else None
    table_fold = choose_fold(table)
    unneeded_rows, expired_rows = is_unneeded(table_fold, watermark, watermark), is_expired(table, watermark)
    kept_rows = kept_rows if unneeded_rows is None else kept_rows.where(~unneeded_rows)
    if not table.has_state:
        tables.create_filled(kept_rows, open_table, open_table.visible, begin_properties)
        return kept_rows.count()
    tables.create_filled(kept_rows, open_table, open_table.state, begin_properties)
    visible_rows = final_rows if is_final(table) else kept_rows.where(is_visible(table_fold))
    visible_rows = visible_rows if expired_rows is None else visible_rows.where(~expired_rows)
    visible_rows = visible_rows.select(
        *[F.col(f"`{name}`") for name in tables.visible_schema(open_table.spark, table).names]
    )
    tables.create_filled(visible_rows, open_table, open_table.visible, begin_properties)
    return visible_rows.count()


def lost_to_bronze(open_table: OpenTable, lost_ranges: list[Gap]) -> list[Gap]:
    """Return the parts of offsets that Kafka lost, of a table's topics, which this lake's bronze does not have either.

    Bronze takes a partition's records in one after the other: if it has earlier ones, it has these, or knows of a gap.
    """
    lake, topic_names = open_table.lake, open_table.table.stream.topics
    if not lost_ranges or not lake.exists(lake.layout.records):
        return lost_ranges
    own_topics = [name for name in topic_names if lake.exists(lake.layout.own_records(name))]
    rows = add_erased_places(lake, bronze.read_topic_records(lake, topic_names, own_topics))
    first_rows = rows.groupBy("topic_id", "partition").agg(F.min("offset").alias("offset")).collect()
    first_offsets = {(row["topic_id"], row["partition"]): row["offset"] for row in first_rows}
    still_lost = []
    for gap in lost_ranges:
        first_offset = first_offsets.get((gap.topic_id, gap.partition))
        if first_offset is None:
            still_lost.append(gap)
        elif first_offset > gap.from_offset:
            still_lost.append(replace(gap, to_offset=min(first_offset, gap.to_offset or first_offset)))
    return still_lost
