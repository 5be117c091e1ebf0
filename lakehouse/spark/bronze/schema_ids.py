"""The ids of schemas in the records of a topic: see `lakehouse.formats.registered`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.formats.registered import ID_MAX, PREFIX_LENGTH
from lakehouse.plan.names.record_format import parse_format
from lakehouse.plan.origin import Source
from lakehouse.spark.bronze import bronze
from lakehouse.spark.open_lake import OpenLake


def read_schema_ids(lake: OpenLake, source: Source, after_tick: int, to_tick: int) -> dict[str, list[int]]:
    """Return the ids in the keys and in the values of a topic's ticks, in (after_tick, to_tick], the usual ones first.

    Only of those parts that have a registered format.
    """
    formats = {"key": source.key_format, "value": source.value_format}
    part_names = [name for name, format in formats.items() if parse_format(format).traits.is_registered]
    own_topics = [source.topic] if source.own_table else []
    topic_rows = bronze.between_ticks(bronze.read_topic_records(lake, [source.topic], own_topics), after_tick, to_tick)
    counted = topic_rows.groupBy(*[schema_id_of(F.col(name)).alias(name) for name in part_names]).count()
    counts_by_part: dict[str, dict[int, int]] = {name: {} for name in part_names}
    for row in counted.collect():
        for name, counts in counts_by_part.items():
            if row[name] is not None:
                counts[row[name]] = counts.get(row[name], 0) + row["count"]
    return {
        name: sorted(counts, key=lambda id, counts=counts: (-counts[id], id))  # type: ignore[misc]
        for name, counts in counts_by_part.items()
    }


def schema_id_of(data: Column) -> Column:
    """Return the id of a schema in bytes, as `lakehouse.formats.registered.schema_id` does; null if there is none."""
    id = F.conv(F.hex(F.substring(data, 2, PREFIX_LENGTH - 1)), 16, 10).cast("bigint")
    has_prefix = (F.octet_length(data) >= PREFIX_LENGTH) & (F.substring(data, 1, 1) == F.lit(b"\0"))
    return F.when(has_prefix & id.between(1, ID_MAX), id)
