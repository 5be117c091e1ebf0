"""How many records Kafka has that bronze does not, by partition; read without Spark."""

from __future__ import annotations

from lakehouse.kafka.topics import Cluster
from lakehouse.lake import reader
from lakehouse.lake.layout import Layout
from lakehouse.plan.app import App
from lakehouse.settings.config import Settings

Lag = dict[tuple[str, int], int]


def lag(settings: Settings, app: App, cluster: Cluster) -> Lag:
    """Return the records that wait, by topic and partition, of the topics that a run of `app` ingests.

    For a lake that is not on this machine's file system all records of Kafka wait, as for a new one. Raises
    KafkaUnavailable.
    """
    root = settings.lake.path
    known = {} if "://" in root else reader.bronze_covers(Layout(root)).get("topics", {})
    names = cluster.names()
    facts = cluster.topics(sorted({*app.topics, *settings.kafka.topics} & set(names)))
    if (pattern := settings.kafka.topic_pattern) is not None:
        facts |= cluster.topics(pattern)
    ends = cluster.offsets((name, p) for name, fact in facts.items() for p in range(fact.partitions))
    # A topic that was recreated has other records at its offsets.
    next_of = {name: said["next"] for name, said in known.items() if name in facts and said["id"] == facts[name].id}
    return {
        (name, p): max(end - next_of.get(name, {}).get(str(p), first), 0) for (name, p), (first, end) in ends.items()
    }


def by_topic(found: Lag) -> dict[str, dict[str, int]]:
    """Return it as JSON has it: by topic, then by partition."""
    said: dict[str, dict[str, int]] = {}
    for (topic, partition), records in sorted(found.items()):
        said.setdefault(topic, {})[str(partition)] = records
    return said
