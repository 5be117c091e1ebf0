"""Checkpoints of streaming queries: clocks that may be lost. Every start makes a fresh checkpoint.

The place where a query continues is in its target (docs/decisions/progress-lives-in-commits.md); a checkpoint only
numbers the batches of one run. lakehouse reads its offset log only for the end of the batch that is being written.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.spark.jvm.capability import Capability, is_available, report_missing
from lakehouse.spark.jvm.folders import read_lines, remove_folder

TopicEnds = dict[str, dict[int, int]]


def fresh_checkpoint(spark: SparkSession, path: str) -> str:
    """Remove a checkpoint and return its path."""
    remove_folder(spark, path)
    return path


def batch_end(spark: SparkSession, path: str, batch_id: int, frame: DataFrame) -> TopicEnds:
    """Return the end of a batch of the Kafka source: the first offset after it, by topic and partition.

    path: the query's checkpoint. frame: the batch. Spark's file there has one line for each source after two others.
    """
    if is_available(Capability.CHECKPOINT):
        try:
            last_line = list(read_lines(spark, f"{path}/offsets/{batch_id}"))[-1]
            return {
                topic: {int(partition): int(end_offset) for partition, end_offset in partitions.items()}
                for topic, partitions in json.loads(last_line).items()
            }
        except (OSError, ValueError, IndexError, AttributeError, TypeError) as error:
            report_missing(Capability.CHECKPOINT, error)
    return _end_of_rows(frame)


def _end_of_rows(frame: DataFrame) -> TopicEnds:
    """Return the offset after the last record of each partition.

    A transaction's marker may follow that record: then the next batch begins with the marker.
    """
    ends: TopicEnds = {}
    end_rows = frame.groupBy("topic", "partition").agg((F.max("offset") + 1).alias("end")).collect()
    for topic, partition, end_offset in sorted(map(tuple, end_rows)):
        ends.setdefault(topic, {})[partition] = end_offset
    return ends
