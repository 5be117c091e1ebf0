"""Counts the records that Kafka has and bronze does not, by partition, without Spark."""

from __future__ import annotations

from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.settings.config import Settings

Lag = dict[tuple[str, int], int]


def count_waiting(settings: Settings, app: App, cluster: Cluster) -> Lag:
    """Return how many records wait, by topic and partition, in the topics that a run of `app` ingests.

    Raises KafkaUnavailable.
    """
    topic_names = cluster.names()
    topic_facts = cluster.topics(sorted({*app.topics, *settings.kafka.topics} & set(topic_names)))
    if (pattern := settings.kafka.topic_pattern) is not None:
        topic_facts |= cluster.topics(pattern)
    end_offsets = cluster.offsets((name, p) for name, fact in topic_facts.items() for p in range(fact.partitions))
    # After Kafka: one that does not answer is told even if the lake can't be read.
    bronze_topics = reader.read_bronze_coverage(Layout(settings.lake.path)).topics
    # A recreated topic has other records at its offsets.
    next_offsets = {
        name: topic_state.next
        for name, topic_state in bronze_topics.items()
        if name in topic_facts and topic_state.id == topic_facts[name].id
    }
    return {
        (name, p): max(end_offset - next_offsets.get(name, {}).get(p, first_offset), 0)
        for (name, p), (first_offset, end_offset) in end_offsets.items()
    }


def lag_by_topic(waiting_records: Lag) -> dict[str, dict[str, int]]:
    """Return the waiting records in JSON's form: by topic, then by partition."""
    records_by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), records in sorted(waiting_records.items()):
        records_by_topic.setdefault(topic, {})[str(partition)] = records
    return records_by_topic
