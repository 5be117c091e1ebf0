"""Tombstones for an erased key in the topics that the lake reads: Kafka's compaction then removes the records there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakehouse.errors import ConfigError, NotFound, PlanError
from lakehouse.kafka.produce import ProducerRecord, produce
from lakehouse.kafka.topics import Cluster
from lakehouse.lake.erasure.erasure_log import Erasure, find_erasure
from lakehouse.lake.erasure.subject import ErasureSubject
from lakehouse.plan.app import App
from lakehouse.spark.history.erasable_records import check_subject, records_with_own_key
from lakehouse.spark.open_lake import OpenLake


def needs_tombstones(erasures: Iterable[Erasure], subject: ErasureSubject) -> bool:
    """Say whether tombstones have to be written now; an interrupted erasure has written them before it deleted rows.

    Raises ConfigError for a subject without a key, PlanError for an erasure that was interrupted and began without.
    """
    if not subject.keys:
        raise ConfigError(
            "erase: found --source without a key; expected --key STREAM=KEY, since a tombstone has the key of what it "
            "deletes. Leave --source out for records that are named by columns or offsets alone."
        )
    erasure = find_erasure(erasures, subject)
    if erasure is None or not erasure.is_between_steps:
        return True
    if not erasure.source:
        raise PlanError(
            "erase: found --source for an erasure that was interrupted and began without it; expected none, "
            "since bronze no longer has the records, whose places say where a tombstone goes. Leave --source out; the "
            "owner of the topic can write tombstones."
        )
    return False


def write_tombstones(
    lake: OpenLake,
    app: App,
    subject: ErasureSubject,
    servers: str,
    options: Mapping[str, str],
    *,
    has_written_before: bool = False,
) -> dict[str, int]:
    """Write a tombstone beside each spelling of a subject's keys, in each partition that has it; return them by topic.

    A key's records lie where their producer put them, and compaction goes by partition and bytes. Records of an earlier
    topic of the same name need none. has_written_before: an earlier erasure has, so bronze may lack the key. Raises
    PlanError, ConfigError, KafkaUnavailable, NotFound for a topic, and for a key of which bronze has no record.
    """
    check_subject(app, subject)
    tombstones: dict[str, list[ProducerRecord]] = {}
    for stream, key in subject.keys.items():
        source = app.source(stream)
        topic = source.topic
        rows = records_with_own_key(lake, app, source, key).select("topic_id", "partition", "key").distinct().collect()
        if not rows and not has_written_before:
            raise NotFound(
                f"erase: bronze has no record of stream {stream!r} with this key; expected one, since the places of "
                f"the records say in which partitions of topic {topic} a tombstone goes. Leave --source out; the owner "
                "of the topic can write tombstones."
            )
        topic_id = Cluster(servers, options).topics([topic])[topic].id
        places = sorted((row["partition"], bytes(row["key"])) for row in rows if row["topic_id"] == topic_id)
        records = [ProducerRecord(data, None, partition=partition) for partition, data in places]
        tombstones.setdefault(topic, []).extend(records)
    return {topic: produce(servers, options, topic, records) for topic, records in tombstones.items() if records}
