"""The input of a table: the one way from bronze to the records that reach it.

    rows      bronze's rows of the stream's topics, without those that a restored table holds already
    frame     the rows decoded by the schemas, after the steps of the stream
    records   the stream's records that reach a table, with key, inputs and time: `lakehouse.spark.fold.table_fold`

The live job, backfills, reads of the past, the changelog and the audit all read here, each between two ticks.

A restored table takes in the records that its changelog does not cover. A covered record still meets later ones in a
join of streams. There it lies in tick 0, before all others, whatever its tick in this lake's bronze: a pair's row
stands at the later record, and the changelog already has the rows at covered ones. The first lake's ticks are
unknown: covered records are ordered among themselves by their order times, as in one tick.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import StorageError
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.lineage.clocks import placing_topics, shared_clocks
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin, meeting_streams, tables_looked_up_by_time
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.semantics.operators.eras import era_starts as eras_begin
from lakehouse.semantics.operators.truncate import several_partitions_error
from lakehouse.semantics.time.clock import ClockState
from lakehouse.spark.batch_cache import NO_BATCH
from lakehouse.spark.bronze import bronze
from lakehouse.spark.bronze.schema_ids import check_schemas
from lakehouse.spark.expression.arrow_functions import literal_map
from lakehouse.spark.fold.table_fold import TableFold
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.stream.decoded import decode_records
from lakehouse.spark.stream.step import era_of
from lakehouse.spark.stream.stream_join import BEGINNING, EarlierRecords, StreamTimes
from lakehouse.spark.stream.streams import RowCounter, stream_frame
from lakehouse.spark.stream.table_join import UpstreamTables
from lakehouse.spark.stream.truncates import apply_truncates, find_truncates
from lakehouse.spark.table.join_starts import JoinStarts, StretchTime
from lakehouse.spark.table.topic_ids import topic_ids, with_clocks


@dataclass(frozen=True, slots=True)
class TableInput:
    """A stream, as bronze has it. Ticks are intervals (after_tick, to_tick].

    lake: with the cache of a batch only if all rows count. skip: the offsets that are left out, see `is_skipped`.
    select_rows: called with bronze's rows, returns those that count, such as those before a moment, or with fixed rows
    in place of others. cut: the same for the tables that the stream reads; None if all records count. rebuilt: read
    these tables as their present logic makes them, even for the time before it was swapped in. begin_tick: do so up to
    this tick, see `OpenTable.read_begin_tick`. forced_places: see `join_streams`.
    """

    lake: OpenLake
    stream: Stream
    skip: str | None = None
    select_rows: Callable[[DataFrame], DataFrame] = lambda rows: rows
    cut: Cut | None = None
    rebuilt: bool = False
    begin_tick: int = NO_TICK
    forced_places: DataFrame | None = None

    def rows(self, after_tick: int, to_tick: int) -> DataFrame:
        """Return bronze's rows between two ticks; tick 0 has the skipped rows of all others."""
        new_rows = bronze.read_stream_ticks(self.lake, self.stream, max(after_tick, NO_TICK), to_tick)
        selected_rows = drop_skipped(new_rows, self.skip)
        if self.skip and after_tick < NO_TICK:
            bronze_rows = bronze.read_stream_records(self.lake, self.stream)
            covered_rows = bronze_rows.where(is_skipped(self.skip)).withColumn("tick", F.lit(NO_TICK).cast("bigint"))
            selected_rows = covered_rows.unionByName(selected_rows)
        return self.select_rows(selected_rows)

    def frame(self, after_tick: int, to_tick: int, row_counter: RowCounter | None = None) -> DataFrame:
        """Return the stream's records between two ticks. row_counter: see `stream_frame`."""
        upstream_tables = self._tables(after_tick, to_tick) if self.stream.tables else None
        read_rows = cache(partial(self.rows, after_tick, to_tick))

        def records(source: Source) -> DataFrame:
            check_schemas(self.lake, source, to_tick)

            def make_records() -> DataFrame:
                return decode_records(source, _rows_of(source, read_rows()), self.lake.schemas.find)

            if self.skip is not None:  # no other table leaves out the same offsets
                return make_records()
            return self.lake.cache.make_once(self.lake.spark, source, after_tick, to_tick, make_records)

        first_tick = NO_TICK if self.skip is None else BEGINNING.tick
        earlier_records = (
            EarlierInBronze(self, after_tick) if after_tick > first_tick and meeting_streams(self.stream) else None
        )
        return stream_frame(
            self.stream,
            records,
            row_counter,
            upstream_tables,
            earlier_records,
            partial(self._eras, to_tick),
            self.forced_places,
            partial(self._with_truncates, after_tick, to_tick),
        )

    def _with_truncates(self, after_tick: int, to_tick: int, source: Source, rows: DataFrame) -> DataFrame:
        """Return a source's records between two ticks with deletes in place of truncates.

        The keys that a truncate deletes are those of the records since the one before, also in earlier ticks.
        """
        for offsets in [*bronze.next_offsets(self.lake, source.topic, to_tick).values()][-1:]:
            if len(offsets) > 1:
                raise several_partitions_error(source.topic)
        find_schemas = self.lake.schemas.find
        truncates = find_truncates(source, _rows_of(source, self.rows(after_tick, to_tick)), find_schemas)
        if not truncates:
            return rows
        earlier = find_truncates(source, _rows_of(source, self.rows(NO_TICK, after_tick)), find_schemas)
        last_before = earlier[-1] if earlier else None
        since_tick = NO_TICK if last_before is None else last_before["tick"] - 1
        records = decode_records(source, _rows_of(source, self.rows(since_tick, to_tick)), find_schemas)
        return apply_truncates(source, rows, truncates, last_before, records)

    def records_with_clocks(self, after_tick: int, to_tick: int, row_counter: RowCounter | None = None) -> DataFrame:
        """Return the records as `frame` does, with `_part` if the record's own place does not give it."""
        stream_records = self.frame(after_tick, to_tick, row_counter)
        if not (self.stream.tables or shared_clocks(self.stream)):
            return stream_records
        return with_clocks(self.lake, self.stream, stream_records, to_tick)

    def _eras(self, to_tick: int, join: StreamJoin) -> tuple[int, ...]:
        """Return the ticks at which the eras of a join's topics begin."""
        ids_by_topic = topic_ids(self.lake, self.stream, to_tick)
        return eras_begin(ids_by_topic, frozenset().union(*map(placing_topics, join.parts)))

    def _tables(self, after_tick: int, to_tick: int) -> UpstreamTables:
        """Return the reader of the stream's upstream tables, which derives their changes from their own inputs.

        The lake hands it in, since it reads inputs itself: the graph of tables ends that recursion.
        """
        if self.lake.read_upstream is None:
            raise TypeError("this lake can't read upstream tables; expected one of upstream.open_lake().")
        after_tick = max(after_tick, NO_TICK)
        is_rebuilt = self.rebuilt or after_tick < self.begin_tick
        loads_restored = self.stream.undoes and self.skip is None
        upstream_tables: UpstreamTables = self.lake.read_upstream(
            self.lake, after_tick, to_tick, self.cut, is_rebuilt, loads_restored, self.skip
        )
        return upstream_tables

    def records(
        self,
        table_fold: TableFold,
        clock: ClockState | None,
        after_tick: int,
        to_tick: int,
        *,
        units: bool = False,
    ) -> DataFrame:
        """Return the records that reach a table between two ticks. The rest: see `TableFold.arriving_records`."""
        return table_fold.arriving_records(self.records_with_clocks(after_tick, to_tick), clock, units=units)


