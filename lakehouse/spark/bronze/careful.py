"""Batches that Spark can't take in as they are: lakehouse splits those with too many bytes, and reads those in another
way that have a record on which Spark fails.

Spark's Kafka source bounds a batch by records alone, reads each record whole into the JVM, and fails on a timestamp
beyond its own range. So a batch of many bytes becomes several ticks, sized by the records of the tick before; and a
batch with a record on which Spark fails is read again with librdkafka, in pieces of bounded size
(`lakehouse.kafka.ranges`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.kafka.ranges import RawRecord
from lakehouse.lake.commit_metadata import TopicState
from lakehouse.lake.control import note
from lakehouse.semantics.moment import Offsets
from lakehouse.semantics.time.kafka_time import bronze_time
from lakehouse.spark.bronze.feed import Feed

GONE = (
    "Spark's process ended while it read tick {tick}; most often a record, or many together, needed more than its "
    "memory ([spark] memory). Nothing was skipped. Start again: what it was reading is then read record by record, and "
    "one that is too large is named."
)
# Before the first tick of a run the records' size is unknown: if a batch may have more records than this, some of them
# are sampled.
FIRST_RECORDS, SAMPLE = 1_000, 200
# The most that a piece has of a batch that is read record by record: a piece lies in memory.
PIECE_RECORDS, PIECE_BYTES = 500_000, 2**28
TOO_LARGE = "lakehouse: a record is larger than max_record_bytes"
# Spark's messages when it can't take in a record; no other failure has to do with records.
REASONS = (TOO_LARGE, "long overflow", "OutOfMemoryError", "Requested array size exceeds VM limit")
_SCHEMA = pa.schema(
    {
        "topic": pa.string(), "partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(), "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        "key": pa.binary(), "value": pa.binary(),
    }
)  # fmt: skip


class SuspectBatch:
    """The end of a batch in which Spark's process died, noted for the next start; the note may be lost.

    Up to that end records are read one by one.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        saved_ends = note.read(path) or {}
        self._ends: Offsets = {
            topic: {int(partition): int(end_offset) for partition, end_offset in partitions.items()}
            for topic, partitions in saved_ends.items()
        }

    def remember(self, ends: Offsets) -> None:
        """Remember a batch's end for the next start."""
        note.write(self._path, ends)

    def is_ahead_of(self, topics: Mapping[str, TopicState]) -> bool:
        """Say whether bronze still lacks a part of the batch; once it has all, forget the batch."""
        batch_ends = [
            (topic, partition, end_offset)
            for topic, partitions in self._ends.items()
            for partition, end_offset in partitions.items()
        ]
        is_ahead = any(
            topic in topics and end_offset > topics[topic].next.get(partition, 0)
            for topic, partition, end_offset in batch_ends
        )
        if self._ends and not is_ahead:
            self._ends = {}
            note.remove(self._path)
        return is_ahead


def records_per_tick(feed: Feed, record_bytes: float | None) -> int:
    """Return how many records of this size a tick may have. record_bytes: None if their size is not known yet."""
    if record_bytes is None:
        return min(FIRST_RECORDS, feed.max_records_per_tick)
    return max(1, min(feed.max_records_per_tick, int(feed.max_bytes_per_tick / max(record_bytes, 1.0))))


def sample_record_bytes(feed: Feed, starts: Offsets, ends: Offsets) -> float | None:
    """Return how many bytes a record has on average, by the first records of each range; None if there are none."""
    record_sizes = [record.size for record in feed.read_ranges(starts, first_offsets(starts, ends, SAMPLE))]
    return sum(record_sizes) / len(record_sizes) if record_sizes else None


def count_offsets(starts: Offsets, ends: Offsets) -> int:
    """Return how many offsets lie in ranges."""
    return sum(
        end - starts[topic][partition] for topic, partitions in ends.items() for partition, end in partitions.items()
    )


def is_record_failure(error: Exception) -> bool:
    """Say whether Spark failed on a record's content, so that reading the record in another way can help."""
    message = f"{error}\n{getattr(error, '_stackTrace', '')}"  # Spark's own message may lack the cause
    return any(reason in message for reason in REASONS)


def refuse_larger_records(frame: DataFrame, bytes_max: int) -> DataFrame:
    """Return rows from Kafka that fail with TOO_LARGE when they are read, if a record has more than `bytes_max` bytes.

    A filter runs before Spark moves the rows: a large record is in memory only once then, as the client read it.
    """
    record_size = sum((F.coalesce(F.length(name), F.lit(0)) for name in ("key", "value")), _headers_size())
    return frame.where(
        F.when(record_size > bytes_max, F.raise_error(F.lit(TOO_LARGE)).cast("boolean")).otherwise(F.lit(True))
    )


def _headers_size() -> Column:
    return F.coalesce(
        F.aggregate(
            "headers",
            F.lit(0),
            lambda total, item: total + F.octet_length(item["key"]) + F.coalesce(F.length(item["value"]), F.lit(0)),
        ),
        F.lit(0),
    )


def frame_of_raw_records(spark: SparkSession, records: Iterable[RawRecord]) -> DataFrame:
    """Return records as the rows that Spark's Kafka source gives."""
    rows = []
    for record in records:
        time, time_headers = bronze_time(record.timestamp)
        headers = [{"key": name, "value": value} for name, value in (*record.headers, *time_headers)]
        rows.append(
            {
                "topic": record.topic, "partition": record.partition, "offset": record.offset,
                "timestamp": time * 1000, "timestampType": record.timestamp_type, "headers": headers or None,
                "key": record.key, "value": record.value,
            }
        )  # fmt: skip
    # One task keeps a partition's rows together, and in order.
    return spark.createDataFrame(pa.Table.from_pylist(rows, _SCHEMA)).coalesce(1)


def first_offsets(starts: Offsets, ends: Offsets, records: int) -> Offsets:
    """Return where the first `records` offsets of the ranges end: an equal share of each, at least one offset."""
    offset_count = count_offsets(starts, ends)
    return {
        topic: {
            partition: min(
                end, starts[topic][partition] + -(-(end - starts[topic][partition]) * records // offset_count)
            )
            for partition, end in partitions.items()
        }
        for topic, partitions in ends.items()
    }
