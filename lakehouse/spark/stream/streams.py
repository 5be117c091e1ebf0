"""A stream on Spark: the records that it reads, and its steps, which keep no state.

The frame of a stream has its visible columns, the pseudo columns, and lakehouse's own:

    _tombstone   the value is null
    _null_key    the key is null
    _bad         the record does not fit the schema (checked before the steps, gone after them)
    _undo        only for a table's rows, change by change: the record takes the row out, and does not put it in
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
from lakehouse.plan.expectation import Expectation
from lakehouse.plan.expression.schema import PSEUDO_COLUMNS
from lakehouse.plan.origin import ChangesOf, Merge, Source, TableJoin
from lakehouse.plan.rows import ForeignKeyJoin, RowsJoin, RowsOf
from lakehouse.plan.step import Judge, Map, Step
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin
from lakehouse.plan.table import Table
from lakehouse.spark.jvm.in_memory import hold_frame
from lakehouse.spark.stream.alert import find_crossings
from lakehouse.spark.stream.broadcast import join_broadcast
from lakehouse.spark.stream.foreign_key_join import rows_as_records
from lakehouse.spark.stream.step import OWN_COLUMNS, StreamRows, apply_step, merged_position
from lakehouse.spark.stream.stream_join import EarlierRecords, join_streams
from lakehouse.spark.stream.table_join import UpstreamTables, changes_as_records, join_with_table


class RowCounter(Protocol):
    """Counts records on their way through a stream: each method takes rows, and returns them."""

    def __call__(self, source: Source | Table, rows: DataFrame) -> DataFrame:
        """Take the decoded records of a source, the bad ones too; for an upstream table, its changes."""

    def hold_join_records(self, join: StreamJoin, rows: DataFrame) -> DataFrame:
        """Keep the records of a join in memory: they are read several times, and must be counted once.

        rows: with `_too_late`, `_place` and the key, `_key_<n>`.
        """

    def count_map_failures(self, place: Hashable, function: str, rows: DataFrame, error: Column) -> DataFrame:
        """Take the records after a `map`, with the error of each on which its function failed.

        place: the source and the steps before the `map`, which identify it. function: its name in messages.
        """

    def count_unmet(self, place: Hashable, name: str, expectation: Expectation, rows: DataFrame) -> DataFrame:
        """Take the records that an expectation judges without keeping any out.

        place: of a topic's expectation the source's name, else as for a `map`. name: the whole one, "orders.known".
        """


def stream_frame(
    stream: Stream,
    read_records: Callable[[Source], DataFrame],
    row_counter: RowCounter | None = None,
    upstream_tables: UpstreamTables | None = None,
    earlier_records: EarlierRecords | None = None,
    find_eras: Callable[[StreamJoin], Sequence[int]] = lambda join: (),
    forced_places: DataFrame | None = None,
    with_truncates: Callable[[Source, DataFrame], DataFrame] = lambda source, rows: rows,
) -> DataFrame:
    """Return the stream's records, without the bad ones.

    read_records: returns the records of a source, as `decode_records` does. upstream_tables: given for a stream that
    reads tables. earlier_records: those before the batch, for a stream with joins of streams; None if there are none.
    find_eras: returns the ticks at which the eras of a join's topics begin, see `semantics.operators.eras`.
    forced_places: see `join_streams`. with_truncates: called for a source with truncates, see `apply_truncates`.
    """
    frame_of_part = partial(
        stream_frame,
        read_records=read_records,
        row_counter=row_counter,
        upstream_tables=upstream_tables,
        earlier_records=earlier_records,
        find_eras=find_eras,
        forced_places=forced_places,
        with_truncates=with_truncates,
    )
    match stream.source:
        case Source():
            rows = read_records(stream.source)
            rows = row_counter(stream.source, rows) if row_counter else rows
            rows = rows.where(~F.col("_bad")).drop("_bad")
            if row_counter:
                rows = _count_warnings(stream.source, rows, row_counter)
            rows = with_truncates(stream.source, rows) if stream.source.applies_truncates else rows
        case Merge():
            rows = _merge_frames(stream.source, [frame_of_part(part) for part in stream.source.streams])
        case ChangesOf(table):
            assert upstream_tables is not None
            rows = _count_changes(table, changes_as_records(table, upstream_tables.changes(table)), row_counter)
        case Crossings(table=table):
            assert upstream_tables is not None
            rows = _count_changes(table, find_crossings(stream.source, upstream_tables), row_counter)
        case TableJoin(part):
            assert upstream_tables is not None
            join_frames = join_broadcast if stream.source.broadcast else join_with_table
            rows = join_frames(stream.source, frame_of_part(part), upstream_tables)
        case StreamJoin(left, right):
            side_frames = [frame_of_part(part) for part in (left, right)]
            hold_rows = hold_frame if row_counter is None else partial(row_counter.hold_join_records, stream.source)
            rows = join_streams(
                stream.source, side_frames, earlier_records, hold_rows, find_eras(stream.source), forced_places
            )
        case RowsOf() | RowsJoin() | ForeignKeyJoin():
            assert upstream_tables is not None
            rows = _count_changes(stream.source.tables[0], rows_as_records(stream.source, upstream_tables), row_counter)
    earlier_steps: list[Step] = []
    source_text = "\n".join(stream.source.lines())

    def count_failures(step: Map, rows: DataFrame, error: Column) -> DataFrame:
        return (
            row_counter.count_map_failures((source_text, tuple(earlier_steps)), f"map {step.name}", rows, error)
            if row_counter
            else rows
        )

    def count_unmet(step: Judge, rows: DataFrame) -> DataFrame:
        place = (source_text, tuple(earlier_steps))
        return row_counter.count_unmet(place, step.name, step.expectation, rows) if row_counter else rows

    stream_rows = StreamRows(rows, stream.source.key_names, count_failures, count_unmet)
    for next_step in stream.steps:
        earlier_steps.append(next_step)
        stream_rows = apply_step(next_step, stream_rows)
    return stream_rows.frame


def _count_warnings(source: Source, rows: DataFrame, counter: RowCounter) -> DataFrame:
    """Count a topic's records that do not meet an expectation which only warns."""
    for expectation in source.warning_expectations:
        rows = counter.count_unmet(source.name, source.counted_name(expectation), expectation, rows)
    return rows


def _count_changes(table: Table, rows: DataFrame, counter: RowCounter | None) -> DataFrame:
    """Count the changes of a table, which are never bad."""
    return counter(table, rows.withColumn("_bad", F.lit(False))).drop("_bad") if counter else rows


def _merge_frames(merge: Merge, frames: list[DataFrame]) -> DataFrame:
    column_names = [column.name for column in merge.streams[0].columns]
    part_frames = []
    for number, frame in enumerate(frames):
        part = frame.select(*column_names, *OWN_COLUMNS, *PSEUDO_COLUMNS)
        part_frames.append(part.withColumn("_position", merged_position(number)))
    return reduce(DataFrame.unionByName, part_frames)
