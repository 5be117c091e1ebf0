"""One batch into one table: the touched keys are gathered, folded in position order, and merged into their rows.

The table is the state: the row's own columns are the accumulators that the batch goes on from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakehouse.delta.aggregates import SqlAggregate
from lakehouse.delta.bronze import literal_map
from lakehouse.delta.streams import decoded, steps
from lakehouse.delta.tables import aggregates
from lakehouse.plan.declare import Table


@dataclass(frozen=True, slots=True)
class Folded:
    """A batch, folded to one row a touched key. `frame` is held in memory: `unpersist` it."""

    frame: DataFrame
    records: int
    bad: int
    null_keys: int
    keys: int


def fold(table: Table, forms: list[SqlAggregate], bronze: DataFrame) -> Folded:
    """Fold bronze rows of the table's topic. What is counted on the way is counted in the same pass."""
    seen = Observation()
    rows = decoded(table.stream.source, bronze).observe(
        seen, F.count(F.lit(1)).alias("records"), F.count_if("_bad").alias("bad")
    )
    rows = steps(table.stream, rows.where(~F.col("_bad")))
    ignored = Observation()
    no_key = F.col("_null_key") if table.is_latest else ~F.col("_tombstone") & _null_group(table)
    rows = rows.observe(ignored, F.count_if(no_key).alias("null_keys"))
    frame = (_latest(table, rows) if table.is_latest else _aggregated(table, forms, rows)).persist()
    keys = frame.count()
    counted = seen.get
    return Folded(frame, counted["records"], counted["bad"], ignored.get["null_keys"], keys)


def _null_group(table: Table) -> Column:
    """A null in any GROUP BY column; a struct of nulls is not a null (rule 1)."""
    return reduce(or_, [F.expr(item.expression.text).isNull() for item in table.group_by])


def _latest(table: Table, rows: DataFrame) -> DataFrame:
    """The last record of each key, tombstones too. See `lakehouse.semantics.tombstone` for what becomes of them."""
    values = [c.name for c in table.stream.columns if c.name not in table.key]
    row = F.struct(*values, "_tombstone", F.timestamp_millis("rowtime").alias("_event_time"), "_position")
    last = F.max_by(row, F.col("_position")).alias("_last")
    return rows.where(~F.col("_null_key")).groupBy(*table.key).agg(last).select(*table.key, "_last.*")


def inputs(table: Table, forms: list[SqlAggregate], rows: DataFrame, *, units: bool = False) -> DataFrame:
    """The records that take part in the aggregates: the group's columns, and each aggregation's input, or its unit."""
    rows = rows.where(~F.col("_tombstone") & ~_null_group(table))
    keys = [F.expr(item.expression.text).alias(item.name) for item in table.group_by]
    values = [(form.unit() if units else form.value()).alias(f"_in_{form.name}") for form in forms]
    return rows.select(*keys, *values, "rowtime", "_position")


def _aggregated(table: Table, forms: list[SqlAggregate], rows: DataFrame) -> DataFrame:
    new = [form.batch().alias(f"_new_{form.name}") for form in forms]
    time = F.timestamp_millis(F.max("rowtime")).alias("_event_time")
    return inputs(table, forms, rows).groupBy(*table.key).agg(*new, time, F.max("_position").alias("_position"))


def state(table: Table, forms: list[SqlAggregate], rows: DataFrame) -> DataFrame:
    """Fold a stream's rows into an aggregate's rows from nothing: what the table holds after them."""
    batch = _aggregated(table, forms, rows).alias("s")
    row = [column.alias(name) for name, column in _row(forms, None).items()]
    return batch.select(*[F.col(f"s.`{name}`") for name in table.key], *row)


def merge(spark: SparkSession, path: str, table: Table, forms: list[SqlAggregate], batch: DataFrame) -> None:
    """Merge a folded batch into the table, as one commit."""
    target = DeltaTable.forPath(spark, path).alias("t")
    same = reduce(and_, [F.col(f"t.`{name}`").eqNullSafe(F.col(f"s.`{name}`")) for name in table.key])
    merging = target.merge(batch.alias("s"), same)
    key = {name: F.col(f"s.`{name}`") for name in table.key}
    if table.is_latest:
        row = {name: F.col(f"s.`{name}`") for name in batch.columns if name not in (*table.key, "_tombstone")}
        merging = merging.whenMatchedDelete("s._tombstone").whenMatchedUpdate(set=_set(row))
        merging = merging.whenNotMatchedInsert("NOT s._tombstone", values=_set({**key, **row}))
    else:
        merging = merging.whenMatchedUpdate(set=_set(_row(forms, "t")))
        merging = merging.whenNotMatchedInsert(values=_set({**key, **_row(forms, None)}))
    merging.execute()


def _row(forms: list[SqlAggregate], old: str | None) -> dict[str, Column]:
    """The columns of an aggregate's row after the batch; `old` is the alias of the row before it, if there is one."""
    row: dict[str, Column] = {}
    for form in forms:
        before = F.col(f"{old}.`{form.accumulator}`") if old else None
        total = form.merged(before, F.col(f"s.`_new_{form.name}`"))
        row[form.accumulator] = total
        row[form.name] = form.shown(total)
    time = F.col("s._event_time")
    row["_event_time"] = F.greatest(F.col(f"{old}._event_time"), time) if old else time
    row["_position"] = F.col("s._position")
    return row


def _set(row: dict[str, Column]) -> dict[str, str | Column]:
    """A row for MERGE, whose columns are SQL text: a name may be a word of SQL."""
    return {f"`{name}`": column for name, column in row.items()}


def not_skipped(bronze: DataFrame, skip: str | None) -> DataFrame:
    """Leave out the offsets that a restored table holds already; `skip` is the table's property."""
    if not skip:
        return bronze
    first: Mapping[str, Mapping[str, int]] = json.loads(skip)
    flat = {f"{topic_id}/{partition}": offset for topic_id, of in first.items() for partition, offset in of.items()}
    start = F.element_at(literal_map(flat, "bigint"), F.concat_ws("/", "topic_id", "partition"))
    return bronze.where(start.isNull() | (F.col("offset") >= start))


def forms_of(spark: SparkSession, table: Table) -> list[SqlAggregate]:
    """Return the SQL forms of a table's aggregations; none for `latest`."""
    return [] if table.is_latest else aggregates(spark, table)


def counts(folded: Folded) -> dict[str, Any]:
    """Return what a batch saw, for the commit's metadata."""
    return {"records": folded.records, "bad": folded.bad, "null_keys": folded.null_keys, "keys": folded.keys}
