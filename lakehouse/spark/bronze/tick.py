"""Writes a tick of bronze: rows as Kafka's source gives them get topic id, tick and order time, and are appended."""

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
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import bronze_of, own_of
from lakehouse.semantics.epoch import Progress
from lakehouse.semantics.moment import Offsets
from lakehouse.semantics.years import FIRST_MS
from lakehouse.spark.bronze import bronze
from lakehouse.spark.functions import literal_map, over_arrow_in_turn
from lakehouse.spark.kafka_times import kafka_said, with_times
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import append, read_progress


class Written(NamedTuple):
    """What a tick brought: its rows, and the bytes of their keys and values."""

    rows: int
    bytes: int


NO_TIME = -(2**63)
# This many records, or Kafka partitions, are worth a task of their own: each task writes a file for each topic it has.
RECORDS_PER_TASK, PARTITIONS_PER_TASK = 25_000, 8


def stamp(frame: DataFrame, state: bronze.BronzeState, tick: int) -> DataFrame:
    """Give rows from Kafka (with headers) their topic id, tick and order time. Their order: see `order_times`."""
    # The tick as a literal would stand in the code that Spark generates: each tick would be compiled again.
    marks = {name: {"id": topic.id, "tick": tick} for name, topic in state.topics.items()}
    mark = F.element_at(literal_map(marks, "struct<id string, tick bigint>"), F.col("topic"))
    frame = with_times(frame)
    said = F.when(kafka_said("timestamp", "headers").isNull(), F.unix_millis("timestamp"))
    record = F.struct("topic", "partition", "offset", said.alias("time"))
    frame = frame.withColumn("_order", order_times({name: topic.order for name, topic in state.topics.items()})(record))
    return frame.select(
        "topic", mark["id"].alias("topic_id"),
        "partition", "offset", "timestamp",
        F.col("timestampType").alias("timestamp_type"), "headers", "key", "value",
        mark["tick"].alias("tick"), F.timestamp_millis("_order.time").alias("order_time"),
        F.col("_order.last").alias("_last"),
    )  # fmt: skip


