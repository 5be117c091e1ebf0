"""Fixed records: quarantined ones as rows of bronze, with the bytes that count instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import NotFound
from lakehouse.lake.in_effect import in_effect
from lakehouse.plan.origin import Source
from lakehouse.semantics import ahead
from lakehouse.semantics.epoch import EVER
from lakehouse.semantics.position import Identity
from lakehouse.spark.bronze import bronze, interventions
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.past.refold import IDENTITY
from lakehouse.spark.stream.decoded import decoded

BYTES = "topic_id string, partition int, offset bigint, key binary, value binary"


@dataclass(frozen=True, slots=True)
class FixedBytes:
    """A quarantined record, by its identity, and the bytes that count instead."""

    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def rows(lake: OpenLake, source: Source, fixes: Sequence[FixedBytes]) -> DataFrame:
    """Return the quarantined records as rows of bronze, with their new bytes. Raises NotFound without a quarantine."""
    if not lake.exists(lake.layout.quarantine(source.name)):
        raise NotFound(f"stream {source.name!r} has no quarantine: none of its records was bad.")
    made = lake.spark.createDataFrame([(f.topic_id, f.partition, f.offset, f.key, f.value) for f in fixes], BYTES)
    there = lake.read(lake.layout.quarantine(source.name)).drop("key", "value", "reason")
    if source.max_ahead is not None:
        there = _marked(there)
    return there.join(F.broadcast(made), list(IDENTITY)).select(*bronze.COLUMNS)


def _marked(there: DataFrame) -> DataFrame:
    """Rows with the header of fixed ones, whose event time is not judged again."""
    mark = F.struct(F.lit(ahead.HEADER).alias("key"), F.lit(None).cast("binary").alias("value"))
    headers = F.coalesce("headers", F.array().cast(there.schema["headers"].dataType))
    return there.withColumn("headers", F.concat(headers, F.array(mark)))


def identities(rows: DataFrame) -> list[Identity]:
    """Return the identities of rows of bronze, sorted."""
    return sorted(Identity(*row) for row in rows.select(*IDENTITY).collect())


def unfit(source: Source, rows: DataFrame) -> list[Identity]:
    """Return which of the rows do not fit the source's schema."""
    bad = decoded(source, rows).where("_bad").select(F.col("_topic_id").alias("topic_id"), "_position.*")
    return identities(bad)


def fixed_before(lake: OpenLake, table: str, rows: DataFrame, *, alike: bool = False) -> list[Identity]:
    """Return which of the rows already count with other bytes in a table, not taken back; alike: with these bytes."""
    done = interventions.fixes(lake, in_effect(interventions.of(lake, table), EVER))
    if done is None:
        return []
    names = (*IDENTITY, "key", "value") if alike else IDENTITY
    same = [F.col(f"r.{name}").eqNullSafe(F.col(f"d.{name}")) for name in names]
    return identities(rows.alias("r").join(done.alias("d"), same, "left_semi"))
