"""Delta's log of a table by public interfaces: of a local folder by `deltalake`, of other paths by Spark.

`lakehouse.spark.jvm.delta_log` does the same with Delta's own objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from delta.tables import DeltaTable
from deltalake import DeltaTable as Log
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from lakehouse.lake.store import is_remote

ROW_COUNT = "numRecords"
FILE_COLUMNS = StructType(
    [
        StructField("partition", MapType(StringType(), StringType())),
        StructField("size", LongType()),
        StructField("rows", LongType()),
    ]
)


def open_snapshot(spark: SparkSession, path: str) -> LocalSnapshot | SparkSnapshot:
    """Return the newest snapshot of the table at `path`."""
    if is_remote(path):
        return SparkSnapshot(spark, path)
    return LocalSnapshot(spark, Log(path))


@dataclass(frozen=True)
class LocalSnapshot:
    """A version of a table in a local folder."""

    spark: SparkSession
    log: Log

    @property
    def version(self) -> int:
        return int(self.log.version())

    @property
    def table_id(self) -> str:
        return str(self.log.metadata().id)

    @property
    def created_ms(self) -> int:
        return int(self.log.metadata().created_time)

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self.log.metadata().configuration)

    @cached_property
    def _add_actions(self) -> list[dict[str, Any]]:
        import pyarrow as pa

        actions: list[dict[str, Any]] = pa.table(self.log.get_add_actions(flatten=False)).to_pylist()
        return actions

    @property
    def file_count(self) -> int:
        return len(self._add_actions)

    @property
    def total_bytes(self) -> int:
        return sum(action["size_bytes"] for action in self._add_actions)

    def number_of_app(self, app_id: str) -> int | None:
        return self.log.transaction_version(app_id)

    def files(self) -> DataFrame:
        file_rows = []
        for action in self._add_actions:
            partition = action.get("partition") or {}
            texts = {name: value if value is None else str(value) for name, value in partition.items()}
            file_rows.append((texts, action["size_bytes"], action.get("num_records") or 0))
        return self.spark.createDataFrame(file_rows, FILE_COLUMNS)


@dataclass(frozen=True)
class SparkSnapshot:
    """A version of a table on any file system that Spark reads."""

    spark: SparkSession
    path: str

    @cached_property
    def _detail(self) -> dict[str, Any]:
        details = DeltaTable.forPath(self.spark, self.path).detail()
        detail = details.withColumn("created_ms", F.unix_millis("createdAt")).first()
        assert detail is not None
        return detail.asDict()

    @cached_property
    def version(self) -> int:
        newest_commit = DeltaTable.forPath(self.spark, self.path).history(1).first()
        assert newest_commit is not None
        return int(newest_commit["version"])

    @property
    def table_id(self) -> str:
        return str(self._detail["id"])

    @property
    def created_ms(self) -> int:
        return int(self._detail["created_ms"])

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self._detail["properties"])

    @property
    def file_count(self) -> int:
        return int(self._detail["numFiles"])

    @property
    def total_bytes(self) -> int:
        return int(self._detail["sizeInBytes"])

    def number_of_app(self, app_id: str) -> int | None:
        """Return the largest number of an app id in the log: its numbers only grow."""
        actions = self._log_actions("txn struct<appId: string, version: bigint>")
        largest = actions.where(F.col("txn.appId") == app_id).agg(F.max("txn.version")).first()
        return None if largest is None else largest[0]

    def files(self) -> DataFrame:
        """Return the files by reading the table: of a file without rows nothing is known, and nothing is needed."""
        rows = self.spark.read.format("delta").load(self.path)
        partition_columns = self._detail["partitionColumns"]
        pairs = [item for name in partition_columns for item in (F.lit(name), F.col(f"`{name}`").cast("string"))]
        partition = F.create_map(*pairs) if pairs else F.create_map().cast("map<string, string>")
        file_rows = rows.select(
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.file_size").alias("size"),
            F.to_json(partition).alias("partition"),
        )
        row_counts = file_rows.groupBy("file", "size", "partition").agg(F.count(F.lit(1)).alias("rows"))
        return row_counts.select(
            F.from_json("partition", "map<string, string>").alias("partition"), F.col("size"), F.col("rows")
        )

    def _log_actions(self, column: str) -> DataFrame:
        """Return one column of the log's actions: of the commits, and of the checkpoints that replaced older ones."""
        log_folder = f"{self.path}/_delta_log"
        commits = self.spark.read.schema(column).json(f"{log_folder}/*.json")
        checkpoints = self.spark.read.schema(column).option("ignoreMissingFiles", "true")
        name = column.split(" ", 1)[0]
        reader = checkpoints.option("pathGlobFilter", "*.checkpoint*.parquet").option("recursiveFileLookup", "true")
        return commits.select(name).unionByName(reader.parquet(log_folder).select(name))


def select_file_columns(add_actions: DataFrame) -> DataFrame:
    """Return a log's `add` actions in the columns of `LogSnapshot.files`."""
    record_count = F.get_json_object("stats", f"$.{ROW_COUNT}").cast("bigint")
    return add_actions.select(
        F.col("partitionValues").alias("partition"),
        F.col("size"),
        F.coalesce(record_count, F.lit(0)).cast("bigint").alias("rows"),
    )


def append_nothing(spark: SparkSession, path: str, app_id: str, number: int, metadata_text: str) -> None:
    """Append no rows to the table at `path`, in a numbered commit with metadata."""
    no_rows = spark.createDataFrame([], spark.read.format("delta").load(path).schema)
    writer = no_rows.write.format("delta").mode("append").option("userMetadata", metadata_text)
    writer.option("txnAppId", app_id).option("txnVersion", str(number)).save(path)
