"""Quarantine replay: records that did not fit their schema count with other bytes, each at its original position.

The fix is an intervention: bronze and the quarantine keep what came. What depends on the record is refolded, and only
that: the rows of its keys, in the tables that read its stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from lakehouse.delta import bronze, interventions, tables
from lakehouse.delta.interventions import Wanted
from lakehouse.delta.layout import Layout
from lakehouse.delta.refold import IDENTITY
from lakehouse.delta.streams import decoded
from lakehouse.errors import NotFound, PlanError
from lakehouse.plan.app import App
from lakehouse.plan.step import Source
from lakehouse.run.intervene import intervene

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES = "topic_id string, partition int, offset bigint, key binary, value binary"


@dataclass(frozen=True, slots=True)
class Fix:
    """A quarantined record, by its identity, and the bytes that it counts with."""

    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def replay(
    spark: SparkSession, layout: Layout, app: App, source: Source, fixes: Iterable[Fix], *, reason: str = ""
) -> int:
    """Let quarantined records of a stream count with other bytes, in all tables of the application that read it.

    Returns the tick of the intervention. Raises NotFound for a record that is not in the quarantine, PlanError for one
    that does not fit with its new bytes either, or was fixed before, and where no table reads the stream.
    """
    readers = [table.name for table in app.tables if source in table.stream.sources]
    if not readers:
        raise PlanError(f"no table of the application reads stream {source.name!r}; there is nothing to refold.")
    wanted = {(fix.topic_id, fix.partition, fix.offset): fix for fix in fixes}
    rows = _rows(spark, layout, source, list(wanted.values())).persist()
    try:
        found = {tuple(row) for row in rows.select(*IDENTITY).collect()}
        if missing := sorted(set(wanted) - found):
            raise NotFound(
                f"quarantine.{source.name} has no record {_shown(missing)}. `lakehouse quarantine` lists them."
            )
        bad = decoded(source, rows).where("_bad").select("_topic_id", "_position.partition", "_position.offset")
        if unfit := sorted(map(tuple, bad.collect())):
            raise PlanError(f"stream {source.name!r}: record {_shown(unfit)} does not fit with its new bytes either.")
        for name in readers:
            _refuse_again(spark, layout, name, rows)
        number = interventions.keep_records(spark, layout, rows)
    finally:
        rows.unpersist()
    return intervene(spark, layout, app, Wanted("fixed", tuple(readers), reason=reason, id=number))


def _rows(spark: SparkSession, layout: Layout, source: Source, fixes: list[Fix]) -> DataFrame:
    """The records as rows of bronze, with their new bytes."""
    if not tables.exists(spark, layout.quarantine(source.name)):
        raise NotFound(f"stream {source.name!r} has no quarantine: none of its records was bad.")
    made = spark.createDataFrame([(f.topic_id, f.partition, f.offset, f.key, f.value) for f in fixes], BYTES)
    there = spark.read.format("delta").load(layout.quarantine(source.name)).drop("key", "value", "reason")
    return there.join(F.broadcast(made), list(IDENTITY)).select(*bronze.COLUMNS)


def _refuse_again(spark: SparkSession, layout: Layout, table: str, rows: DataFrame) -> None:
    earlier = [at for at in interventions.of(spark, layout, table) if at.kind == "fixed"]
    done = interventions.records(spark, layout, earlier)
    again = [] if done is None else rows.join(done.select(*IDENTITY), list(IDENTITY)).select(*IDENTITY).collect()
    if again:
        raise PlanError(f"table {table!r}: record {_shown(sorted(map(tuple, again)))} was fixed before.")


def _shown(identities: Sequence[tuple[object, ...]]) -> str:
    shown = [f"{partition}@{offset} (topic id {topic_id})" for topic_id, partition, offset in identities[:5]]
    return ", ".join(shown) + (", ..." if len(identities) > len(shown) else "")
