"""A restored table: created with all that it keeps, and with what is visible of that."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.lake.properties import CLOCK
from lakehouse.spark import folders
from lakehouse.spark.open_lake import OpenTable
from lakehouse.spark.operators.clock import state_of
from lakehouse.spark.operators.shown import expired, is_final, is_visible, leaving
from lakehouse.spark.table import tables


def create(opened: OpenTable, kept: DataFrame, final: DataFrame, begins: dict[str, str]) -> int:
    """Create the Delta tables of a table; return the number of visible rows. begins: see `tables.create_filled`.

    kept: all that the table keeps, with what has left it since: no change tells of that. final: the final results that
    are out; of other tables what is visible follows from what is kept. The state comes first: where the visible table
    is there, all is. Until then a mark says that what is there of it was begun here, see `tables.remove_begun`.
    """
    folders.create(opened.spark, opened.layout.begun(opened.name))
    count = _create(opened, kept, final, begins)
    folders.remove(opened.spark, opened.layout.begun(opened.name))
    return count


def _create(opened: OpenTable, kept: DataFrame, final: DataFrame, begins: dict[str, str]) -> int:
    table = opened.table
    watermark = state_of(json.loads(begins[CLOCK])).watermark if CLOCK in begins else None
    gone, old = leaving(table, watermark, watermark), expired(table, watermark)
    kept = kept if gone is None else kept.where(~gone)
    if not table.has_state:
        tables.create_filled(kept, opened, opened.visible, begins)
        return kept.count()
    tables.create_filled(kept, opened, opened.state, begins)
    seen = final if is_final(table) else kept.where(is_visible(table))
    seen = seen if old is None else seen.where(~old)
    seen = seen.select(*[F.col(f"`{name}`") for name in tables.schema(opened.spark, table).names])
    tables.create_filled(seen, opened, opened.visible, begins)
    return seen.count()
