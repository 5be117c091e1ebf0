"""The records that Kafka lost before bronze had them, as bronze/gaps has them."""

from __future__ import annotations

from typing import Any

from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.store import is_table


def read_gaps(layout: Layout, topic: str | None = None) -> list[dict[str, Any]]:
    """Return the gaps that bronze wrote down, of one topic or of all, in the order in which they were found."""
    if not is_table(layout.gaps):
        return []
    gap_rows: list[dict[str, Any]] = reader.open_table(layout.gaps, "bronze/gaps").to_pyarrow_table().to_pylist()
    own_rows = [row for row in gap_rows if topic in (None, row["topic"])]
    return sorted(own_rows, key=lambda row: (row["tick"], row["found_at"]))


def read_lost_ends(layout: Layout, topic: str, tick: int) -> dict[str, dict[str, int]]:
    """Return the offsets at which a topic's deleted predecessors ended for bronze: {topic id: {partition: offset}}.

    They are those that bronze/gaps has up to a tick. One that is the present topic was only out of sight.
    """
    ends_by_topic_id: dict[str, dict[str, int]] = {}
    for gap in read_gaps(layout, topic):
        if gap["to_offset"] is None and gap["tick"] <= tick:
            topic_ends, partition = ends_by_topic_id.setdefault(gap["topic_id"], {}), str(gap["partition"])
            topic_ends[partition] = max(gap["from_offset"], topic_ends.get(partition, 0))
    return ends_by_topic_id
