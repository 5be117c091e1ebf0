"""Erased records: their places are kept, with a salted hash of their bytes; bronze and its like lose their rows.

The places say why bronze has no row at an offset: an audit accounts for it. A hash proves that a record which somebody
still has is the one that was erased, to those who know the salt; it gives nothing else away.
"""

from __future__ import annotations

from collections.abc import Iterable

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.kafka.holes import OffsetRange
from lakehouse.lake.properties import ERASURE
from lakehouse.plan.names.field import in_backticks
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.transaction import new_table, read_properties, set_properties

SCHEMA = (
    "id string, topic string, topic_id string, partition int, offset bigint, tick bigint, timestamp timestamp, "
    "order_time timestamp, hash string"
)
PLACE = ("topic", "partition", "offset", "tick")  # rows of late records have no topic id, which the tick tells
APPEND_ONLY = "delta.appendOnly"


def keep_places(lake: OpenLake, id: str, bronze_rows: DataFrame, salt: str) -> None:
    """Keep the places of the records of an erasure, in place of those kept before. bronze_rows: these records once."""
    path = lake.layout.erased_records
    if not lake.exists(path):
        new_table(lake.spark, path, SCHEMA).execute()
    DeltaTable.forPath(lake.spark, path).delete(F.col("id") == id)
    parts = [F.coalesce(F.base64(name), F.lit("-")) for name in ("key", "value")]
    rows = bronze_rows.withColumns({"id": F.lit(id), "hash": F.sha2(F.concat_ws(".", F.lit(salt), *parts), 256)})
    columns = lake.read(path).columns
    rows.select(*columns).coalesce(1).write.format("delta").mode("append").save(path)


def read_places(lake: OpenLake, id: str | None = None) -> DataFrame:
    """Return the places of the records of an erasure, or of all erasures."""
    rows = lake.read(lake.layout.erased_records)
    return rows if id is None else rows.where(F.col("id") == id)


def add_erased_places(lake: OpenLake, bronze_rows: DataFrame) -> DataFrame:
    """Add the places of erased records to rows of bronze: only the columns that places have."""
    columns = ("topic", "topic_id", "partition", "offset", "tick", "order_time")
    rows = bronze_rows.select(*columns)
    if not lake.exists(lake.layout.erased_records):
        return rows
    return rows.unionByName(read_places(lake).select(*columns))


def delete_records(lake: OpenLake, id: str, path: str) -> None:
    """Delete the rows of an erasure's records from a Delta table that has rows of bronze, or their places.

    Nothing may write the table meanwhile. Call it with a session of its own: the commit has no number.
    """
    append_only = read_properties(lake.spark, path).get(APPEND_ONLY)
    if append_only == "true":
        set_properties(lake.spark, path, {APPEND_ONLY: "false"}, ERASURE)
    places = read_places(lake, id).select(*PLACE).distinct()
    topics = [row["topic"] for row in places.select("topic").distinct().collect()]
    same_place = " AND ".join(f"t.{in_backticks(name)} = e.{in_backticks(name)}" for name in PLACE)
    is_in_topics = F.col("t.topic").isin(topics)  # the other topics' files are not read
    merge = DeltaTable.forPath(lake.spark, path).alias("t").merge(places.alias("e"), F.expr(same_place) & is_in_topics)
    merge.whenMatchedDelete().execute()
    if append_only is not None:  # "false" after a kill in between
        set_properties(lake.spark, path, {APPEND_ONLY: "true"}, ERASURE)


def read_erased_ranges(lake: OpenLake, topics: Iterable[str]) -> dict[tuple[str, str, int], list[OffsetRange]]:
    """Return the offsets of erased records as ranges, by topic, topic id and partition."""
    if not lake.exists(lake.layout.erased_records):
        return {}
    ranges: dict[tuple[str, str, int], list[OffsetRange]] = {}
    places = (
        read_places(lake).where(F.col("topic").isin(list(topics))).select("topic", "topic_id", "partition", "offset")
    )
    for topic, topic_id, partition, offset in places.distinct().orderBy("offset").toLocalIterator():
        partition_ranges = ranges.setdefault((topic, topic_id, partition), [])
        if partition_ranges and partition_ranges[-1][1] == offset:
            partition_ranges[-1] = (partition_ranges[-1][0], offset + 1)
        else:
            partition_ranges.append((offset, offset + 1))
    return ranges
