"""A stream on Spark: the records that it reads, and the stateless steps.

The frame of a stream has its visible columns, the pseudo columns, and lakehouse's own:

    _tombstone   the value is null
    _null_key    the key is null
    _bad         the record does not fit the schema (checked before the steps, gone after them)
    _undo        only of a table's rows, change by change: the row is taken out, not put in
    _position    struct(tick, order_time, topic, partition, offset, ordinals): compares like semantics' Position
    _topic_id    the topic's id: a recreated topic has another one
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial, reduce
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.plan.alert import Crossings
from lakehouse.plan.origin import ChangesOf, Merge, Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.schema import PSEUDO_COLUMNS
from lakehouse.plan.step import Map, Step
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.spark.in_memory import hold
from lakehouse.spark.stream.alert import crossings
from lakehouse.spark.stream.broadcast import joined_everywhere
from lakehouse.spark.stream.joined import Tables, changes_as_records, joined
from lakehouse.spark.stream.referring import rows_as_records
from lakehouse.spark.stream.step import OWN_COLUMNS, Flow, applied, merged
from lakehouse.spark.stream.stream_join import Earlier, joined_streams


class RowCounter(Protocol):
    """Counts on the way: takes rows, and returns them."""

    def __call__(self, source: Source | Table, rows: DataFrame) -> DataFrame:
        """Take the decoded records of a source, the bad ones too; for an upstream table, its changes."""

    def held(self, join: StreamJoin, rows: DataFrame) -> DataFrame:
        """Hold the records of a join in memory, which will be read several times: what is counted must be read once.

        rows: with `_too_late`, `_place` and the key, `_key_<n>`.
        """

    def mapped(self, place: Hashable, function: str, rows: DataFrame, error: Column) -> DataFrame:
        """Take the records after a `map`, with the error if its function failed."""


def stream_frame(
    stream: Stream,
    records: Callable[[Source], DataFrame],
    count: RowCounter | None = None,
    tables: Tables | None = None,
    earlier: Earlier | None = None,
    eras: Callable[[StreamJoin], Sequence[int]] = lambda join: (),
    forced: DataFrame | None = None,
) -> DataFrame:
    """Return the stream's records, without the bad ones.

    records: gives those of a source, as `decoded` does. count: see `RowCounter`. tables: how upstream tables are read,
    for a stream that has some. earlier: what came before, for a stream with joins of streams; None if nothing did.
    eras: gives the ticks at which the eras of a join's topics begin (`semantics.operators.eras`). forced: see
    `joined_streams`.
    """
    made = partial(stream_frame, records=records, count=count, tables=tables, earlier=earlier, eras=eras, forced=forced)
    match stream.source:
        case Source():
            rows = records(stream.source)
            rows = count(stream.source, rows) if count else rows
            rows = rows.where(~F.col("_bad")).drop("_bad")
        case Merge():
            rows = _merged(stream.source, [made(part) for part in stream.source.streams])
        case ChangesOf(table):
            assert tables is not None
            rows = _counted(table, changes_as_records(table, tables.changes(table)), count)
        case Crossings(table=table):
            assert tables is not None
            rows = _counted(table, crossings(stream.source, tables), count)
        case TableJoin(part):
            assert tables is not None
            join = joined_everywhere if stream.source.broadcast else joined
            rows = join(stream.source, made(part), tables)
        case StreamJoin(left, right):
            sides = [made(part) for part in (left, right)]
            held = hold if count is None else partial(count.held, stream.source)
            rows = joined_streams(stream.source, sides, earlier, held, eras(stream.source), forced)
        case RowsOf() | RowsJoin() | ForeignKeyJoin():
            assert tables is not None
            rows = _counted(stream.source.tables[0], rows_as_records(stream.source, tables), count)
    done: list[Step] = []
    begins = "\n".join(stream.source.lines())

    def failing(step: Map, rows: DataFrame, error: Column) -> DataFrame:
        return count.mapped((begins, tuple(done)), f"map {step.name}", rows, error) if count else rows

    flow = Flow(rows, stream.source.names_of_key, failing)
    for item in stream.steps:
        done.append(item)
        flow = applied(item, flow)
    return flow.frame


def _counted(table: Table, rows: DataFrame, count: RowCounter | None) -> DataFrame:
    """What a table gives is never bad."""
    return count(table, rows.withColumn("_bad", F.lit(False))).drop("_bad") if count else rows


def _merged(merge: Merge, frames: list[DataFrame]) -> DataFrame:
    names = [column.name for column in merge.streams[0].columns]
    parts = []
    for number, frame in enumerate(frames):
        part = frame.select(*names, *OWN_COLUMNS, *PSEUDO_COLUMNS)
        parts.append(part.withColumn("_position", merged(number)))
    return reduce(DataFrame.unionByName, parts)
