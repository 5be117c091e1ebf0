"""Checkpoints of streaming queries: clocks that may be lost. Every start makes a fresh one.

The place where a query goes on is in its target (docs/decisions/progress-lives-in-commits.md); a checkpoint only
numbers the batches of one run. Its offset log is read for one thing: the end of the batch that is being written.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.spark.folders import opened, remove


def fresh(spark: SparkSession, path: str) -> str:
    """Remove a checkpoint and return its path."""
    remove(spark, path)
    return path


def batch_end(spark: SparkSession, path: str, batch_id: int) -> dict[str, dict[int, int]]:
    """Return the end of a batch of the Kafka source: the first offset after it, by topic and partition."""
    file, system = opened(spark, f"{path}/offsets/{batch_id}")
    jvm: Any = spark._jvm
    stream = system.open(file)
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    offsets = json.loads(text.splitlines()[-1])
    return {topic: {int(p): end for p, end in partitions.items()} for topic, partitions in offsets.items()}
