"""The input of a table: the one way from bronze to the records that reach it.

    rows      bronze's rows of the stream's topics, without those that a restored table holds already
    frame     these through the schemas and the steps of the stream
    records   those of the stream that reach a table, with key, inputs and time: `lakehouse.spark.operators.arrivals`

The live job, backfills, reads of the past, the changelog and the audit read here, each between two ticks.

A restored table takes in what its changelog does not cover. A covered record still meets later ones in a join of
streams. It lies in tick 0 there, before all others, whichever tick of this lake's bronze it is in: the row of a pair
stands at the later record, and what comes with a covered one is in the changelog already. The first lake's ticks are
not known: among each other covered records come by their order times, as in one tick.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import StorageError
from lakehouse.lake.moment.cut import Cut
from lakehouse.plan.lineage.clocks import placing, shared_clocks
from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.plan.stream_join import StreamJoin, looked_up_by_time, meetings
from lakehouse.plan.table import Table
from lakehouse.semantics.epoch import NO_TICK
from lakehouse.semantics.operators.eras import begins as eras_begin
from lakehouse.spark.bronze import bronze
from lakehouse.spark.functions import literal_map
from lakehouse.spark.open_lake import OpenLake, OpenTable
from lakehouse.spark.operators.aggregates import Form
from lakehouse.spark.operators.arrivals import arrivals
from lakehouse.spark.operators.clock import ClockState
from lakehouse.spark.stream.decoded import decoded
from lakehouse.spark.stream.joined import Tables
from lakehouse.spark.stream.step import era_of
from lakehouse.spark.stream.stream_join import BEGINNING, Earlier, Stand
from lakehouse.spark.stream.streams import RowCounter, stream_frame
from lakehouse.spark.table.stands import Reached, Stands
from lakehouse.spark.table.topic_ids import topic_ids, with_clocks


class Shared(Protocol):
    """What several inputs of a batch read, each made once: all of it between two ticks."""

    def records(self, source: Source, after: int, to: int) -> DataFrame | None:
        """Return a source's records as `decoded` does; None if they are not shared."""

    def changes(
        self, table: Table, after: int, to: int, make: Callable[[], DataFrame], *, rebuilt: bool
    ) -> DataFrame | None:
        """Return a table's changes as its readers read them; None if they are not shared. rebuilt: see `per_event`."""

    def hold(self, frame: DataFrame) -> DataFrame:
        """Return a frame that is read several times, held in memory until the batch ends."""


@dataclass(frozen=True, slots=True)
class Input:
    """A stream, as bronze has it. Ticks are intervals (after, to].

    skip: the offsets that are left out, see `skipped`. among: selects bronze's rows that count: those before a moment,
    or with some of them replaced. cut: the same for the tables that the stream reads; None if all records count.
    rebuilt: read these tables as their present logic makes them, even for the time before it was swapped in; began: do
    so up to this tick, see `OpenTable.began`. shared: see `Shared`. forced: see `joined_streams`.
    """

    lake: OpenLake
    stream: Stream
    skip: str | None = None
    among: Callable[[DataFrame], DataFrame] = lambda rows: rows
    cut: Cut | None = None
    rebuilt: bool = False
    began: int = NO_TICK
    shared: Shared | None = None
    forced: DataFrame | None = None

    def rows(self, after: int, to: int) -> DataFrame:
        """Return bronze's rows between two ticks; tick 0 has those that are left out of all others."""
        bronze_rows = bronze.of_stream(self.lake, self.stream)
        rows = not_skipped(bronze.between(bronze_rows, max(after, NO_TICK), to), self.skip)
        if self.skip and after < NO_TICK:
            covered = bronze_rows.where(skipped(self.skip)).withColumn("tick", F.lit(NO_TICK).cast("bigint"))
            rows = covered.unionByName(rows)
        return self.among(rows)

    def frame(self, after: int, to: int, count: RowCounter | None = None) -> DataFrame:
        """Return the stream's records between two ticks. count: see `stream_frame`."""
        tables = self._tables(after, to) if self.stream.tables else None
        rows = cache(partial(self.rows, after, to))

        def records(source: Source) -> DataFrame:
            held = self.shared.records(source, after, to) if self.shared is not None and self.skip is None else None
            return decoded(source, rows().where(F.col("topic") == source.topic)) if held is None else held

        first = NO_TICK if self.skip is None else BEGINNING.tick
        earlier = Before(self, after) if after > first and meetings(self.stream) else None
        return stream_frame(self.stream, records, count, tables, earlier, partial(self._eras, to), self.forced)

    def judged(self, after: int, to: int, count: RowCounter | None = None) -> DataFrame:
        """Return the records as `frame` does, with `_part` where that does not follow from the record's own place."""
        rows = self.frame(after, to, count)
        if not (self.stream.tables or shared_clocks(self.stream)):
            return rows
        return with_clocks(self.lake, self.stream, rows, to)

    def _eras(self, to: int, join: StreamJoin) -> tuple[int, ...]:
        """The ticks at which the eras of a join's topics begin."""
        ids = topic_ids(self.lake, self.stream, to)
        return eras_begin(ids, frozenset().union(*map(placing, join.parts)))

    def _tables(self, after: int, to: int) -> Tables:
        """How the stream's upstream tables are read. Their changes are derived from their own input.

        So a module above this one is needed here: the recursion ends with the graph, not with the order of the modules.
        """
        upstream = import_module("lakehouse.spark.changelog.upstream")
        after = max(after, NO_TICK)
        rebuilt = self.rebuilt or after < self.began
        loads = self.stream.undoes and self.skip is None
        tables: Tables = upstream.Upstream(self.lake, after, to, self.cut, rebuilt, self.shared, loads, self.skip)
        return tables

    def records(
        self, table: Table, forms: list[Form], clock: ClockState | None, after: int, to: int, *, units: bool = False
    ) -> DataFrame:
        """Return the records that reach a table between two ticks; the rest: see `arrivals`."""
        return arrivals(table, forms, self.judged(after, to), clock, units=units)


