"""The rows that a lake has of a snapshot topic that was deleted or emptied: nothing in Kafka tells when they go.

The topic is filled again from the snapshots that there are. A row that went meanwhile is in none of them, so without a
tombstone it would stay in the lake's tables.
"""

from __future__ import annotations

from typing import NamedTuple

from lakehouse.kafka.snapshot_topic import SnapshotTopic
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.lake.record.bronze_rows import BronzeRows


class KnownRows(NamedTuple):
    """The keys of rows, and the time of the newest record that they come from, in milliseconds."""

    keys: set[bytes]
    newest_ms: int


def known_rows(layout: Layout, topic: SnapshotTopic) -> KnownRows | None:
    """Return the rows that bronze has of a topic, if it has them from one that is no longer there; else None.

    Raises NotFound, StorageError for a bronze that can't be read.
    """
    state = reader.read_bronze_coverage(layout).topics.get(topic.topic)
    if state is None or (state.id == topic.id and topic.snapshot_ms is not None):
        return None
    bronze_rows = BronzeRows(layout, topic.topic)
    if bronze_rows.newest_ms is None:
        return None
    times: dict[bytes, int] = {}
    keys: set[bytes] = set()
    for chunk in bronze_rows.read():
        for row in chunk:
            # As the topic itself is folded: partitions may have been added, so the order of records is not enough.
            if row.key is None or row.timestamp < times.get(row.key, row.timestamp):
                continue
            times[row.key] = row.timestamp
            (keys.discard if row.value is None else keys.add)(row.key)
    return KnownRows(keys, bronze_rows.newest_ms)
