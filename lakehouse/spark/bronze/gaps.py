"""Gaps: offsets that Kafka lost before bronze had them. They are found, reported exactly, and recorded if accepted."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.record.lost_records import read_gaps
from lakehouse.spark.bronze.bronze import BronzeState
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import check_epoch, new_table

CUT = "the partition's log was cut"
SCHEMA = (
    "topic string, topic_id string, partition int, from_offset bigint, to_offset bigint, reason string, "
    "tick bigint, found_at timestamp"
)


@dataclass(frozen=True, slots=True)
class Gap:
    """Lost offsets [from_offset, to_offset) of a partition; `to_offset` is None if Kafka does not know it."""

    topic: str
    topic_id: str
    partition: int
    from_offset: int
    to_offset: int | None
    reason: str

    @property
    def is_cut(self) -> bool:
        """Whether the log was cut: Kafka will give these offsets to other records. Such a gap can't be accepted."""
        return self.reason.endswith(CUT)

    def __str__(self) -> str:
        end_text = self.to_offset if self.to_offset is not None else "unknown"
        partition_text = f"topic {self.topic} (id {self.topic_id}) partition {self.partition}"
        return f"{partition_text}: offsets [{self.from_offset}, {end_text}): {self.reason}"


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic as Kafka has it: its id, and the earliest and the next offset of each partition."""

    id: str
    offsets: Mapping[int, tuple[int, int]]


def find_gaps(
    bronze_topics: Mapping[str, TopicState], kafka_topics: Mapping[str, KafkaTopic], topics: Iterable[str]
) -> list[Gap]:
    """Compare what bronze has of these topics with what Kafka has; return the lost offsets."""
    gaps: list[Gap] = []
    for name in topics:
        bronze_topic = bronze_topics.get(name)
        if bronze_topic is None:
            continue
        kafka_topic = kafka_topics.get(name)
        if kafka_topic is None or kafka_topic.id != bronze_topic.id:
            if not bronze_topic.last:
                continue  # no tick has a record of it: see `gaps_of_recreated_topics`
            reason = (
                "the topic was deleted"
                if kafka_topic is None
                else f"the topic was deleted and recreated (id {kafka_topic.id})"
            )
            gaps += [
                Gap(name, bronze_topic.id, p, offset, None, reason) for p, offset in sorted(bronze_topic.next.items())
            ]
            continue
        for partition, (earliest, end) in sorted(kafka_topic.offsets.items()):
            # A partition that bronze does not know is new: bronze expects its first record.
            expected_offset = bronze_topic.next.get(partition, 0)
            if earliest > expected_offset:
                reason = "expired before it was ingested (retention, or records deleted)"
                gaps.append(Gap(name, bronze_topic.id, partition, expected_offset, earliest, reason))
            elif end < expected_offset:
                reason = f"Kafka ends at offset {end}, behind what bronze has: {CUT}"
                gaps.append(Gap(name, bronze_topic.id, partition, end, expected_offset, reason))
    return gaps


def gaps_of_recreated_topics(
    bronze_topics: Mapping[str, TopicState], kafka_topics: Mapping[str, KafkaTopic]
) -> list[Gap]:
    """Return, as gaps, the topics that were recreated before any tick had a record of them.

    Nothing is known to be lost, so ingest goes on; the gap says that the content of the deleted topic is unknown. The
    state must forget the topic with its old id: records of the new topic belong to another id.
    """
    reason = "the topic was deleted and recreated (id {}) before bronze had a record of it"
    return [
        Gap(name, bronze_topic.id, partition, offset, None, reason.format(kafka_topics[name].id))
        for name, bronze_topic in sorted(bronze_topics.items())
        if name in kafka_topics and kafka_topics[name].id != bronze_topic.id and not bronze_topic.last
        for partition, offset in sorted((bronze_topic.next or {0: 0}).items())
    ]


def accept_gaps(
    topics: Mapping[str, TopicState], gaps: Iterable[Gap], kafka_topics: Mapping[str, KafkaTopic]
) -> dict[str, TopicState]:
    """Return the topics with these gaps accepted: bronze expects the offsets after them, and forgets a lost topic.

    A lost topic is forgotten once Kafka has another one of its name. Until then its place is kept: a topic that was
    only out of sight would else be read from its first record again.
    """
    topics_after, lost_ends = dict(topics), set[tuple[str, int, int]]()
    for gap in gaps:
        bronze_topic = topics_after.get(gap.topic)
        if gap.to_offset is None:
            lost_ends.add((gap.topic_id, gap.partition, gap.from_offset))
        elif bronze_topic is not None and bronze_topic.id == gap.topic_id:
            expected_offset = max(gap.to_offset, bronze_topic.next.get(gap.partition, 0))
            topics_after[gap.topic] = replace(bronze_topic, next={**bronze_topic.next, gap.partition: expected_offset})
    for name, bronze_topic in topics.items():
        # A loss that was accepted earlier is not that of the records since.
        places = (topics_after[name].next or {0: 0}).items()
        is_lost = all((bronze_topic.id, partition, offset) in lost_ends for partition, offset in places)
        if is_lost and name in kafka_topics and kafka_topics[name].id != bronze_topic.id:
            del topics_after[name]
    return topics_after


def read_accepted_gaps(lake: OpenLake) -> list[Gap]:
    """Return the recorded gaps."""
    columns = [column.name for column in fields(Gap)]
    return [Gap(**{name: row[name] for name in columns}) for row in read_gaps(lake.layout)]


def record_gaps(lake: OpenLake, gaps: list[Gap], state: BronzeState) -> None:
    """Record accepted gaps, once each. `state`: bronze after the last complete tick before them."""
    if not lake.exists(lake.layout.gaps):
        new_table(lake.spark, lake.layout.gaps, SCHEMA).execute()
    recorded_ranges = {(g.topic_id, g.partition, g.from_offset, g.to_offset) for g in read_accepted_gaps(lake)}
    gaps = [g for g in gaps if (g.topic_id, g.partition, g.from_offset, g.to_offset) not in recorded_ranges]
    found_at = datetime.datetime.now(datetime.UTC)
    rows = [
        (g.topic, g.topic_id, g.partition, g.from_offset, g.to_offset, g.reason, state.tick, found_at) for g in gaps
    ]
    if rows:
        # A gap recorded twice does no harm; but a writer that lost bronze may have gaps unknown to its successor.
        check_epoch(lake.spark, lake.bronze, state.epoch)
        lake.spark.createDataFrame(rows, SCHEMA).coalesce(1).write.format("delta").mode("append").save(lake.layout.gaps)