def _rows_of(source: Source, bronze_rows: DataFrame) -> DataFrame:
    """Return the rows of a source's topic."""
    return bronze_rows.where(F.col("topic") == source.topic)


@dataclass(frozen=True, slots=True)
class EarlierInBronze(EarlierRecords):
    """The records that joins of streams had seen before a batch, read from bronze: see `EarlierRecords`."""

    input: TableInput
    last_tick: int

    def find_start_times(self, join: StreamJoin) -> StreamTimes:
        """See `EarlierRecords`."""
        if self.input.cut is not None or self.input.rebuilt or self.last_tick <= NO_TICK:
            return BEGINNING  # `JoinStarts` has the times of all records, as live tables read them
        return self.input.lake.cached_fact(JoinStarts).find_start(
            join, self.last_tick, self._measure_times, self.input.skip
        )

    def records(self, stream: Stream, since: int) -> DataFrame:
        """See `EarlierRecords`."""
        return self._frame(stream, since, self.last_tick)

    def _frame(self, stream: Stream, after_tick: int, to_tick: int) -> DataFrame:
        lake = replace(self.input.lake, cache=NO_BATCH)
        return replace(self.input, lake=lake, stream=stream).frame(after_tick, to_tick)

    def _measure_times(self, join: StreamJoin, after_tick: int, to_tick: int, width: int) -> list[StretchTime]:
        """See `MeasureTimes`."""
        stretch_end = F.least(
            F.lit(after_tick) + F.ceil((F.col("_position.tick") - after_tick) / width) * width, F.lit(to_tick)
        ).alias("tick")
        era_ticks = self.input._eras(to_tick, join)
        part_name = F.concat_ws("/", era_of(era_ticks, F.col("_position.tick")).cast("string"), "_position.partition")
        part_frames = [
            self._frame(part, after_tick, to_tick).select(stretch_end, part_name.alias("part"), "rowtime")
            for part in join.parts
        ]
        rows = part_frames[0].unionByName(part_frames[1]).groupBy("tick", "part").agg(F.max("rowtime").alias("time"))
        return [StretchTime(row["tick"], row["part"], row["time"]) for row in rows.collect()]


