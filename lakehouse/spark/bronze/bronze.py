"""Bronze: every record ever seen, with its original bytes, and the ticks that number the records.

A tick is one append and one commit, however many topics there are. The commit of the main table comes last and marks
the tick complete; a topic with a physical table of its own is appended before it. The commit's metadata, a
`BronzeTick`, says how far bronze is with each topic after the tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.lake.commit_log import TickCoverage, find_tick_coverage
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.control.lease import Lease
from lakehouse.lake.place import TablePlace, own_topic_place
from lakehouse.lake.record.lost_records import read_lost_ends
from lakehouse.lake.record.order_times import read_order_times
from lakehouse.lake.record.topic_places import refuse_misplaced
from lakehouse.lake.store import is_remote
from lakehouse.plan.stream import Stream
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.bronze.erased import add_erased_places
from lakehouse.spark.bronze.recent_ticks import read_recent
from lakehouse.spark.jvm.folders import folder_names
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import commit_log_of, new_table, open_epoch

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
CREATION_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class BronzeState:
    """How far bronze is: its epoch, the last complete tick, and each topic."""

    epoch: int = 0
    tick: int = NO_TICK
    topics: Mapping[str, TopicState] = field(default_factory=dict)


def create_tables(lake: OpenLake, own_topics: Iterable[str] = ()) -> None:
    """Create the bronze tables that do not exist yet, one process after the other: every job of a new lake begins so.

    Raises LeaseHeld if another process has not created them after a minute, PlanError if a topic's rows lie in the
    shared table: a table of its own would stay empty, and tables would find nothing in it.
    """
    own_topics = list(own_topics)
    paths = (lake.layout.records, *(lake.layout.own_records(topic) for topic in own_topics))
    if all(map(lake.exists, paths)):
        return
    refuse_misplaced(lake.layout, own_topics, own_topics)
    with Lease(lake.layout.lease("bronze-tables"), "the first table of bronze").acquire_within(CREATION_SECONDS):
        for path in paths:
            if not lake.exists(path):
                builder = new_table(lake.spark, path, SCHEMA).partitionedBy("topic")
                for name, value in PROPERTIES.items():
                    builder = builder.property(name, value)
                builder.execute()


def topics_with_own_table(lake: OpenLake) -> list[str]:
    """Return the topics that have a physical table of their own in the lake, whichever application declares them."""
    folder = lake.layout.own_records("")
    return [name for name in folder_names(lake.spark, folder) if lake.exists(lake.layout.own_records(name))]


def half_written_topics(lake: OpenLake, tick: int) -> list[str]:
    """Return the topics whose own table has a tick after the last complete tick: a killed ingest left it."""
    own_topics = topics_with_own_table(lake)
    return [topic for topic in own_topics if lake.progress(own_topic_place(lake.layout, topic)).tick > tick]


def open_bronze_epoch(lake: OpenLake) -> BronzeState:
    """Open the next epoch of bronze and of its own tables; return the state from which the new writer continues."""
    own_topics = topics_with_own_table(lake)
    places = [*(own_topic_place(lake.layout, topic) for topic in own_topics), lake.bronze]
    # All get the same epoch, whichever tables a killed writer had opened: a tick is written under one epoch.
    epoch = 1 + max(lake.progress(place).epoch for place in places)
    for place in places:
        open_epoch(lake.spark, place, epoch)
    return replace(read_state(lake, own_topics), epoch=epoch)


def read_state(lake: OpenLake, own_topics: Iterable[str] = ()) -> BronzeState:
    """Return how far bronze is, from the last tick's commit, or from the rows if the log no longer has that commit."""
    progress = lake.progress(lake.bronze)
    if progress.tick == NO_TICK:
        return BronzeState(progress.epoch)
    coverage = last_coverage(lake.spark, lake.layout.records, progress.tick)
    if coverage is None:
        return replace(state_from_rows(lake, own_topics), epoch=progress.epoch)
    # The order times of a commit are those before the tick's own rows.
    return with_order_times(lake, own_topics, BronzeState(progress.epoch, coverage.tick, coverage.topics))


