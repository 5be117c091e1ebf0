"""The ids of schemas in the records of a topic: see `lakehouse.formats.codec.registered`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.errors import StorageError
from lakehouse.formats.codec.registered import ID_MAX, PREFIX_LENGTH
from lakehouse.plan.origin import Source
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenLake


def check_schemas(lake: OpenLake, source: Source, tick: int) -> None:
    """Raise StorageError if a record of a source up to a tick has an id that nobody has looked up.

    Ticks that no application has taken in yet may have none of the topic's records.
    """
    topic, schemas = source.topic, lake.schemas
    for part_name in source.registered_parts:
        if schemas.reaches(topic, part_name, tick):
            continue
        known_tick = schemas.tick(topic, [part_name])
        kept_ids = schemas.ids(topic, part_name)
        ids = read_schema_ids(
            lake, topic, part_name, known_tick, tick, own_table=source.own_table, limit=len(kept_ids) + 1
        )
        if not kept_ids.issuperset(ids):
            raise StorageError(
                f"the schemas of topic {topic!r} are known up to tick {known_tick} of bronze, and tick {tick} is read. "
                "Run its application while the registry can be reached."
            )


def read_schema_ids(
    lake: OpenLake, topic: str, part_name: str, after_tick: int, to_tick: int, *, own_table: bool, limit: int
) -> list[int]:
    """Return the ids in a topic's "key" or "value", in the ticks in (after_tick, to_tick]: the `limit` most usual ones.

    own_table: whether the topic has a table of its own.
    """
    bronze_rows = bronze.read_ticks(lake, [topic], after_tick, to_tick, [topic] if own_table else [])
    ids = bronze_rows.select(schema_id_of(F.col(part_name)).alias("id"))
    counts = ids.where(F.col("id").isNotNull()).groupBy("id").count()
    return [row["id"] for row in counts.orderBy(F.desc("count"), "id").limit(limit).collect()]


def schema_id_of(data: Column) -> Column:
    """Return the id of a schema in bytes; null without one. As `lakehouse.formats.codec.registered.schema_id` does."""
    id = F.conv(F.hex(F.substring(data, 2, PREFIX_LENGTH - 1)), 16, 10).cast("bigint")
    has_prefix = (F.octet_length(data) >= PREFIX_LENGTH) & (F.substring(data, 1, 1) == F.lit(b"\0"))
    return F.when(has_prefix & id.between(1, ID_MAX), id)
