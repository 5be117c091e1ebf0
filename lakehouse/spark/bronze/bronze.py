"""Bronze: every record ever seen, bytes as they were, and the ticks that number them.

One append and one commit a tick, however many topics there are. The commit of the main table comes last and marks the
tick complete; a topic with a physical table of its own is appended before it. The commit says what the tick covers:

    {"tick": 7, "topics": {"flights": {"id": "KzT...", "next": {"0": 120}, "last": {"0": 7}, "order": {"0": 1357}}}}

`next` is the first offset not yet here, `last` the tick that last moved the partition, `order` the order time
(milliseconds) that the partition's rows carried into the tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.lake.commit_log import covers
from lakehouse.lake.place import own_of
from lakehouse.lake.record.order_times import order_times
from lakehouse.plan.stream import Stream
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.spark.folders import names
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import log_of, new_table, open_epoch

SCHEMA = (
    "topic string, topic_id string, partition int, offset bigint, timestamp timestamp, timestamp_type int, "
    "headers array<struct<key: string, value: binary>>, key binary, value binary, tick bigint, order_time timestamp"
)
COLUMNS = [
    column.strip().split(" ")[0] for column in SCHEMA.replace("struct<key: string, value: binary>", "s").split(",")
]
PROPERTIES = {
    "delta.checkpointInterval": "100",
    # Statistics on the columns that reads select by; on bytes they would be pure cost.
    "delta.dataSkippingStatsColumns": "partition,offset,timestamp,tick,order_time",
    "delta.appendOnly": "true",
    "delta.enableInCommitTimestamps": "true",
}


@dataclass(frozen=True, slots=True)
class TopicState:
    """How far bronze is with one topic. Offsets and ticks by partition; order times in milliseconds."""

    id: str
    next: Mapping[int, int] = field(default_factory=dict)
    last: Mapping[int, int] = field(default_factory=dict)
    order: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BronzeState:
    """How far bronze is: its epoch, the last complete tick, and each topic."""

    epoch: int = 0
    tick: int = NO_TICK
    topics: Mapping[str, TopicState] = field(default_factory=dict)

    def covers(self) -> dict[str, Any]:
        """Return the metadata of the tick's commit."""
        topics = {
            name: {"id": t.id, "next": _by_text(t.next), "last": _by_text(t.last), "order": _by_text(t.order)}
            for name, t in self.topics.items()
        }
        return {"tick": self.tick, "topics": topics}


def _by_text(values: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): value for partition, value in values.items()}


def _by_number(values: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): value for partition, value in values.items()}


def state_of(covers: Mapping[str, Any], epoch: int) -> BronzeState:
    """Return the state from a commit's metadata; its order times are those before the tick's own rows."""
    topics = {
        name: TopicState(t["id"], _by_number(t["next"]), _by_number(t["last"]), _by_number(t["order"]))
        for name, t in covers["topics"].items()
    }
    return BronzeState(epoch, covers["tick"], topics)


def create(lake: OpenLake, own: Iterable[str] = ()) -> None:
    """Create the bronze tables that do not exist yet."""
    for path in (lake.layout.records, *(lake.layout.own_records(topic) for topic in own)):
        if not lake.exists(path):
            builder = new_table(lake.spark, path, SCHEMA).partitionedBy("topic")
            for name, value in PROPERTIES.items():
                builder = builder.property(name, value)
            builder.execute()


def own_tables(lake: OpenLake) -> list[str]:
    """Return the topics that have a physical table of their own in the lake, whichever application declares them."""
    folder = lake.layout.own_records("")
    return [name for name in names(lake.spark, folder) if lake.exists(lake.layout.own_records(name))]


def half_written(lake: OpenLake, tick: int) -> list[str]:
    """Return the topics whose own table has a tick after the last complete one: a killed ingest left it."""
    own = own_tables(lake)
    return [topic for topic in own if lake.progress(own_of(lake.layout, topic)).tick > tick]


def take_over(lake: OpenLake) -> BronzeState:
    """Open the next epoch of bronze and of its own tables; return the state that the new writer goes on from."""
    own = own_tables(lake)
    places = [*(own_of(lake.layout, topic) for topic in own), lake.bronze]
    # One number for all of them, whichever tables a killed writer had opened: a tick is written under one epoch.
    epoch = 1 + max(lake.progress(place).epoch for place in places)
    for place in places:
        open_epoch(lake.spark, place, epoch)
    return replace(read_state(lake, own), epoch=epoch)


def read_state(lake: OpenLake, own: Iterable[str] = ()) -> BronzeState:
    """Return how far bronze is, from the last tick's commit, or from the rows if the log no longer has it."""
    progress = lake.progress(lake.bronze)
    if progress.tick == NO_TICK:
        return BronzeState(progress.epoch)
    covers = last_covers(lake.spark, lake.layout.records, progress.tick)
    if covers is None:
        return replace(state_from_rows(lake, own), epoch=progress.epoch)
    return with_order_times(lake, own, state_of(covers, progress.epoch))


