"""Kafka's timestamps that are not valid times, on Spark; the rule is `lakehouse.semantics.time.kafka_time`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.semantics.time import kafka_time
from lakehouse.semantics.time.years import FIRST_MS, LAST_MS


def with_valid_times(frame: DataFrame) -> DataFrame:
    """Return rows from Kafka with valid times as timestamps; invalid times change as in `kafka_time.bronze_time`."""
    ms = F.unix_millis("timestamp")
    time_header = F.struct(F.lit(kafka_time.HEADER).alias("key"), ms.cast("string").cast("binary").alias("value"))
    headers = F.concat(F.coalesce("headers", F.array().cast(frame.schema["headers"].dataType)), F.array(time_header))
    nearest_time = F.timestamp_millis(F.when(ms < FIRST_MS, F.lit(FIRST_MS)).otherwise(F.lit(LAST_MS)))
    is_outside = (ms < FIRST_MS) | (ms > LAST_MS)
    return frame.withColumns(
        {
            "timestamp": F.when(is_outside, nearest_time).otherwise(F.col("timestamp")),
            "headers": F.when(is_outside, headers).otherwise(F.col("headers")),
        }
    )


def invalid_kafka_time() -> Column:
    """Return Kafka's own timestamp of a bronze row (milliseconds) if it is not a valid time, else null."""
    number_pattern = f"^{kafka_time.NUMBER.pattern.decode()}$"
    time_headers = F.filter(
        "headers", lambda item: (item["key"] == kafka_time.HEADER) & item["value"].cast("string").rlike(number_pattern)
    )
    is_bound = F.unix_millis("timestamp").isin(FIRST_MS, LAST_MS)
    return F.when(is_bound, F.get(time_headers, F.lit(0))["value"].cast("string").cast("bigint"))
