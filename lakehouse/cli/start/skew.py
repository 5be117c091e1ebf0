"""The spread of a topic's records over its partitions, and over its keys, for `lakehouse status --skew`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Count keys in the last records only: the cost must not grow with the topic.
LOOKED_AT_MAX = 200_000
KEYS_SHOWN = 5

PARTITIONS = """
    SELECT topic_id, "partition", count(*) AS records, max(max(tick)) OVER (PARTITION BY topic_id) AS newest
    FROM bronze."{topic}" GROUP BY topic_id, "partition" ORDER BY newest, topic_id, "partition"
"""
# The newest ticks that together have no more records than that; the newest tick in any case.
TICKS = """
    SELECT coalesce(min(tick) FILTER (so_far <= {most}), max(tick)), max(tick),
        coalesce(max(so_far) FILTER (so_far <= {most}), {most})
    FROM (SELECT tick, sum(count(*)) OVER (ORDER BY tick DESC) AS so_far FROM bronze."{topic}" GROUP BY tick)
"""
KEYS = """
    SELECT key, count(*) AS records FROM (
        SELECT key FROM bronze."{topic}" WHERE tick >= {first}
        ORDER BY tick DESC, order_time DESC, "offset" DESC LIMIT {most}
    ) GROUP BY key ORDER BY records DESC, key LIMIT {keys}
"""


def topic_skews(layout: Layout) -> list[dict[str, Any]]:
    """Return, by topic of bronze, the spread of its records over partitions, and the most frequent of its last keys.

    A share is of the records of one topic id: a recreated topic is listed with each of its ids, the present one last. A
    null key counts as a key. A topic without records is left out.
    """
    connection = reader.connect_lake(layout)
    return [skew for name in reader.table_names(layout, "bronze") if (skew := _topic_skew(connection, name))]


def _topic_skew(connection: DuckDBPyConnection, topic_name: str) -> dict[str, Any]:
    partition_rows = connection.execute(PARTITIONS.format(topic=topic_name)).fetchall()
    if not partition_rows:
        return {}
    totals_by_id: dict[str, int] = {}
    for topic_id, _, records, _ in partition_rows:
        totals_by_id[topic_id] = totals_by_id.get(topic_id, 0) + records
    first_tick, last_tick, looked_at = connection.execute(
        TICKS.format(topic=topic_name, most=LOOKED_AT_MAX)
    ).fetchall()[0]
    key_rows = connection.execute(
        KEYS.format(topic=topic_name, first=first_tick, most=LOOKED_AT_MAX, keys=KEYS_SHOWN)
    ).fetchall()
    return {
        "name": topic_name,
        "partitions": [
            {
                "topic_id": topic_id,
                "partition": partition,
                "records": record_count,
                "share": round(record_count / totals_by_id[topic_id], 4),
            }
            for topic_id, partition, record_count, _ in partition_rows
        ],
        "looked_at": {"records": int(looked_at), "first_tick": first_tick, "last_tick": last_tick},
        "keys": [
            {"key": key, "records": record_count, "share": round(record_count / int(looked_at), 4)}
            for key, record_count in key_rows
        ],
    }
