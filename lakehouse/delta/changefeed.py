"""A table's changelog. Per event it is derived from bronze when asked; net per commit it is Delta's change data feed.

Per event: one change a record that reached the table, as batches of one record would have given them, whatever the
batches were (SEMANTICS.md, rule 24). For `latest` that is a copy of the input. For aggregates each record's change is
the accumulator after it: a running sum in position order, which begins at the table's own row.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse.delta import bronze, fold, tables, travel
from lakehouse.delta.aggregates import SqlAggregate
from lakehouse.delta.layout import Layout
from lakehouse.delta.streams import stream_frame
from lakehouse.errors import NotFound
from lakehouse.plan.declare import Stream, Table

# Beside the key and value columns: is it a delete, the event time in milliseconds, and what caused it.
CHANGE_COLUMNS = ("_tombstone", "_event_time_ms", "_position")


def per_event(spark: SparkSession, layout: Layout, table: Table, after: int, to: int, own: list[str]) -> DataFrame:
    """Return the changes of the ticks in (after, to], in position order: key, values, accumulators, CHANGE_COLUMNS."""
    skip = tables.skipped_offsets(spark, layout, table)
    rows = stream_frame(table.stream, fold.not_skipped(_between(spark, layout, table.stream, after, to, own), skip))
    if table.is_latest:
        frame = rows.where(~F.col("_null_key")).withColumn("_event_time_ms", F.col("rowtime"))
        return frame.select(*[c.name for c in table.stream.columns], *CHANGE_COLUMNS).orderBy("_position")
    forms = fold.forms_of(spark, table)
    records = fold.inputs(table, forms, rows, units=True)
    if after > 0 or skip:
        base = _base(spark, layout, table, forms, after, own, foldable=not skip)
        touched = records.select(*[F.col(name).alias(f"_touched_{name}") for name in table.key]).distinct()
        same = reduce(and_, [F.col(name).eqNullSafe(F.col(f"_touched_{name}")) for name in table.key])
        records = base.join(touched, same, "left_semi").unionByName(records)
    window = Window.partitionBy(*table.key).orderBy(F.col("_position").asc_nulls_first())
    window = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    totals = {f"_total_{form.name}": form.running(F.col(f"_in_{form.name}"), window) for form in forms}
    frame = records.withColumns({**totals, "_event_time_ms": F.max("rowtime").over(window)}).where(
        F.col("_position").isNotNull()
    )
    shown = [form.shown(F.col(f"_total_{form.name}")).alias(form.name) for form in forms]
    kept = [F.col(f"_total_{form.name}").alias(form.accumulator) for form in forms if form.accumulator_type]
    frame = frame.withColumn("_tombstone", F.lit(False))
    return frame.select(*table.key, *shown, *kept, *CHANGE_COLUMNS).orderBy("_position")


def of_key(changes: DataFrame, table: Table, key: str) -> DataFrame:
    """Keep one key's changes. `key` is its text; the columns of a key of several are joined by commas."""
    return changes.where(F.concat_ws(",", *[F.col(name).cast("string") for name in table.key]) == key)


def stream_events(
    spark: SparkSession, layout: Layout, stream: Stream, after: int, to: int, own: list[str]
) -> DataFrame:
    """Return a stream's records of the ticks in (after, to], in position order, with `_null_key` and CHANGE_COLUMNS."""
    rows = stream_frame(stream, _between(spark, layout, stream, after, to, own))
    frame = rows.withColumn("_event_time_ms", F.col("rowtime"))
    return frame.select(*[c.name for c in stream.columns], "_null_key", *CHANGE_COLUMNS).orderBy("_position")


def net(spark: SparkSession, layout: Layout, table: Table, after: int, to: int) -> DataFrame:
    """Return the net changes of the commits in (after, to], from Delta's change data feed, in commit order."""
    path = layout.silver(table.name)
    versions = [c.version for c in travel.commits(spark, path, table.name) if after < c.tick <= to]
    if not versions:
        return net_frame(spark.read.format("delta").load(path).limit(0).withColumns(
            {"_change_type": F.lit(""), "_commit_version": F.lit(0).cast("bigint")}
        ), table)  # fmt: skip
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return net_frame(
        reader.option("startingVersion", versions[0]).option("endingVersion", versions[-1]).load(path), table
    )


def net_frame(feed: DataFrame, table: Table) -> DataFrame:
    """Bring Delta's change rows into the form of `per_event`."""
    changes = feed.where(F.col("_change_type") != "update_preimage")
    changes = changes.withColumns(
        {"_tombstone": F.col("_change_type") == "delete", "_event_time_ms": F.unix_millis("_event_time")}
    )
    names = [name for name in feed.columns if not name.startswith("_") or name.startswith("_acc_")]
    return changes.orderBy("_commit_version", "_position", *table.key).select(*names, *CHANGE_COLUMNS)


def _between(spark: SparkSession, layout: Layout, stream: Stream, after: int, to: int, own: list[str]) -> DataFrame:
    rows = bronze.records(spark, layout, [stream.source.topic], own)
    return bronze.between(rows, after, to)


def _base(
    spark: SparkSession,
    layout: Layout,
    table: Table,
    forms: list[SqlAggregate],
    tick: int,
    own: list[str],
    *,
    foldable: bool,
) -> DataFrame:
    """The rows that the changes begin from: the table at the tick, or, where Delta no longer has it, folded anew."""
    try:
        version = travel.version_at_tick(spark, layout, table, tick)
        rows = travel.read_version(spark, layout, table.name, version)
    except NotFound:
        if not foldable:
            raise  # what a restored table began from is in no bronze of this lake
        rows = fold.state(table, forms, stream_frame(table.stream, _between(spark, layout, table.stream, 0, tick, own)))
    units = [F.col(form.accumulator).alias(f"_in_{form.name}") for form in forms]
    none = F.lit(None).cast(dict(rows.dtypes)["_position"])
    return rows.select(*table.key, *units, F.unix_millis("_event_time").alias("rowtime"), none.alias("_position"))