def last_coverage(spark: SparkSession, path: str, tick: int | None = None) -> TickCoverage | None:
    """Return the coverage of the last tick, or of a given one, from a table's log; None if the log lacks its commit."""
    return find_tick_coverage(commit_log_of(spark, path), tick)


def next_offsets(lake: OpenLake, topic: str, tick: int) -> dict[str, dict[str, int]]:
    """Return the first offset of a topic after a complete tick: {topic id: {partition: offset}}.

    The present id is the last one; before it stand those of deleted topics of the same name.
    """
    coverage = last_coverage(lake.spark, lake.layout.records, tick)
    if coverage is not None and topic in coverage.topics:
        topic_state = coverage.topics[topic]
        lost_ends = read_lost_ends(lake.layout, topic, tick)
        lost_ends.pop(topic_state.id, None)
        return {**lost_ends, topic_state.id: {str(part): offset for part, offset in topic_state.next.items()}}
    own_topics = [topic] if lake.exists(lake.layout.own_records(topic)) else []
    topic_rows = add_erased_places(lake, read_topic_records(lake, [topic], own_topics))
    topic_rows = topic_rows.where((F.col("topic") == topic) & (F.col("tick") <= tick))
    next_by_topic_id: dict[str, dict[str, int]] = {}
    partition_rows = topic_rows.groupBy("topic_id", "partition").agg(F.max("offset"), F.max("tick").alias("last_tick"))
    for topic_id, partition, offset, _ in map(tuple, partition_rows.orderBy("last_tick").collect()):
        next_by_topic_id.setdefault(topic_id, {})[str(partition)] = offset + 1
    return next_by_topic_id


def has_all_records(
    lake: OpenLake, topics: Iterable[str], end_offsets: Mapping[str, Mapping[str, int]], tick: int
) -> bool:
    """Say whether a complete tick has all records of topics before these offsets, {topic id: {partition: offset}}.

    It has all that will ever come of a topic that was deleted and recreated.
    """
    next_by_topic_id: dict[str, Mapping[str, int]] = {}
    earlier_ids: set[str] = set()
    for topic in topics if tick > NO_TICK else ():
        topic_offsets = next_offsets(lake, topic, tick)
        next_by_topic_id |= topic_offsets
        earlier_ids.update([*topic_offsets][:-1])
    return all(
        offset <= next_by_topic_id.get(topic_id, {}).get(partition, 0)
        for topic_id, offsets in end_offsets.items()
        if topic_id not in earlier_ids
        for partition, offset in offsets.items()
    )


def with_order_times(lake: OpenLake, own_topics: Iterable[str], state: BronzeState) -> BronzeState:
    """Raise the order times, which are from before the state's tick, by the tick's own rows."""
    if not is_remote(lake.layout.root):
        paths = _record_paths(lake, own_topics)
        return raise_order_times(state, [row for path in paths for row in read_order_times(path, state.tick)])
    partition_rows = read_all_records(lake, own_topics).where(F.col("tick") == state.tick).groupBy("topic", "partition")
    return raise_order_times(state, partition_rows.agg(F.unix_millis(F.max("order_time")).alias("order")).collect())


def state_from_rows(lake: OpenLake, own_topics: Iterable[str] = ()) -> BronzeState:
    """Derive the state from the rows alone; they don't show offsets without a record at a tick's end."""
    tick = lake.progress(lake.bronze).tick
    rows = add_erased_places(lake, read_all_records(lake, own_topics)).where(F.col("tick") <= tick)
    partition_rows = rows.groupBy("topic", "topic_id", "partition").agg(
        F.max("offset").alias("offset"), F.max("tick").alias("tick"), F.unix_millis(F.max("order_time")).alias("order")
    )
    topic_states: dict[str, TopicState] = {}
    for row in sorted(partition_rows.collect(), key=lambda row: row.tick):
        topic_state = topic_states.get(row.topic)
        if topic_state is None or topic_state.id != row.topic_id:
            topic_state = TopicState(row.topic_id)
        topic_states[row.topic] = TopicState(
            row.topic_id,
            {**topic_state.next, row.partition: row.offset + 1},
            {**topic_state.last, row.partition: row.tick},
            {**topic_state.order, row.partition: row.order},
        )
    return BronzeState(0, tick, topic_states)