def last_unneeded_tick(table_input: TableInput, to_tick: int) -> int:
    """Return the last tick up to which no record can meet one after `to_tick`, in any join of streams."""
    source = table_input.stream.source
    if isinstance(source, StreamJoin):
        to_tick = EarlierInBronze(table_input, to_tick).find_start_times(source).tick
    return min(
        (last_unneeded_tick(replace(table_input, stream=part), to_tick) for part in source.parts), default=to_tick
    )


def input_of(open_table: OpenTable) -> TableInput:
    """Return a table's input, outside any batch: for a restored table without the records that its changelog covers."""
    return TableInput(
        replace(open_table.lake, cache=NO_BATCH),
        open_table.table.stream,
        open_table.read_skipped_offsets(),
        begin_tick=open_table.read_begin_tick(),
    )


def must_wait(open_table: OpenTable, to_tick: int) -> bool:
    """Say whether bronze still lacks, at a tick, records that a restored table covers and that count for later ones.

    The table takes in nothing before: covered records come before all others, whichever topic is read first. Raises
    StorageError if a table that it looks up as of event times was restored.
    """
    stream, skip = open_table.table.stream, open_table.read_skipped_offsets()
    by_time = tables_looked_up_by_time(stream)
    if skip is None or not (by_time or meeting_streams(stream)):
        return False
    if restored_names := [
        table.name for table in by_time if open_table.lake.live.open(table).read_skipped_offsets() is not None
    ]:
        raise StorageError(
            f"table {open_table.name!r} looks up what {restored_names[0]} was at earlier times, and "
            f"{restored_names[0]} was restored in this lake: no changelog has all of that. Restore {open_table.name} "
            f"in a lake that makes {restored_names[0]} of its topic."
        )
    return not bronze.has_all_records(open_table.lake, stream.topics, json.loads(skip), to_tick)


def drop_skipped(bronze_rows: DataFrame, skip: str | None) -> DataFrame:
    """Return bronze's rows without those that a restored table holds already. skip: see `is_skipped`."""
    return bronze_rows.where(~is_skipped(skip)) if skip else bronze_rows


def is_skipped(skip: str) -> Column:
    """Return the condition on rows whose offsets a restored table holds already. skip: the table's property."""
    first_offsets: Mapping[str, Mapping[str, int]] = json.loads(skip)
    offsets_by_partition = {
        f"{topic}/{partition_number}": first_offset
        for topic, partition_offsets in first_offsets.items()
        for partition_number, first_offset in partition_offsets.items()
    }
    first_offset = F.element_at(literal_map(offsets_by_partition, "bigint"), F.concat_ws("/", "topic_id", "partition"))
    return first_offset.isNotNull() & (F.col("offset") < first_offset)
