"""Counts, compacts, and removes the files of a Delta table.

Call these functions with a session of its own: their commits must not get the metadata of a numbered write
(`lakehouse.spark.transaction.numbered_writes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, BinaryType, BooleanType

from lakehouse.lake.properties import RETENTION
from lakehouse.plan.names.field import in_backticks
from lakehouse.spark.fold.merge import ROWS_PER_FILE
from lakehouse.spark.jvm.console import silence_output
from lakehouse.spark.jvm.delta_log import newest_snapshot
from lakehouse.spark.jvm.folders import folder_bytes
from lakehouse.spark.transaction import read_properties, set_properties

SMALL_BYTES = 16 * 2**20
LARGE_BYTES = 128 * 2**20
HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS
# Delta's own default: the log gives the tick of each version, and costs little.
LOG_MS = 30 * DAY_MS
FILE_RETENTION, LOG_RETENTION = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
UNORDERED = (BinaryType, BooleanType)
MIN_SIZE = "spark.databricks.delta.optimize.minFileSize"
MAX_SIZE = "spark.databricks.delta.optimize.maxFileSize"


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The files of the newest version of a table. `small`: files that could be merged with others."""

    count: int
    bytes: int
    rows: int
    small: int


def count_files(spark: SparkSession, table_path: str, *, keyed: bool, enough: int = 0) -> FileCounts:
    """Count the files of a table. keyed: whether its files are laid out by key, with a fixed number of rows.

    enough: for a table with at most this many files the rows and the small files are not counted.
    """
    snapshot = newest_snapshot(spark, table_path)
    if snapshot.file_count is not None and snapshot.file_count <= enough:
        return FileCounts(snapshot.file_count, snapshot.total_bytes or 0, 0, 0)
    is_small = F.col("rows") < ROWS_PER_FILE // 2 if keyed else F.col("size") < SMALL_BYTES
    partition_counts = (
        snapshot.files()
        .groupBy(F.to_json("partition"))
        .agg(
            F.count(F.lit(1)).alias("count"),
            F.sum("size").alias("bytes"),
            F.sum("rows").alias("rows"),
            F.count_if(is_small).alias("small"),
        )
    )
    # The only small file of a partition has no other to merge with.
    mergeable_counts = partition_counts.withColumn("small", F.when(F.col("small") > 1, F.col("small")).otherwise(0))
    totals = mergeable_counts.agg(
        *[F.coalesce(F.sum(name), F.lit(0)) for name in ("count", "bytes", "rows", "small")]
    ).first()
    assert totals is not None
    return FileCounts(*totals)


def bytes_on_disk(spark: SparkSession, table_path: str) -> int:
    """Return the bytes of a table's folder: older versions and the log, too."""
    return folder_bytes(spark, table_path)


def compact_files(spark: SparkSession, table_path: str) -> None:
    """Merge many small files into few; large ones stay as they are."""
    set_file_sizes(spark, SMALL_BYTES, LARGE_BYTES)
    DeltaTable.forPath(spark, table_path).optimize().executeCompaction()


def lay_out(spark: SparkSession, table_path: str, file_counts: FileCounts, layout_columns: Sequence[str]) -> None:
    """Rewrite a table in files of `ROWS_PER_FILE` rows, with neighbours by these columns in one file.

    Plain compaction would mix keys from everywhere in each file, and every later batch would touch all of them.
    """
    file_bytes = max(1, file_counts.bytes * ROWS_PER_FILE // max(1, file_counts.rows))
    set_file_sizes(spark, file_bytes, file_bytes)
    schema = spark.read.format("delta").load(table_path).schema
    # Delta has no smallest and largest values for other types, and refuses them.
    ordered_columns = [
        n for n in layout_columns if isinstance(k := schema[n].dataType, AtomicType) and not isinstance(k, UNORDERED)
    ]
    columns = ", ".join(map(in_backticks, ordered_columns))
    spark.sql(f"OPTIMIZE delta.{in_backticks(table_path)}" + (f" ZORDER BY ({columns})" if ordered_columns else ""))


def set_file_sizes(spark: SparkSession, least_bytes: int, most_bytes: int) -> None:
    """Set which files a session's OPTIMIZE takes, and how large it makes them."""
    spark.conf.set(MIN_SIZE, str(least_bytes))
    spark.conf.set(MAX_SIZE, str(most_bytes))


def retain_files(spark: SparkSession, table_path: str, keep_ms: int) -> None:
    """Keep a table's removed files, and its log, for this long: Delta refuses to read older versions."""
    seconds = -(-keep_ms // 1000)
    retention_properties = {FILE_RETENTION: f"interval {seconds} seconds"}
    retention_properties[LOG_RETENTION] = f"interval {max(seconds, LOG_MS // 1000)} seconds"
    table_properties = read_properties(spark, table_path)
    if {name: table_properties.get(name) for name in retention_properties} != retention_properties:
        set_properties(spark, table_path, retention_properties, RETENTION)


def vacuum_files(spark: SparkSession, table_path: str, keep_ms: int) -> None:
    """Remove the files that no version of the last `keep_ms` milliseconds has; see `retain_files`."""
    with silence_output():
        DeltaTable.forPath(spark, table_path).vacuum(keep_ms / HOUR_MS)
