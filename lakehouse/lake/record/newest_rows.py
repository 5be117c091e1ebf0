"""Some of a topic's newest records in bronze: few enough that a look stays quick, however long the topic is."""

from __future__ import annotations

from typing import Any

from lakehouse.lake import reader
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files
from lakehouse.lake.sql import quote_literal
from lakehouse.lake.store import is_table

RECORDS_MAX = 500
TICKS = 20


def read_newest_rows(
    layout: Layout, coverage: TickCoverage, topic: str, columns: str, condition: str = "true"
) -> list[dict[str, Any]]:
    """Return at most 500 rows of a topic's last 20 ticks, in no order; none if bronze has no table for it.

    coverage: bronze's. columns, condition: in SQL. Raises StorageError.
    """
    path = reader.find_table_path(layout, "bronze", topic)
    if not is_table(path):
        return []
    newest = f"topic = {quote_literal(topic)} AND tick > {coverage.last_tick([topic]) - TICKS} AND {condition}"
    rows: list[dict[str, Any]] = files.read_rows_where(path, columns, newest, RECORDS_MAX).to_pylist()
    return rows