def order_times(carried: Offsets) -> Callable[[Column], Column]:
    """Return the running maximum of the records' times, over struct(topic, partition, offset, time in milliseconds).

    The rows of a partition come in one task, in the order of their offsets, as Kafka's source reads them; so nothing is
    sorted, and no record's content is moved. carried: the order times before these rows. The result is
    struct(time, last): `last` is true for the last row of a partition in each Arrow batch.
    """
    kind = StructType([StructField("time", LongType()), StructField("last", BooleanType())])

    def run(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        reached: dict[tuple[str, int], tuple[int, int]] = {}  # the largest offset and time of a partition
        for batch in batches:
            names, (topics, partitions, offsets, times) = places(batch)
            made, last = np.empty(len(batch), np.int64), np.zeros(len(batch), bool)
            moves = (np.diff(topics) != 0) | (np.diff(partitions) != 0)
            edges = [0, *(np.flatnonzero(moves) + 1).tolist(), len(batch)]
            for start, end in pairwise(edges):
                if start == end:
                    continue
                topic, partition = names[int(topics[start])], int(partitions[start])
                before, time = reached.get((topic, partition), (-1, carried.get(topic, {}).get(partition, NO_TIME)))
                if offsets[start] <= before or np.any(np.diff(offsets[start:end]) <= 0):
                    raise ValueError(f"the offsets of {topic}/{partition} don't rise, after {before}")
                made[start:end] = np.maximum.accumulate(np.maximum(times[start:end], time))
                last[end - 1] = True
                reached[topic, partition] = int(offsets[end - 1]), int(made[end - 1])
            yield pa.StructArray.from_arrays([pa.array(np.maximum(made, FIRST_MS)), pa.array(last)], ["time", "last"])

    def places(batch: pa.Array) -> tuple[list[str], list[Any]]:
        topic, *numbers = batch.flatten()
        coded = topic.dictionary_encode()
        columns = [coded.indices, numbers[0], numbers[1], numbers[2].fill_null(NO_TIME)]
        return coded.dictionary.to_pylist(), [column.to_numpy(zero_copy_only=False) for column in columns]

    return over_arrow_in_turn(run, kind)


def in_few_tasks(frame: DataFrame, records: int, partitions: int) -> DataFrame:
    """Return rows that Spark's Kafka source reads, in as few tasks as they are worth: a small tick makes few files.

    records, partitions: about how many records there are, and in how many Kafka partitions.

    Of that source only: Spark would merge this with the coalesce(1) of another frame, and split its partitions.
    """
    worth = max(-(-records // RECORDS_PER_TASK), -(-partitions // PARTITIONS_PER_TASK), 1)
    return frame.coalesce(min(worth, frame.sparkSession.sparkContext.defaultParallelism))


def append_tick(
    frame: DataFrame,
    layout: Layout,
    state: bronze.BronzeState,
    ends: Offsets,
    run: str,
    own: Iterable[str] = (),
) -> tuple[bronze.BronzeState, Written]:
    """Append one tick: its own tables first, the main table last. Return the state after it, and what was written.

    frame: rows as Spark's Kafka source gives them, with headers: each partition's in one task, by offset. ends: the
    first offset after the tick, by topic and partition. A table that has the tick already is skipped by Delta. Raises
    Fenced when another writer has taken over.
    """
    tick = state.tick + 1
    covered = _advance(state, ends, tick)
    metadata = {**covered.covers(), "run": run}
    number = Progress(state.epoch, tick)
    stamped = stamp(frame, state, tick)
    own = [topic for topic in own if topic in ends]
    if own:
        # Several writes, but Kafka is read once; a read that fails does so before the first write.
        stamped = stamped.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        orders, written = _write(stamped, layout, own, number, metadata)
    finally:
        if own:
            stamped.unpersist()
    if orders is None:
        # A killed writer had written an own table already: nothing was observed, so its order times are read back.
        return bronze.with_order_times(OpenLake(frame.sparkSession, layout), own, covered), written
    return bronze.carry(covered, orders), written


def _write(
    stamped: DataFrame, layout: Layout, own: list[str], number: Progress, metadata: dict[str, Any]
) -> tuple[list[Any] | None, Written]:
    """Append a tick's rows to their tables; return the last order times, None if a table had the tick already."""
    last = F.when(F.col("_last"), F.struct("topic", "partition", F.unix_millis("order_time").alias("order")))
    size = F.coalesce(F.length("key"), F.lit(0)).cast("bigint") + F.coalesce(F.length("value"), F.lit(0))
    orders: list[Any] = []
    rows = bytes_ = 0
    skipped = False
    parts = [(own_of(layout, topic), F.col("topic") == topic) for topic in own]
    parts.append((bronze_of(layout), ~F.col("topic").isin(own) if own else F.lit(True)))
    for place, condition in parts:
        observation = Observation()
        part = stamped.where(condition) if own else stamped
        seen = part.observe(
            observation,
            F.collect_set(last).alias("orders"),
            F.count(F.lit(1)).alias("rows"),
            F.sum(size).alias("bytes"),
        )
        if place == bronze_of(layout) or read_progress(stamped.sparkSession, place).tick < number.tick:
            append(seen.select(*bronze.COLUMNS), place, number, metadata)
            orders += observation.get["orders"]
            rows += observation.get["rows"]
            bytes_ += observation.get["bytes"] or 0
        else:
            skipped = True
    return None if skipped else orders, Written(rows, bytes_)


def _advance(state: bronze.BronzeState, ends: Offsets, tick: int) -> bronze.BronzeState:
    topics = dict(state.topics)
    for name, partitions in ends.items():
        if name not in topics:
            raise StorageError(f"topic {name!r} has no known id; expected it in the state before its first record.")
        before = topics[name]
        moved = {p: end for p, end in partitions.items() if end > before.next.get(p, 0)}
        topics[name] = replace(
            before, next={**before.next, **moved}, last={**before.last, **dict.fromkeys(moved, tick)}
        )
    return bronze.BronzeState(state.epoch, tick, topics)
