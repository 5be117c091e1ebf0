"""Checkpoints of streaming queries: clocks that may be lost. Every start makes a fresh checkpoint.

The place where a query continues is in its target (docs/decisions/progress-lives-in-commits.md); a checkpoint only
numbers the batches of one run. lakehouse reads its offset log only for the end of the batch that is being written.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.spark.jvm.folders import path_and_system, remove_folder


def fresh_checkpoint(spark: SparkSession, path: str) -> str:
    """Remove a checkpoint and return its path."""
    remove_folder(spark, path)
    return path


def batch_end(spark: SparkSession, path: str, batch_id: int) -> dict[str, dict[int, int]]:
    """Return the end of a batch of the Kafka source: the first offset after it, by topic and partition."""
    offset_file, file_system = path_and_system(spark, f"{path}/offsets/{batch_id}")
    jvm: Any = spark._jvm
    stream = file_system.open(offset_file)
    try:
        offset_log = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    offsets = json.loads(offset_log.splitlines()[-1])
    return {
        topic: {int(partition): end_offset for partition, end_offset in partitions.items()}
        for topic, partitions in offsets.items()
    }
