"""A tick of bronze, written: rows as Kafka's source gives them get topic id, tick and order time, and are appended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, Window
from pyspark.sql import functions as F

from lakehouse.errors import StorageError
from lakehouse.lake.layout import Layout
from lakehouse.semantics.epoch import Progress
from lakehouse.semantics.years import FIRST_MS
from lakehouse.spark.bronze import bronze
from lakehouse.spark.functions import literal_map
from lakehouse.spark.kafka_times import kafka_said, with_times
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import append, read_progress


class Written(NamedTuple):
    """What a tick brought: its rows, and the bytes of their keys and values."""

    rows: int
    bytes: int


def stamp(frame: DataFrame, state: bronze.BronzeState, tick: int) -> DataFrame:
    """Give rows from Kafka (with headers) their topic id, tick and order time."""
    ids = {name: topic.id for name, topic in state.topics.items()}
    carried = {f"{name}/{p}": order for name, topic in state.topics.items() for p, order in topic.order.items()}
    frame = with_times(frame)
    counted = F.when(kafka_said("timestamp", "headers").isNull(), F.col("timestamp"))
    partition = Window.partitionBy("topic", "partition").orderBy("offset")
    carry = F.element_at(literal_map(carried, "bigint"), F.concat_ws("/", "topic", "partition"))
    order = F.greatest(F.timestamp_millis(carry), F.max(counted).over(partition))
    order = F.coalesce(order, F.timestamp_millis(F.lit(FIRST_MS)))
    return frame.select(
        "topic", F.element_at(literal_map(ids, "string"), F.col("topic")).alias("topic_id"),
        "partition", "offset", "timestamp",
        F.col("timestampType").alias("timestamp_type"), "headers", "key", "value",
        F.lit(tick).cast("bigint").alias("tick"), order.alias("order_time"),
        F.lead("offset").over(partition).alias("_next"),
    )  # fmt: skip


def append_tick(
    frame: DataFrame,
    layout: Layout,
    state: bronze.BronzeState,
    ends: Mapping[str, Mapping[int, int]],
    run: str,
    own: Iterable[str] = (),
) -> tuple[bronze.BronzeState, Written]:
    """Append one tick: its own tables first, the main table last. Return the state after it, and what was written.

    frame: rows as Spark's Kafka source gives them, with headers. ends: the first offset after the tick, by topic and
    partition. A table that has the tick already is skipped by Delta. Raises Fenced when another writer has taken over.
    """
    tick = state.tick + 1
    covered = _advance(state, ends, tick)
    metadata = {**covered.covers(), "run": run}
    number = Progress(state.epoch, tick)
    stamped = stamp(frame, state, tick)
    own = [topic for topic in own if topic in ends]
    if own:
        # Several writes, one reading of Kafka; and one that fails does so before the first of them.
        stamped = stamped.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        orders, written = _write(stamped, layout, own, number, metadata)
    finally:
        if own:
            stamped.unpersist()
    if orders is None:
        # A killed writer had written an own table already: nothing was observed, so its order times are read back.
        return bronze.with_order_times(bronze.rows_of_all(OpenLake(frame.sparkSession, layout), own), covered), written
    return bronze.carry(covered, orders), written


def _write(
    stamped: DataFrame, layout: Layout, own: list[str], number: Progress, metadata: dict[str, Any]
) -> tuple[list[Any] | None, Written]:
    """Append a tick's rows to their tables; return the last order times, None if a table had the tick already."""
    last = F.when(F.col("_next").isNull(), F.struct("topic", "partition", F.unix_millis("order_time").alias("order")))
    size = F.coalesce(F.length("key"), F.lit(0)).cast("bigint") + F.coalesce(F.length("value"), F.lit(0))
    orders: list[Any] = []
    rows = bytes_ = 0
    skipped = False
    parts = [(layout.own_records(topic), F.col("topic") == topic) for topic in own]
    parts.append((layout.records, ~F.col("topic").isin(own) if own else F.lit(True)))
    for path, condition in parts:
        observation = Observation()
        part = stamped.where(condition) if own else stamped
        seen = part.observe(
            observation,
            F.collect_set(last).alias("orders"),
            F.count(F.lit(1)).alias("rows"),
            F.sum(size).alias("bytes"),
        )
        if path == layout.records or read_progress(stamped.sparkSession, path, bronze.NAME).tick < number.tick:
            append(seen.select(*bronze.COLUMNS), path, bronze.NAME, number, metadata)
            orders += observation.get["orders"]
            rows += observation.get["rows"]
            bytes_ += observation.get["bytes"] or 0
        else:
            skipped = True
    return None if skipped else orders, Written(rows, bytes_)


def _advance(state: bronze.BronzeState, ends: Mapping[str, Mapping[int, int]], tick: int) -> bronze.BronzeState:
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
