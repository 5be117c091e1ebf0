"""The ids that topics had, and whose clock a record moves (`plan.lineage.clocks`, `semantics.operators.eras`).

A record's position has no topic id. Which one its topic had is told by its tick: a tick has records of one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.lineage.clocks import shared_clocks
from lakehouse.plan.stream import Stream
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.operators.eras import TopicIds, begins
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.step import era_of

Ids = Sequence[tuple[str, int]]


@dataclass(slots=True)
class KnownIds:
    """What is known of a lake's topics as long as it is open: up to which tick, and the ids, each with its first tick.

    Threads share it: what one forgets another asks for again.
    """

    known: dict[str, tuple[int, Ids]] = field(default_factory=dict)


def topic_ids(lake: OpenLake, stream: Stream, to: int) -> TopicIds:
    """Return the ids that a stream's topics had up to a tick, and perhaps later ones."""
    known = lake.fact(KnownIds).known
    has = {topic: known.get(topic, (NO_TICK, ())) for topic in stream.topics}
    if all(tick >= to for tick, _ in has.values()):
        return {topic: ids for topic, (_, ids) in has.items()}
    covers = bronze.last_covers(lake.spark, lake.layout.records, to)
    last = {topic: ids[-1][0] if ids else None for topic, (_, ids) in has.items()}
    # An id that is gone never comes back: where it is the one that was known, there was no other one in between.
    if covers is None or any(covers["topics"].get(topic, {}).get("id") != of for topic, of in last.items()):
        after = min(tick for tick, _ in has.values())
        rows = bronze.between(bronze.of_stream(lake, stream), after, to)
        found = rows.groupBy("topic", "topic_id").agg(F.min("tick").alias("tick")).orderBy("tick").collect()
        for row in found:
            tick, ids = has[row["topic"]]
            if row["topic_id"] not in [topic_id for topic_id, _ in ids]:
                has[row["topic"]] = tick, (*ids, (row["topic_id"], row["tick"]))
    for topic, (tick, ids) in has.items():
        known[topic] = max(tick, to), ids
    return {topic: ids for topic, (_, ids) in has.items()}


def with_clocks(lake: OpenLake, stream: Stream, records: DataFrame, to: int) -> DataFrame:
    """Return a stream's records with `_part`, the partition whose clock each of them moves."""
    at, shared = F.col("_position"), shared_clocks(stream)
    ids = topic_ids(lake, stream, to)
    names = [F.concat_ws("/", at["topic"], _id_at(at, ids), at["partition"])]
    for group in dict.fromkeys(shared.values()):
        era = era_of(begins(ids, group), at["tick"])
        name = F.concat_ws("/", F.lit("+".join(group)), era.cast("string"), at["partition"])
        names.append(F.when(at["topic"].isin(*group), name))
    return records.withColumn("_part", F.coalesce(*reversed(names)))


def _id_at(at: Column, ids: TopicIds) -> Column:
    """The id that a record's topic had in its tick; empty where bronze has none, as of an intervention."""
    found = F.lit(None).cast("string")
    for topic, known in ids.items():
        for topic_id, tick in known:
            found = F.when((at["topic"] == topic) & (at["tick"] >= tick), topic_id).otherwise(found)
    own = F.when(F.col("_topic_id") != "", F.col("_topic_id"))
    return F.coalesce(own, found, F.lit(""))