def read_all_records(lake: OpenLake, own_topics: Iterable[str]) -> DataFrame:
    """Return the rows of the main table, and of the topics' own tables."""
    return reduce(DataFrame.unionByName, [lake.read(path) for path in _record_paths(lake, own_topics)])


def _record_paths(lake: OpenLake, own_topics: Iterable[str]) -> list[str]:
    return [lake.layout.records, *map(lake.layout.own_records, own_topics)]


def read_topic_records(lake: OpenLake, topics: Iterable[str], own_topics: Iterable[str] = ()) -> DataFrame:
    """Return the bronze rows of these topics. Topics in `own_topics` have a physical table of their own.

    The rows may hold a tick that is not complete yet (own tables are written first): select by tick.
    """
    return _read_topics(lake, topics, own_topics, lambda place: lake.read(place.path))


def read_ticks(
    lake: OpenLake, topics: Iterable[str], after_tick: int, to_tick: int, own_topics: Iterable[str] = ()
) -> DataFrame:
    """Return the bronze rows of these topics in the ticks in (after_tick, to_tick]. See `read_topic_records`."""

    def read_table(place: TablePlace) -> DataFrame:
        recent_rows = read_recent(lake.spark, place, after_tick)
        return lake.read(place.path) if recent_rows is None else recent_rows

    return between_ticks(_read_topics(lake, topics, own_topics, read_table), after_tick, to_tick)


def _read_topics(
    lake: OpenLake, topics: Iterable[str], own_topics: Iterable[str], read_table: Callable[[TablePlace], DataFrame]
) -> DataFrame:
    """Return rows of these topics. read_table: called with the place of each of their tables, returns its rows."""
    topic_names, own_topics = list(topics), set(own_topics)
    shared_topics = [name for name in topic_names if name not in own_topics]
    topic_frames = [read_table(lake.bronze).where(F.col("topic").isin(shared_topics))] if shared_topics else []
    topic_frames += [read_table(own_topic_place(lake.layout, name)) for name in topic_names if name in own_topics]
    return reduce(DataFrame.unionByName, topic_frames)


def read_stream_records(lake: OpenLake, stream: Stream) -> DataFrame:
    """Return the bronze rows of a stream's topics; see `read_topic_records`."""
    return read_topic_records(lake, stream.topics, stream.own_topics)


def read_stream_ticks(lake: OpenLake, stream: Stream, after_tick: int, to_tick: int) -> DataFrame:
    """Return the bronze rows of a stream's topics in the ticks in (after_tick, to_tick]."""
    return read_ticks(lake, stream.topics, after_tick, to_tick, stream.own_topics)


def between_ticks(rows: DataFrame, after_tick: int, to_tick: int) -> DataFrame:
    """Return the rows of the ticks in (after, up_to]."""
    return rows.where((F.col("tick") > after_tick) & (F.col("tick") <= to_tick))


def raise_order_times(state: BronzeState, orders: Iterable[Any]) -> BronzeState:
    """Return the state with its order times raised by rows of (topic, partition, order)."""
    topic_states = dict(state.topics)
    for row in orders:
        partition_orders = topic_states[row.topic].order
        largest = max(row.order, partition_orders.get(row.partition, row.order))
        topic_states[row.topic] = replace(topic_states[row.topic], order={**partition_orders, row.partition: largest})
    return replace(state, topics=topic_states)
