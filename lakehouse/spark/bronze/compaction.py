"""Compacts bronze's files and lays them out by key: reading one key's records of a topic is then a small scan.

A tick's file holds all keys, and Delta keeps no statistics of bytes. OPTIMIZE ... ZORDER BY (key, tick) turns many
files into few, with small row groups of neighbouring keys and ticks: by Parquet's own statistics a reader then skips
nearly all other row groups. Ordered by key alone, a read of some ticks (of the past, or for a backfill) would have to
read everything. No data changes: a stream on bronze does not read the new files, and its commits keep their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.plan.expression.schema import check_topic
from lakehouse.plan.names.field import in_backticks
from lakehouse.spark.jvm.delta_log import newest_snapshot
from lakehouse.spark.jvm.session.session import new_session
from lakehouse.spark.open_lake import OpenLake

FILE_BYTES = 32 * 2**20
GROUP_BYTES = 2**20  # the size of a row group: the least that a reader reads for one key
SETTINGS = {
    # Delta would refuse a column without its own statistics; Parquet has them.
    "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled": "false",
    "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    "spark.databricks.delta.optimize.maxFileSize": str(FILE_BYTES),
    "parquet.block.size": str(GROUP_BYTES),
}


def cluster_files(lake: OpenLake, topics: Iterable[str] | None = None) -> list[str]:
    """Lay out the files of these topics by key where the effort pays; return the topics whose files were laid out.

    topics: all of the shared table if left out; topics with a table of their own must be named. OPTIMIZE rewrites a
    whole topic, so it waits until the new data is as much as the data laid out already: a record is rewritten as often
    as its topic doubles. Call it in the process that writes bronze, or while nothing writes bronze.
    """
    topic_names = None if topics is None else {check_topic(topic) for topic in topics}
    clustered_topics = []
    for path, topic in _tables_to_cluster(lake, topic_names):
        session = new_session(lake.spark)  # a commit's number is a session setting, and must not be set here
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        session.sql(f"OPTIMIZE delta.{in_backticks(path)} WHERE topic = '{topic}' ZORDER BY (key, tick)")
        clustered_topics.append(topic)
    return clustered_topics


def _tables_to_cluster(lake: OpenLake, topic_names: set[str] | None) -> list[tuple[str, str]]:
    """Return the table paths and topics for which the effort pays."""
    paths = [lake.layout.records]
    if topic_names is not None:
        paths += [path for topic in sorted(topic_names) if lake.exists(path := lake.layout.own_records(topic))]
    topic_tables = []
    for path in paths:
        for row in _file_sizes(lake.spark, path).collect():
            loose_bytes, clustered_bytes = row["loose"], row["bytes"] - row["loose"]
            if (
                row["files"] > 1
                and loose_bytes >= clustered_bytes
                and (topic_names is None or row["topic"] in topic_names)
            ):
                topic_tables.append((path, row["topic"]))
    return topic_tables


def _file_sizes(spark: SparkSession, path: str) -> DataFrame:
    """Return, by topic, the files, their bytes, and the bytes in files smaller than those that OPTIMIZE makes."""
    loose_bytes = F.sum(F.when(F.col("size") < FILE_BYTES // 4, F.col("size")).otherwise(0))
    return (
        newest_snapshot(spark, path)
        .files()
        .groupBy(F.col("partition")["topic"].alias("topic"))
        .agg(F.count("*").alias("files"), F.sum("size").alias("bytes"), loose_bytes.alias("loose"))
    )
