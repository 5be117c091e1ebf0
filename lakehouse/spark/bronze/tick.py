"""Writes a tick of bronze: gives the rows of Spark's Kafka source topic id, tick and order time, and appends them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from lakehouse.errors import StorageError
from lakehouse.lake.commit_metadata import BronzeTick
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import bronze_place, own_topic_place
from lakehouse.semantics.commit_number import Progress
from lakehouse.semantics.moment import Offsets
from lakehouse.semantics.time.years import FIRST_MS
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.kafka_times import invalid_kafka_time, with_valid_times
from lakehouse.spark.expression.arrow_functions import literal_map, over_arrow_in_turn
from lakehouse.spark.jvm.capability import Capability, choose_way
from lakehouse.spark.jvm.tree.order_times import with_running_maximum
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import append, read_progress


class TickVolume(NamedTuple):
    """The size of a tick: its rows, and the bytes of their keys and values."""

    rows: int
    bytes: int


NO_TIME = -(2**63)
# This many records, or Kafka partitions, are worth a task of their own: each task writes a file for each topic it has.
RECORDS_PER_TASK, PARTITIONS_PER_TASK = 25_000, 8


# How many offsets before the end of a partition its last record may lie: markers of transactions have offsets, too.
NEAR_END = 4


def stamp_rows(frame: DataFrame, state: bronze.BronzeState, tick: int, ends: Offsets) -> DataFrame:
    """Give rows from Kafka (with headers) their topic id, tick and order time, and mark the last ones, `_last`.

    The rows of a partition come in one task, in the order of their offsets, as Spark's Kafka source reads them; so
    nothing is sorted, and no record's content is moved. ends: see `append_tick`.
    """
    # As a literal, the tick would be part of the code that Spark generates, and Spark would compile it for each tick.
    marks_by_topic = {name: {"id": topic.id, "tick": tick} for name, topic in state.topics.items()}
    mark = F.element_at(literal_map(marks_by_topic, "struct<id string, tick bigint>"), F.col("topic"))
    frame = with_valid_times(frame)
    frame = frame.withColumn("_time", F.when(invalid_kafka_time().isNull(), F.unix_millis("timestamp")))
    carried = {name: topic.order for name, topic in state.topics.items()}
    frame = choose_way(
        Capability.TASK_STATE,
        lambda: with_running_maximum(frame, carried, ends, NO_TIME, NEAR_END),
        lambda: _with_maximum_by_python(frame, carried),
    )
    return frame.select(
        "topic", mark["id"].alias("topic_id"),
        "partition", "offset", "timestamp",
        F.col("timestampType").alias("timestamp_type"), "headers", "key", "value",
        mark["tick"].alias("tick"),
        F.timestamp_millis(F.greatest("_maximum", F.lit(FIRST_MS))).alias("order_time"),
        F.col("_is_near_end").alias("_last"),
    )  # fmt: skip


def _with_maximum_by_python(frame: DataFrame, carried: Offsets) -> DataFrame:
    """Add what `with_running_maximum` adds; only the last record of a partition in an Arrow batch is near its end."""
    order = running_order_times(carried)(F.struct("topic", "partition", "offset", F.col("_time").alias("time")))
    frame = frame.withColumn("_order", order)
    return frame.withColumns({"_maximum": F.col("_order.time"), "_is_near_end": F.col("_order.last")}).drop("_order")


def running_order_times(carried: Offsets) -> Callable[[Column], Column]:
    """Return a function that gives the running maximum of the records' times.

    It takes struct(topic, partition, offset, time in milliseconds) and gives struct(time, last): `last` is true for the
    last row of a partition in each Arrow batch. carried: the order times before these rows, by topic and partition.
    """
    result_type = StructType([StructField("time", LongType()), StructField("last", BooleanType())])

    def raise_times(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        last_by_partition: dict[tuple[str, int], tuple[int, int]] = {}  # the last offset and the largest time
        for batch in batches:
            topic_names, (topic_codes, partitions, offsets, times) = partition_arrays(batch)
            running_max, is_last = np.empty(len(batch), np.int64), np.zeros(len(batch), bool)
            is_edge = (np.diff(topic_codes) != 0) | (np.diff(partitions) != 0)
            edge_positions = [0, *(np.flatnonzero(is_edge) + 1).tolist(), len(batch)]
            for start, end in pairwise(edge_positions):
                if start == end:
                    continue
                topic, partition = topic_names[int(topic_codes[start])], int(partitions[start])
                last_offset, last_time = last_by_partition.get(
                    (topic, partition), (-1, carried.get(topic, {}).get(partition, NO_TIME))
                )
                if offsets[start] <= last_offset or np.any(np.diff(offsets[start:end]) <= 0):
                    raise ValueError(f"the offsets of {topic}/{partition} don't rise, after {last_offset}")
                running_max[start:end] = np.maximum.accumulate(np.maximum(times[start:end], last_time))
                is_last[end - 1] = True
                last_by_partition[topic, partition] = int(offsets[end - 1]), int(running_max[end - 1])
            yield pa.StructArray.from_arrays([pa.array(running_max), pa.array(is_last)], ["time", "last"])

    def partition_arrays(batch: pa.Array) -> tuple[list[str], list[Any]]:
        topic, *number_columns = batch.flatten()
        encoded_topics = topic.dictionary_encode()
        columns = [encoded_topics.indices, number_columns[0], number_columns[1], number_columns[2].fill_null(NO_TIME)]
        return encoded_topics.dictionary.to_pylist(), [column.to_numpy(zero_copy_only=False) for column in columns]

    return over_arrow_in_turn(raise_times, result_type)


def coalesce_to_few_tasks(frame: DataFrame, records: int, partitions: int) -> DataFrame:
    """Return rows of Spark's Kafka source in as few tasks as they are worth: then a small tick makes few files.

    records, partitions: about how many records there are, and in how many Kafka partitions.

    Only for frames of that source: Spark would merge this coalesce with another frame's coalesce(1), and split its
    partitions.
    """
    task_count = max(-(-records // RECORDS_PER_TASK), -(-partitions // PARTITIONS_PER_TASK), 1)
    return frame.coalesce(min(task_count, frame.sparkSession.sparkContext.defaultParallelism))


def append_tick(
    frame: DataFrame,
    layout: Layout,
    state: bronze.BronzeState,
    ends: Offsets,
    run: str,
    own_topics: Iterable[str] = (),
) -> tuple[bronze.BronzeState, TickVolume]:
    """Append one tick: its own tables first, the main table last. Return the state after it, and what was written.

    frame: rows as Spark's Kafka source gives them, with headers: each partition's in one task, by offset. ends: the
    first offset after the tick, by topic and partition. run: the id of the writer's run, for the commit's metadata.
    own_topics: those with a table of their own. Delta skips a table that has the tick already. Raises Fenced when
    another writer has taken over.
    """
    tick = state.tick + 1
    next_state = _advance_state(state, ends, tick)
    content = BronzeTick(topics=next_state.topics, run=run)
    target = Progress(state.epoch, tick)
    stamped_rows = stamp_rows(frame, state, tick, ends)
    own_topics = [topic for topic in own_topics if topic in ends]
    if own_topics:
        # Read Kafka once for several writes; a read that fails does so before the first write.
        stamped_rows = stamped_rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        orders, volume = _append_to_tables(stamped_rows, layout, own_topics, target, content)
    finally:
        if own_topics:
            stamped_rows.unpersist()
    moved_partitions = {
        (topic, partition)
        for topic in ends
        for partition, last in next_state.topics[topic].last.items()
        if last == tick
    }
    if orders is None or not moved_partitions <= {(row.topic, row.partition) for row in orders}:
        # A killed writer had written an own table already, and Spark observed nothing; or a partition ends with offsets
        # that have no record. Then read the order times back.
        return bronze.with_order_times(OpenLake(frame.sparkSession, layout), own_topics, next_state), volume
    return bronze.raise_order_times(next_state, orders), volume


def _append_to_tables(
    stamped_rows: DataFrame, layout: Layout, own_topics: list[str], target: Progress, content: BronzeTick
) -> tuple[list[Any] | None, TickVolume]:
    """Append a tick's rows to their tables; return the last order times (None if a table had the tick) and the size."""
    last_order = F.when(F.col("_last"), F.struct("topic", "partition", F.unix_millis("order_time").alias("order")))
    record_bytes = F.coalesce(F.length("key"), F.lit(0)).cast("bigint") + F.coalesce(F.length("value"), F.lit(0))
    orders: list[Any] = []
    row_count = byte_count = 0
    is_skipped = False
    table_parts = [(own_topic_place(layout, topic), F.col("topic") == topic) for topic in own_topics]
    table_parts.append((bronze_place(layout), ~F.col("topic").isin(own_topics) if own_topics else F.lit(True)))
    for place, condition in table_parts:
        observation = Observation()
        part_rows = stamped_rows.where(condition) if own_topics else stamped_rows
        observed_rows = part_rows.observe(
            observation,
            F.collect_set(last_order).alias("orders"),
            F.count(F.lit(1)).alias("rows"),
            F.sum(record_bytes).alias("bytes"),
        )
        if place == bronze_place(layout) or read_progress(stamped_rows.sparkSession, place).tick < target.tick:
            append(observed_rows.select(*bronze.COLUMNS), place, target, content)
            orders += observation.get["orders"]
            row_count += observation.get["rows"]
            byte_count += observation.get["bytes"] or 0
        else:
            is_skipped = True
    return None if is_skipped else orders, TickVolume(row_count, byte_count)


def _advance_state(state: bronze.BronzeState, ends: Offsets, tick: int) -> bronze.BronzeState:
    topic_states = dict(state.topics)
    for name, partitions in ends.items():
        if name not in topic_states:
            raise StorageError(f"topic {name!r} has no known id; expected it in the state before its first record.")
        topic_state = topic_states[name]
        moved_ends = {
            partition: end_offset
            for partition, end_offset in partitions.items()
            if end_offset > topic_state.next.get(partition, 0)
        }
        topic_states[name] = replace(
            topic_state,
            next={**topic_state.next, **moved_ends},
            last={**topic_state.last, **dict.fromkeys(moved_ends, tick)},
        )
    return bronze.BronzeState(state.epoch, tick, topic_states)
