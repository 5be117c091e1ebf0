"""A sample of a topic: the newest records of each partition."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.kafka.drain import read_topic, topic_offsets
from lakehouse.kafka.topics import Cluster
from lakehouse.semantics.record import Record


def read_sample(cluster: Cluster, options: Mapping[str, str], topic: str, count: int) -> list[Record]:
    """Return about `count` records of a topic, as many of each partition. Raises NotFound, KafkaUnavailable.

    A partition with fewer records has them all; where Kafka compacts a topic or a producer uses transactions, there are
    fewer records than offsets.
    """
    partition_count = max(1, len(topic_offsets(cluster, topic)))
    messages = read_topic(cluster, options, topic, last_offsets=-(-count // partition_count))
    records = []
    for number, message in enumerate(messages):
        partition, offset, (kind, timestamp) = message.partition(), message.offset(), message.timestamp()
        assert partition is not None
        assert offset is not None
        record = Record(
            topic, "", partition, offset, timestamp if kind else 0, message.key(), message.value(), 1, number
        )
        records.append(record)
    return records
