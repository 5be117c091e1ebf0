"""The quarantine of a stream: records that do not fit its schema, with their bytes, their position and the reason."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.formats.decode import part_schemas, reason_not_fitting
from lakehouse.formats.registered import FindSchemas
from lakehouse.lake.commit_metadata import QuarantineCommit
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import quarantine_place
from lakehouse.model.model import EVENT_TIME, time_refusal
from lakehouse.plan.origin import Source
from lakehouse.semantics.commit_number import NO_TICK, Progress
from lakehouse.spark.bronze import bronze
from lakehouse.spark.expression.arrow_functions import over_arrow
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.decoded import decode_records, judging_time
from lakehouse.spark.transaction import append, new_table

SCHEMA = f"{bronze.SCHEMA}, reason string"


def create_quarantine(lake: OpenLake, source: Source) -> None:
    """Create a stream's quarantine if it does not exist yet."""
    table_path = lake.layout.quarantine(source.name)
    if not lake.exists(table_path):
        builder = new_table(lake.spark, table_path, SCHEMA)
        builder.property("delta.dataSkippingStatsColumns", "partition,offset,timestamp,tick,order_time").execute()


def bad_records(
    source: Source, bronze_rows: DataFrame, decoded_records: DataFrame, find_schemas: FindSchemas
) -> DataFrame:
    """Return those bronze rows of the source's topic that do not fit its schema, with the reason.

    decoded_records: these rows after `decode_records`, with the same schemas of writers.
    """
    identity_columns = ["topic_id", "partition", "offset"]
    flagged_records = decoded_records.where("_bad").select(
        "_position.*", F.col("rowtime").alias("ms"), F.col("_tombstone").alias("own")
    )
    bad_rows = bronze_rows.join(
        flagged_records.select("partition", "offset", "tick", "ms", "own"), ["partition", "offset", "tick"]
    )
    time_reason = _time_reason(source)(F.struct("ms", "own", judging_time().alias("judged_by")))
    default_reason = F.lit(
        EVENT_TIME.format(source.event_time) if source.event_time else "value: does not fit the schema"
    )
    reason = F.coalesce(
        _schema_reason(source, "key", find_schemas)(F.col("key")),
        _schema_reason(source, "value", find_schemas)(F.col("value")),
        time_reason,
        default_reason,
    )
    return bad_rows.withColumn("reason", reason).orderBy("tick", *identity_columns).select(*bronze.COLUMNS, "reason")


def _schema_reason(source: Source, part: str, find_schemas: FindSchemas) -> Callable[[Column], Column]:
    """Return the column function that says why a key or a value does not fit; null if it does."""
    format_name, columns = source.format_and_columns(part)
    schemas = part_schemas(source, part, find_schemas)

    def reason(batch: pa.Array) -> pa.Array:
        reasons = [reason_not_fitting(part, format_name, columns, data, schemas) for data in batch.to_pylist()]
        return pa.array(reasons, type=pa.string())

    return over_arrow(reason, "string")


def _time_reason(source: Source) -> Callable[[Column], Column]:
    """Return the column function that says why an event time is bad, or null.

    Its argument is a struct: the time, whether it is the record's own, and the time with which it is compared.
    """

    def reason(batch: pa.Array) -> pa.Array:
        rows = batch.to_pylist()
        reasons = [
            None if row["ms"] is None else time_refusal(source, row["ms"], row["judged_by"], own=row["own"])
            for row in rows
        ]
        return pa.array(reasons, type=pa.string())

    return over_arrow(reason, "string")


def swap_quarantine(
    lake: OpenLake, built_layout: Layout, source: Source, bronze_rows: DataFrame, epoch: int, to_tick: int
) -> int:
    """Replace a stream's quarantine with that of a table built elsewhere, up to `to_tick`; return the new epoch.

    Nothing happens if both have the same records. bronze_rows: if another table was ahead, the later bad records come
    from them. In one commit, under the epoch after the writer's; a repetition after a crash has the same result.
    """
    table_place = quarantine_place(lake.layout, source.name)
    new_rows = lake.read(built_layout.quarantine(source.name)).where(F.col("tick") <= to_tick)
    present_rows = lake.read(table_place.path).where(F.col("tick") <= to_tick)
    if new_rows.exceptAll(present_rows).isEmpty() and present_rows.exceptAll(new_rows).isEmpty():
        return epoch
    progress = lake.progress(table_place)
    if progress.tick > to_tick:
        later_rows = bronze.between_ticks(bronze_rows, to_tick, progress.tick)
        find_schemas = lake.schemas.find
        later_bad_records = bad_records(
            source, later_rows, decode_records(source, later_rows, find_schemas), find_schemas
        )
        new_rows = new_rows.unionByName(later_bad_records)
    next_progress = Progress(epoch + 1, max(progress.tick, to_tick))
    content = QuarantineCommit(from_tick=NO_TICK, operation="swap")
    append(new_rows, table_place, next_progress, content, instead=True)
    return next_progress.epoch
