"""The ids that topics had, and whose clock a record moves (`plan.lineage.clocks`, `semantics.operators.eras`).

A record's position has no topic id. Its tick gives the id: a tick has a topic's records under one id only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.lineage.clocks import shared_clocks
from lakehouse.plan.stream import Stream
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.operators.eras import TopicIds, era_starts
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.step import era_of

Ids = Sequence[tuple[str, int]]


@dataclass(slots=True)
class KnownTopicIds:
    """The known ids of a lake's topics while it is open: up to which tick, and the ids, each with its first tick.

    Threads share it: a thread reads again what another has overwritten.
    """

    ids_by_topic: dict[str, tuple[int, Ids]] = field(default_factory=dict)


def topic_ids(lake: OpenLake, stream: Stream, to_tick: int) -> TopicIds:
    """Return the ids that a stream's topics had up to a tick, and perhaps later ones."""
    known_ids = lake.cached_fact(KnownTopicIds).ids_by_topic
    ids_by_topic = {topic: known_ids.get(topic, (NO_TICK, ())) for topic in stream.topics}
    if all(tick >= to_tick for tick, _ in ids_by_topic.values()):
        return {topic: ids for topic, (_, ids) in ids_by_topic.items()}
    coverage = bronze.last_coverage(lake.spark, lake.layout.records, to_tick)
    last_ids = {topic: ids[-1][0] if ids else None for topic, (_, ids) in ids_by_topic.items()}
    # An id that is gone never comes back: if the last id is the known one, there was no other in between.
    if coverage is None or last_ids != {
        topic: coverage.topics[topic].id if topic in coverage.topics else None for topic in last_ids
    }:
        after_tick = min(tick for tick, _ in ids_by_topic.values())
        rows = bronze.read_stream_ticks(lake, stream, after_tick, to_tick)
        new_ids = rows.groupBy("topic", "topic_id").agg(F.min("tick").alias("tick")).orderBy("tick").collect()
        for row in new_ids:
            tick, ids = ids_by_topic[row["topic"]]
            if row["topic_id"] not in [topic_id for topic_id, _ in ids]:
                ids_by_topic[row["topic"]] = tick, (*ids, (row["topic_id"], row["tick"]))
    for topic, (tick, ids) in ids_by_topic.items():
        known_ids[topic] = max(tick, to_tick), ids
    return {topic: ids for topic, (_, ids) in ids_by_topic.items()}


def with_clocks(lake: OpenLake, stream: Stream, records: DataFrame, to_tick: int) -> DataFrame:
    """Return a stream's records with `_part`, the partition whose clock each of them moves."""
    position, shared_groups = F.col("_position"), shared_clocks(stream)
    ids = topic_ids(lake, stream, to_tick)
    clock_names = [F.concat_ws("/", position["topic"], _id_at(position, ids), position["partition"])]
    for group in dict.fromkeys(shared_groups.values()):
        era = era_of(era_starts(ids, group), position["tick"])
        name = F.concat_ws("/", F.lit("+".join(group)), era.cast("string"), position["partition"])
        clock_names.append(F.when(position["topic"].isin(*group), name))
    return records.withColumn("_part", F.coalesce(*reversed(clock_names)))


def _id_at(position: Column, ids: TopicIds) -> Column:
    """Return the id that a record's topic had in its tick; empty if bronze has none, as for an intervention."""
    id_column = F.lit(None).cast("string")
    for topic, known_ids in ids.items():
        for topic_id, tick in known_ids:
            id_column = F.when((position["topic"] == topic) & (position["tick"] >= tick), topic_id).otherwise(id_column)
    own_id = F.when(F.col("_topic_id") != "", F.col("_topic_id"))
    return F.coalesce(own_id, id_column, F.lit(""))