def last_covers(spark: SparkSession, path: str, tick: int | None = None) -> dict[str, Any] | None:
    """Return the metadata of the last tick's commit, or a given tick's, in a table's log; None if the log has none."""
    return covers(log_of(spark, path), tick)


def next_offsets(lake: OpenLake, topic: str, tick: int) -> dict[str, dict[str, int]]:
    """Return the first offset of a topic after a complete tick, from its commit: {topic id: {partition: offset}}."""
    covers = last_covers(lake.spark, lake.layout.records, tick)
    if covers is not None and topic in covers["topics"]:
        found = covers["topics"][topic]
        return {found["id"]: found["next"]}
    own = [topic] if lake.exists(lake.layout.own_records(topic)) else []
    rows = records(lake, [topic], own).where(F.col("tick") <= tick)
    result: dict[str, dict[str, int]] = {}
    for topic_id, partition, offset in map(tuple, rows.groupBy("topic_id", "partition").agg(F.max("offset")).collect()):
        result.setdefault(topic_id, {})[str(partition)] = offset + 1
    return result


def has_all(lake: OpenLake, topics: Iterable[str], before: Mapping[str, Mapping[str, int]], tick: int) -> bool:
    """Say whether a complete tick has all records of topics before these offsets, {topic id: {partition: offset}}."""
    found = [next_offsets(lake, topic, tick) for topic in topics] if tick > NO_TICK else []
    known = {topic_id: of for one in found for topic_id, of in one.items()}
    return all(
        offset <= known.get(topic_id, {}).get(partition, 0)
        for topic_id, of in before.items() for partition, offset in of.items()
    )  # fmt: skip


def with_order_times(lake: OpenLake, own: Iterable[str], state: BronzeState) -> BronzeState:
    """Raise the order times, which are from before the state's tick, by the tick's own rows."""
    if "://" not in lake.layout.root:
        paths = _paths(lake, own)
        return carry(state, [row for path in paths for row in order_times(path, state.tick)])
    found = rows_of_all(lake, own).where(F.col("tick") == state.tick).groupBy("topic", "partition")
    return carry(state, found.agg(F.unix_millis(F.max("order_time")).alias("order")).collect())


def state_from_rows(lake: OpenLake, own: Iterable[str] = ()) -> BronzeState:
    """Derive the state from the rows alone; they don't show offsets at a tick's end that held no record."""
    tick = lake.progress(lake.bronze).tick
    rows = rows_of_all(lake, own).where(F.col("tick") <= tick)
    groups = rows.groupBy("topic", "topic_id", "partition").agg(
        F.max("offset").alias("offset"), F.max("tick").alias("tick"), F.unix_millis(F.max("order_time")).alias("order")
    )
    topics: dict[str, TopicState] = {}
    for row in sorted(groups.collect(), key=lambda row: row.tick):
        topic = topics.get(row.topic)
        if topic is None or topic.id != row.topic_id:
            topic = TopicState(row.topic_id)
        topics[row.topic] = TopicState(
            row.topic_id,
            {**topic.next, row.partition: row.offset + 1},
            {**topic.last, row.partition: row.tick},
            {**topic.order, row.partition: row.order},
        )
    return BronzeState(0, tick, topics)


def rows_of_all(lake: OpenLake, own: Iterable[str]) -> DataFrame:
    """Return the rows of the main table, and of the topics' own tables."""
    return reduce(DataFrame.unionByName, [lake.read(path) for path in _paths(lake, own)])


def _paths(lake: OpenLake, own: Iterable[str]) -> list[str]:
    return [lake.layout.records, *map(lake.layout.own_records, own)]


def records(lake: OpenLake, topics: Iterable[str], own: Iterable[str] = ()) -> DataFrame:
    """Return the bronze rows of these topics. Topics in `own` have a physical table of their own.

    The rows may hold a tick that is not complete yet (own tables are written first): select by tick.
    """
    own = set(own)
    frame = lake.read(lake.layout.records)
    wanted = list(topics)
    parts = [frame.where(F.col("topic").isin(shared))] if (shared := [t for t in wanted if t not in own]) else []
    parts += [lake.read(lake.layout.own_records(topic)) for topic in wanted if topic in own]
    return reduce(DataFrame.unionByName, parts)


def of_stream(lake: OpenLake, stream: Stream) -> DataFrame:
    """Return the bronze rows of a stream's topics; see `records`."""
    return records(lake, stream.topics, {source.topic for source in stream.sources if source.own_table})


def between(rows: DataFrame, after: int, to: int) -> DataFrame:
    """Return the rows of the ticks in (after, to]."""
    return rows.where((F.col("tick") > after) & (F.col("tick") <= to))


def carry(state: BronzeState, orders: Iterable[Any]) -> BronzeState:
    """Return the state with its order times raised by rows of (topic, partition, order)."""
    topics = dict(state.topics)
    for row in orders:
        order = topics[row.topic].order
        largest = max(row.order, order.get(row.partition, row.order))
        topics[row.topic] = replace(topics[row.topic], order={**order, row.partition: largest})
    return replace(state, topics=topics)
