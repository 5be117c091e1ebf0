"""How a topic's records spread: over its partitions, and over its keys. For `lakehouse status --skew`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Keys are counted over the last records only: the cost must not grow with the topic.
LOOKED_AT_MAX = 200_000
KEYS_SHOWN = 5

PARTITIONS = """
    SELECT topic_id, "partition", count(*) AS records, max(max(tick)) OVER (PARTITION BY topic_id) AS newest
    FROM bronze."{topic}" GROUP BY topic_id, "partition" ORDER BY newest, topic_id, "partition"
"""
# The newest ticks that together have no more records than are looked at; the newest one in any case.
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


def topics(layout: Layout) -> list[dict[str, Any]]:
    """Return, by topic of bronze, how its records spread over partitions, and which keys its last records have most.

    A share is of the records of one topic id: a topic that was recreated is listed with each of its ids, the present
    one last. A null key counts as a key. A topic without records is left out.
    """
    lake = reader.connect(layout)
    return [found for name in reader.names(layout, "bronze") if (found := _topic(lake, name))]


def _topic(lake: DuckDBPyConnection, name: str) -> dict[str, Any]:
    parts = lake.execute(PARTITIONS.format(topic=name)).fetchall()
    if not parts:
        return {}
    totals: dict[str, int] = {}
    for topic_id, _, records, _ in parts:
        totals[topic_id] = totals.get(topic_id, 0) + records
    first, last, looked_at = lake.execute(TICKS.format(topic=name, most=LOOKED_AT_MAX)).fetchall()[0]
    keys = lake.execute(KEYS.format(topic=name, first=first, most=LOOKED_AT_MAX, keys=KEYS_SHOWN)).fetchall()
    return {
        "name": name,
        "partitions": [
            {"topic_id": topic_id, "partition": partition, "records": n, "share": round(n / totals[topic_id], 4)}
            for topic_id, partition, n, _ in parts
        ],
        "looked_at": {"records": int(looked_at), "first_tick": first, "last_tick": last},
        "keys": [{"key": key, "records": n, "share": round(n / int(looked_at), 4)} for key, n in keys],
    }
