"""Counts the records that Kafka has and bronze does not, by partition, without Spark."""

from __future__ import annotations

from collections.abc import Callable

from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.settings.config import Settings

Lag = dict[tuple[str, int], int]


def count_waiting(
    settings: Settings, app: App, cluster: Cluster, note_answer: Callable[[], None] = lambda: None
) -> Lag:
    """Return how many records wait, by topic and partition, in the topics that a run of `app` ingests.

    note_answer: called once Kafka has answered, before the lake is read. Raises KafkaUnavailable.
    """
    topic_names = cluster.names()
    topic_facts = cluster.topics(sorted({*app.topics, *settings.kafka.topics} & set(topic_names)))
    if (pattern := settings.kafka.topic_pattern) is not None:
        topic_facts |= cluster.topics(pattern)
    end_offsets = cluster.offsets((name, p) for name, fact in topic_facts.items() for p in range(fact.partitions))
    note_answer()
    # After Kafka: one that does not answer is told even if the lake can't be read.
    bronze_topics = reader.read_bronze_coverage(Layout(settings.lake.path)).topics
    # A recreated topic has other records at its offsets.
    next_offsets = {
        name: topic_state.next
        for name, topic_state in bronze_topics.items()
        if name in topic_facts and topic_state.id == topic_facts[name].id
    }
    return {
        (name, p): count_missing(next_offsets.get(name, {}).get(p), *kafka_offsets)
        for (name, p), kafka_offsets in end_offsets.items()
    }


def count_missing(next_offset: int | None, first_offset: int, end_offset: int) -> int:
    """Return how many records of a partition bronze lacks, of those that Kafka still has: from its first to its end.

    next_offset: the first that bronze lacks; None if it has nothing of the partition.
    """
    return max(end_offset - max(next_offset or 0, first_offset), 0)


def lag_by_topic(waiting_records: Lag) -> dict[str, dict[str, int]]:
    """Return the waiting records in JSON's form: by topic, then by partition."""
    records_by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), records in sorted(waiting_records.items()):
        records_by_topic.setdefault(topic, {})[str(partition)] = records
    return records_by_topic
