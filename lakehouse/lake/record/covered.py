"""The records that a restored table held from its beginning: those that its changelog covers.

Bronze of the lake may have them, too, if Kafka still had them; the table does not take them in again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.moment import files
from lakehouse.lake.properties import SKIP
from lakehouse.lake.sql import quote_literal
from lakehouse.lake.store import is_table


def condition_of_own_records(layout: Layout, table: str) -> str | None:
    """Return a condition in SQL for the rows of bronze that a table takes in itself; None for one without a restore."""
    covered_offsets: dict[str, dict[str, int]] = json.loads(reader.read_table_properties(layout, table).get(SKIP, "{}"))
    if not covered_offsets:
        return None
    parts = [
        f'(topic_id = {quote_literal(topic_id)} AND "partition" = {int(partition)} AND "offset" < {int(end)})'
        for topic_id, partitions in covered_offsets.items()
        for partition, end in partitions.items()
    ]
    return f"NOT ({' OR '.join(parts) or 'false'})"


def count_records(layout: Layout, topics: Iterable[str], condition: str) -> int:
    """Return how many records of bronze's topics meet a condition in SQL."""
    return sum(_count_of_topic(layout, topic, condition) for topic in topics)


def _count_of_topic(layout: Layout, topic: str, condition: str) -> int:
    path = reader.find_table_path(layout, "bronze", topic)
    if not is_table(path):
        return 0
    predicate = f"topic = {quote_literal(topic)} AND {condition}"
    return int(files.read_rows_where(path, "count(*) AS records", predicate).to_pylist()[0]["records"])
