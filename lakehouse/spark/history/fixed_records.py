"""Fixed records: quarantined records as rows of bronze, with the bytes that count instead."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.formats.codec.registered import FindSchemas
from lakehouse.lake.record.fixed_records import FixedBytes
from lakehouse.plan.origin import Source
from lakehouse.semantics.position import Identity
from lakehouse.semantics.time import future_time
from lakehouse.spark.bronze import bronze
from lakehouse.spark.history.refold import IDENTITY
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.decoded import decode_records

BYTES = "topic_id string, partition int, offset bigint, key binary, value binary"


def fixed_rows(lake: OpenLake, source: Source, fixes: Sequence[FixedBytes]) -> DataFrame:
    """Return the quarantined records as rows of bronze, with their new bytes. Raises NotFound without a quarantine."""
    if not lake.exists(lake.layout.quarantine(source.name)):
        raise NotFound(f"stream {source.name!r} has no quarantine: none of its records was bad.")
    fixed_bytes = lake.spark.createDataFrame(
        [(f.topic_id, f.partition, f.offset, f.key, f.value) for f in fixes], BYTES
    )
    quarantined_rows = lake.read(lake.layout.quarantine(source.name)).drop("key", "value", "reason")
    if source.max_ahead is not None:
        quarantined_rows = _with_header(quarantined_rows)
    return quarantined_rows.join(F.broadcast(fixed_bytes), list(IDENTITY)).select(*bronze.COLUMNS)


def _with_header(quarantined_rows: DataFrame) -> DataFrame:
    """Return the rows with the header of fixed records, whose event time is not checked again."""
    fixed_header = F.struct(F.lit(future_time.HEADER).alias("key"), F.lit(None).cast("binary").alias("value"))
    headers = F.coalesce("headers", F.array().cast(quarantined_rows.schema["headers"].dataType))
    return quarantined_rows.withColumn("headers", F.concat(headers, F.array(fixed_header)))


def read_identities(bronze_rows: DataFrame) -> list[Identity]:
    """Return the identities of rows of bronze, sorted."""
    return sorted(Identity(*row) for row in bronze_rows.select(*IDENTITY).collect())


def unfit_identities(source: Source, bronze_rows: DataFrame, find_schemas: FindSchemas) -> list[Identity]:
    """Return the identities of the rows that do not fit the source's schema."""
    bad_records = decode_records(source, bronze_rows, find_schemas).where("_bad")
    return read_identities(bad_records.select(F.col("_topic_id").alias("topic_id"), "_position.*"))
