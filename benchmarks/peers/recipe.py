"""The recipe of Delta's documentation: Kafka is appended to a bronze table, and foreachBatch merges it into silver.

One argument: the work, see `work.py`; with --tuned Spark has our session's settings for small machines. What the recipe
does not do: it keeps no bad records and no position beside a row, knows no tombstones and no late records, and after a
kill between a MERGE and its checkpoint it counts a batch twice.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from work import SCHEMA, TOPIC, VALUES, Work

from lakehouse.setup.places import jars_folder
from lakehouse.spark.jvm.session.session import java_options

TUNED = {
    "spark.driver.extraJavaOptions": java_options(""),  # with Java's archive of classes, too
    "spark.sql.shuffle.partitions": str(os.cpu_count()),
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.ui.enabled": "false",
}


def session(memory: str, settings: dict[str, str]) -> SparkSession:
    jars = os.pathsep.join(sorted(str(path) for path in Path(jars_folder("spark")).glob("*.jar")))
    builder = SparkSession.builder.master("local[*]").config("spark.driver.memory", memory)
    builder = builder.config("spark.driver.extraClassPath", jars).config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def table(spark: SparkSession, path: str, columns: str) -> DeltaTable:
    """Make a table of these columns beside the key, with its change data feed."""
    making = DeltaTable.create(spark).location(path).addColumn("id", "string")
    for column in columns.split(", "):
        making = making.addColumn(*column.split(" "))
    return making.property("delta.enableChangeDataFeed", "true").execute()


def run(spark: SparkSession, work: Work) -> None:
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", work.servers)
    records = kafka.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()
    writing = records.writeStream.format("delta").option("checkpointLocation", f"{work.folder}/checkpoints/bronze")
    writing.trigger(availableNow=True).start(str(work.bronze)).awaitTermination()

    silver = table(spark, str(work.silver), f"n bigint, {SCHEMA}")

    def upsert(batch: DataFrame, _: int) -> None:
        value = F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")
        rows = batch.select(F.col("key").cast("string").alias("id"), value, "offset")
        rows = rows.groupBy("id").agg(F.count("*").alias("n"), F.max_by("v", "offset").alias("v"))
        last = {name: f"s.v.{name}" for name in VALUES}
        merging = silver.alias("t").merge(rows.alias("s"), "t.id = s.id")
        merging = merging.whenMatchedUpdate(set={"n": "t.n + s.n", **last})
        merging.whenNotMatchedInsert(values={"id": "s.id", "n": "s.n", **last}).execute()

    arrived = spark.readStream.format("delta").load(str(work.bronze)).writeStream.foreachBatch(upsert)
    arrived = arrived.option("checkpointLocation", f"{work.folder}/checkpoints/silver")
    arrived.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    began = time.time()
    work = Work.of(sys.argv[1])
    spark = session(work.memory, TUNED if "--tuned" in sys.argv else {})
    ready = time.time()
    run(spark, work)
    print(json.dumps({"began": began * 1000, "ready": ready * 1000}))
    spark.stop()


if __name__ == "__main__":
    main()
