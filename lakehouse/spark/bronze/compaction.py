"""Bronze's files compacted and laid out by key: reading one key's records of a topic is then a small scan.

A tick's file holds all keys, and Delta keeps no statistics of bytes. OPTIMIZE ... ZORDER BY (key, tick) turns many
files into few, with small row groups of neighbouring keys and ticks: by Parquet's own statistics a reader then skips
nearly all other row groups. Ordered by key alone, a read of some ticks (of the past, or for a backfill) would have to
read everything. No data changes: a stream on bronze does not read the new files, and its commits keep their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.plan.schema import check_topic
from lakehouse.spark.delta_log import snapshot
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import quoted

FILE_BYTES = 32 * 2**20
GROUP_BYTES = 2**20  # of a row group: the least that a reader reads for one key
SETTINGS = {
    # Delta would refuse a column without its own statistics; Parquet has them.
    "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled": "false",
    "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    "spark.databricks.delta.optimize.maxFileSize": str(FILE_BYTES),
    "parquet.block.size": str(GROUP_BYTES),
}


def cluster(lake: OpenLake, topics: Iterable[str] | None = None) -> list[str]:
    """Lay the files of these topics of bronze out by key where it is worth it; return which topics were.

    topics: all of the shared table if left out; those with a table of their own must be named. OPTIMIZE rewrites a
    whole topic, so it waits until the new data is as much as the data laid out already: a record is rewritten as often
    as its topic doubles. Call it where bronze is written, or while nothing writes it.
    """
    wanted = None if topics is None else {check_topic(topic) for topic in topics}
    done = []
    for path, topic in _places(lake, wanted):
        session = lake.spark.newSession()  # a commit's number, set on another session, must not be set on this one
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        session.sql(f"OPTIMIZE delta.{quoted(path)} WHERE topic = '{topic}' ZORDER BY (key, tick)")
        done.append(topic)
    return done


def _places(lake: OpenLake, wanted: set[str] | None) -> list[tuple[str, str]]:
    """The tables and topics that are worth it."""
    paths = [lake.layout.records]
    if wanted is not None:
        paths += [path for topic in sorted(wanted) if lake.exists(path := lake.layout.own_records(topic))]
    found = []
    for path in paths:
        for row in _files(lake.spark, path).collect():
            loose, laid_out = row["loose"], row["bytes"] - row["loose"]
            if row["files"] > 1 and loose >= laid_out and (wanted is None or row["topic"] in wanted):
                found.append((path, row["topic"]))
    return found


def _files(spark: SparkSession, path: str) -> DataFrame:
    """By topic: files, their bytes, and the bytes in files smaller than those OPTIMIZE makes."""
    files = DataFrame(snapshot(spark, path).allFiles().toDF(), spark)
    loose = F.sum(F.when(F.col("size") < FILE_BYTES // 4, F.col("size")).otherwise(0))
    return files.groupBy(F.col("partitionValues")["topic"].alias("topic")).agg(
        F.count("*").alias("files"), F.sum("size").alias("bytes"), loose.alias("loose")
    )
