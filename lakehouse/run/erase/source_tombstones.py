"""Tombstones for an erased key in the topics that the lake reads: Kafka's compaction then removes the records there."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.erasure.subject import ErasureSubject
from lakehouse.plan.app import App
from lakehouse.spark.history.erasable_records import check_subject, records_with_own_key
from lakehouse.spark.open_lake import OpenLake


def write_tombstones(
    lake: OpenLake, app: App, subject: ErasureSubject, servers: str, options: Mapping[str, str]
) -> dict[str, int]:
    """Write a tombstone beside each spelling of a subject's keys, in each partition that has it; return them by topic.

    A key's records lie where their producer put them, and compaction goes by partition and bytes. Records of an earlier
    topic of the same name need none. Raises PlanError, ConfigError, KafkaUnavailable, NotFound for a topic.
    """
    check_subject(app, subject)
    counts: dict[str, int] = {}
    for stream, key in subject.keys.items():
        source = app.source(stream)
        topic = source.topic
        topic_id = Cluster(servers, options).topics([topic])[topic].id
        rows = records_with_own_key(lake, app, source, key).where(f"topic_id = '{topic_id}'")
        spellings = rows.select("partition", "key").distinct().collect()
        places = sorted((row["partition"], bytes(row["key"])) for row in spellings)
        tombstones = [ProducerRecord(data, None, partition=partition) for partition, data in places]
        counts[topic] = counts.get(topic, 0) + produce(servers, options, topic, tombstones)
    return counts
