"""The quarantine of a stream: records that do not fit its schema, with their bytes, their position and the reason."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.formats.codec.registered import FindSchemas
from lakehouse.formats.decode import part_schemas, reason_finder
from lakehouse.lake.commit_metadata import QuarantineCommit
from lakehouse.lake.layout import Layout
from lakehouse.lake.place import quarantine_place
from lakehouse.model.model import EVENT_TIME, time_refusal
from lakehouse.plan.origin import Source
from lakehouse.semantics.commit_number import NO_TICK, Progress
from lakehouse.spark.bronze import bronze
from lakehouse.spark.expression.arrow_functions import over_arrow
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.padded_struct import padded_struct
from lakehouse.spark.stream.decoded import decode_records, is_unmet, judging_time
from lakehouse.spark.transaction import append, new_table

SCHEMA = f"{bronze.SCHEMA}, reason string"
NO_FIT = "value: does not fit the schema"


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
        "_position.*", F.col("rowtime").alias("ms"), F.col("_tombstone").alias("own"), *_unmet_columns(source)
    )
    flagged_records = flagged_records.drop("order_time", "topic", "ordinals")
    bad_rows = bronze_rows.join(flagged_records, ["partition", "offset", "tick"])
    # To sort, Spark reads the rows twice: the reasons, which Python finds, come after that.
    bad_rows = bad_rows.orderBy("tick", *identity_columns)
    reason = _reason(source, find_schemas)("key", "value", "ms", "own", judging_time())
    if source.judged_expectations:
        reason = F.coalesce(reason, _unmet_reason(source)("unmet", "found"))
    return bad_rows.withColumn("reason", F.coalesce(reason, F.lit(NO_FIT))).select(*bronze.COLUMNS, "reason")


def _unmet_columns(source: Source) -> list[Column]:
    """Return the number of the first expectation that a decoded record does not meet, and the values that it reads."""
    if not source.judged_expectations:
        return []
    numbers = [F.when(is_unmet(item), F.lit(number)) for number, item in enumerate(source.judged_expectations)]
    return [F.coalesce(*numbers).alias("unmet"), padded_struct(*_shown_columns(source)).alias("found")]


def _shown_columns(source: Source) -> list[str]:
    return list(dict.fromkeys(name for item in source.judged_expectations for name in item.shown_columns))


def _unmet_reason(source: Source) -> Callable[..., Column]:
    """Return the column function that says which expectation a record does not meet, of `_unmet_columns`."""
    names, expectations = _shown_columns(source), source.judged_expectations

    def reasons(numbers: pa.Array, unmet_values: pa.Array) -> pa.Array:
        columns = [unmet_values.field(index).to_pylist() for index in range(len(names))]
        rows = zip(numbers.to_pylist(), *columns, strict=True)
        texts = [
            None if number is None else expectations[number].reason(dict(zip(names, values, strict=True)))
            for number, *values in rows
        ]
        return pa.array(texts, type=pa.string())

    return over_arrow(reasons, "string")


def _reason(source: Source, find_schemas: FindSchemas) -> Callable[..., Column]:
    """Return the column function that says why a record is bad: its key, its value or its event time; null for others.

    Its arguments are the bytes of both, the time, whether it is the record's own, and that with which it is compared.
    """
    read_parts = [
        (part, *source.format_and_columns(part), part_schemas(source, part, find_schemas)) for part in ("key", "value")
    ]

    def reason_of_time(ms: int | None, own: bool, judged_by: int | None) -> str | None:
        if ms is None:
            return EVENT_TIME.format(source.event_time) if source.event_time else None
        return time_refusal(source, ms, judged_by, is_record_time=own)

    def reasons(key: pa.Array, value: pa.Array, ms: pa.Array, own: pa.Array, judged_by: pa.Array) -> pa.Array:
        find_key_reason, find_value_reason = (reason_finder(*part) for part in read_parts)
        rows = zip(*(array.to_pylist() for array in (key, value, ms, own, judged_by)), strict=True)
        found_reasons = [
            find_key_reason(row[0]) or find_value_reason(row[1]) or reason_of_time(*row[2:]) for row in rows
        ]
        return pa.array(found_reasons, type=pa.string())

    return over_arrow(reasons, "string")


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
    append(new_rows, table_place, next_progress, content, overwrite=True)
    return next_progress.epoch
