"""Records that no Kafka has seen: rows as Spark's Kafka source gives them, to be written into bronze."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def kafka_rows(
    frame: DataFrame,
    topic: str,
    field: str,
    *,
    time_ms: Column,
    key: Column | None = None,
    partition: Column | None = None,
) -> DataFrame:
    """Return a record for each `number` (bigint) of a frame: its offset, its key unless `key` says another number, and
    the value {field: number}. time_ms: its timestamp in milliseconds. partition: 0 if left out.
    """
    number = F.col("number")
    return frame.select(
        F.lit(topic).alias("topic"),
        (F.lit(0) if partition is None else partition).cast("int").alias("partition"),
        number.alias("offset"),
        F.timestamp_millis(time_ms).alias("timestamp"),
        F.lit(0).alias("timestampType"),
        F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
        F.encode(F.format_string("k%09d", number if key is None else key), "UTF-8").alias("key"),
        F.encode(F.concat(F.lit(f'{{"{field}":'), number, F.lit("}")), "UTF-8").alias("value"),
    )