@dataclass(frozen=True, slots=True)
class Before(Earlier):
    """The records that joins of streams had seen before a batch, read from bronze: see `Earlier`."""

    input: Input
    after: int

    def begun(self, join: StreamJoin) -> Stand:
        """See `Earlier`."""
        if self.input.cut is not None or self.input.rebuilt or self.after <= NO_TICK:
            return BEGINNING  # the stands are those of all records, as the live tables read them
        return self.input.lake.fact(Stands).begin(join, self.after, self._measured, self.input.skip)

    def records(self, stream: Stream, since: int) -> DataFrame:
        """See `Earlier`."""
        return self._frame(stream, since, self.after)

    def _frame(self, stream: Stream, after: int, to: int) -> DataFrame:
        return replace(self.input, stream=stream, shared=None).frame(after, to)

    def _measured(self, join: StreamJoin, after: int, to: int, width: int) -> list[Reached]:
        """See `Measure`."""
        end = F.least(F.lit(after) + F.ceil((F.col("_position.tick") - after) / width) * width, F.lit(to)).alias("tick")
        begun = self.input._eras(to, join)
        part_name = F.concat_ws("/", era_of(begun, F.col("_position.tick")).cast("string"), "_position.partition")
        parts = [self._frame(part, after, to).select(end, part_name.alias("part"), "rowtime") for part in join.parts]
        rows = parts[0].unionByName(parts[1]).groupBy("tick", "part").agg(F.max("rowtime").alias("time"))
        return [Reached(row["tick"], row["part"], row["time"]) for row in rows.collect()]


def begins(reads: Input, to: int) -> int:
    """Return the last tick up to which no record can meet one that comes after tick `to`, in any join of streams."""
    source = reads.stream.source
    if isinstance(source, StreamJoin):
        to = Before(reads, to).begun(source).tick
    return min((begins(replace(reads, stream=part), to) for part in source.parts), default=to)


def input_of(opened: OpenTable) -> Input:
    """Return a table's input: for a restored one without the records that its changelog held."""
    return Input(opened.lake, opened.table.stream, opened.skip, began=opened.began)


def waits(opened: OpenTable, to: int) -> bool:
    """Say whether bronze lacks records at a tick that a restored table covers, and that still count for later ones.

    Nothing is taken in before: covered records come before all others, whichever topic is read first. Raises
    StorageError if a table that it looks up as of event times was restored.
    """
    stream, skip = opened.table.stream, opened.skip
    by_time = looked_up_by_time(stream)
    if skip is None or not (by_time or meetings(stream)):
        return False
    if short := [table.name for table in by_time if opened.lake.live.open(table).skip is not None]:
        raise StorageError(
            f"table {opened.name!r} looks up what {short[0]} was at earlier times, and {short[0]} was restored in this "
            f"lake: no changelog has all of that. Restore {opened.name} in a lake that makes {short[0]} of its topic."
        )
    return not bronze.has_all(opened.lake, stream.topics, json.loads(skip), to)


def not_skipped(rows: DataFrame, skip: str | None) -> DataFrame:
    """Return bronze's rows without those that a restored table holds already; skip: see `skipped`."""
    return rows.where(~skipped(skip)) if skip else rows


def skipped(skip: str, topic_id: str = "topic_id", partition: str = "partition", offset: str = "offset") -> Column:
    """The rows whose offsets a restored table holds already. skip: the table's property. The rest: their columns."""
    first: Mapping[str, Mapping[str, int]] = json.loads(skip)
    flat = {f"{topic}/{number}": start for topic, of in first.items() for number, start in of.items()}
    start = F.element_at(literal_map(flat, "bigint"), F.concat_ws("/", topic_id, partition))
    return start.isNotNull() & (F.col(offset) < start)
