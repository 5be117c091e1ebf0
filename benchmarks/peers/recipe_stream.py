"""The recipe of Delta's documentation as it runs all day: two streams, one appends bronze, one merges two tables.

    recipe_stream.py SERVERS FOLDER [--tuned]

Runs until it is killed. The tables are those of `common.py`: the last values of each key, and a count. What the recipe
does not do: see `recipe.py`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from recipe import TUNED, session, table
from work import MEMORY

TOPIC = "events"
SCHEMA = "kind string, amount bigint, note string"
VALUES = ("kind", "amount", "note")
# Spark forgets all but a hundred; recipe_freshness.py asks what each batch read.
REMEMBERED = {"spark.sql.streaming.minBatchesToRetain": "1000000"}


def run(spark: SparkSession, servers: str, folder: str) -> None:
    latest = table(spark, f"{folder}/silver/latest", SCHEMA)
    counts = table(spark, f"{folder}/silver/counts", "n bigint")
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    records = kafka.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()
    writing = records.writeStream.format("delta").option("checkpointLocation", f"{folder}/checkpoints/bronze")
    writing.start(f"{folder}/bronze/records")
    while not Path(folder, "bronze/records/_delta_log/00000000000000000000.json").exists():
        time.sleep(0.05)

    def upsert(batch: DataFrame, _: int) -> None:
        value = F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")
        rows = batch.select(F.col("key").cast("string").alias("id"), value, "offset").groupBy("id")
        folded = rows.agg(F.count("*").alias("n"), F.max_by("v", "offset").alias("v")).persist()
        last = {name: f"s.v.{name}" for name in VALUES}
        merging = latest.alias("t").merge(folded.alias("s"), "t.id = s.id").whenMatchedUpdate(set=last)
        merging.whenNotMatchedInsert(values={"id": "s.id", **last}).execute()
        merging = counts.alias("t").merge(folded.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"n": "t.n + s.n"})
        merging.whenNotMatchedInsert(values={"id": "s.id", "n": "s.n"}).execute()
        folded.unpersist()

    arrived = spark.readStream.format("delta").load(f"{folder}/bronze/records").writeStream.foreachBatch(upsert)
    arrived.option("checkpointLocation", f"{folder}/checkpoints/silver").start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    run(session(MEMORY, REMEMBERED | (TUNED if "--tuned" in sys.argv else {})), sys.argv[1], sys.argv[2])
