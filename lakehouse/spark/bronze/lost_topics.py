"""Topics that were deleted, and recreated under the same name: what bronze has of the earlier ones."""

from __future__ import annotations

from pyspark.sql import functions as F

from lakehouse.spark.open_lake import OpenLake


def read_lost_ends(lake: OpenLake, topic: str, tick: int) -> dict[str, dict[str, int]]:
    """Return the offsets at which a topic's deleted predecessors ended for bronze: {topic id: {partition: offset}}.

    They are those that bronze/gaps has up to a tick. One that is the present topic was only out of sight.
    """
    if not lake.exists(lake.layout.gaps):
        return {}
    is_lost = (F.col("topic") == topic) & F.col("to_offset").isNull() & (F.col("tick") <= tick)
    ends_by_topic_id: dict[str, dict[str, int]] = {}
    lost_rows = lake.read(lake.layout.gaps).where(is_lost).orderBy("tick", "found_at")
    for topic_id, partition, offset in map(tuple, lost_rows.select("topic_id", "partition", "from_offset").collect()):
        topic_ends = ends_by_topic_id.setdefault(topic_id, {})
        topic_ends[str(partition)] = max(offset, topic_ends.get(str(partition), 0))
    return ends_by_topic_id
