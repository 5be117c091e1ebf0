"""What several tables of an application read in the same batch: each is made once, and held meanwhile.

    records   of a source, decoded: decoding takes most of a table's time
    changes   of a table that others read: else each table of a chain derives those of all tables above it again

A table with final results reads its source twice: for what it keeps, and for the results that are out. Else a table
that is alone with its source, or with its range of ticks (it lags behind, or an intervention divides its
batch), makes them for itself: nothing is held for one reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from lakehouse.plan.origin import Source
from lakehouse.plan.table import Table
from lakehouse.spark.bronze import bronze
from lakehouse.spark.in_memory import InMemory, hold_frame
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.operators.shown import is_final
from lakehouse.spark.stream.decoded import decode_records


class BatchReader(Protocol):
    """The writer of a table: where its next batch begins, and whether that is one range of ticks up to tick `to`."""

    table: Table
    applied: int

    def in_one_go(self, to_tick: int) -> bool:
        """Say whether the table takes in all ticks up to `to` at once, and all of their records."""


Part = tuple[Source | str, int]  # a source or a table's name, and the tick after which its readers begin


class Sharing:
    """What is shared in one batch, up to tick `to`. A context manager: leaving frees the memory.

    Held is what at least two readers need, in memory or, what does not fit there, on disk. holding: takes what else is
    to be released then.
    """

    def __init__(self, lake: OpenLake, readers: Sequence[BatchReader], to_tick: int) -> None:
        self._lake, self._to = lake, to_tick
        reading = [reader for reader in readers if reader.in_one_go(to_tick)]
        reader_counts = Counter(
            _part_of(origin, reader.applied) for reader in reading for origin in _needed_origins(reader.table)
        )
        final = [reader for reader in reading if is_final(reader.table)]
        reader_counts.update(
            _part_of(source, reader.applied) for reader in final for source in reader.table.stream.decodes
        )
        self._locks = {part: Lock() for part, reader_count in reader_counts.items() if reader_count > 1}
        self._held: dict[tuple[Part, bool], InMemory] = {}
        self.holding: list[InMemory] = []

    def __enter__(self) -> Sharing:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in [*self._held.values(), *self.holding]:
            memory.release()

    def through(self, spark: SparkSession) -> Through:
        """Return what is shared as a session reads it."""
        return Through(self, spark)

    def held(
        self,
        spark: SparkSession,
        part: Part,
        to_tick: int,
        make_frame: Callable[[], DataFrame],
        *,
        rebuilt: bool = False,
    ) -> DataFrame | None:
        """Return what is shared of a source, or a table, up to tick `to`; None if it is not shared.

        The first one who asks makes it, on all cores; others wait for it.
        """
        if part not in self._locks or to_tick != self._to:
            return None
        with self._locks[part]:
            if (part, rebuilt) not in self._held:
                memory = self._held[part, rebuilt] = InMemory(make_frame())
                memory.read(spark)
        return self._held[part, rebuilt].frame(spark)

    def decoded(self, source: Source, after_tick: int) -> DataFrame:
        """Decode a source's records since a tick."""
        bronze_rows = bronze.read_topic_records(self._lake, [source.topic], [source.topic] if source.own_table else [])
        return decode_records(source, bronze.between_ticks(bronze_rows, after_tick, self._to))


@dataclass(frozen=True, slots=True)
class Through:
    """What is shared, as one session reads it. See `lakehouse.spark.table.input.Shared`."""

    sharing: Sharing
    spark: SparkSession

    def records(self, source: Source, after_tick: int, to_tick: int) -> DataFrame | None:
        """Return a source's records as `decoded` does; None if they are not shared."""
        make_decoded = partial(self.sharing.decoded, source, after_tick)
        return self.sharing.held(self.spark, _part_of(source, after_tick), to_tick, make_decoded)

    def changes(
        self, table: Table, after: int, to: int, make_changes: Callable[[], DataFrame], *, rebuilt: bool
    ) -> DataFrame | None:
        """Return a table's changes as its readers read them; None if they are not shared. rebuilt: see `per_event`."""
        return self.sharing.held(self.spark, _part_of(table, after), to, make_changes, rebuilt=rebuilt)

    def hold(self, frame: DataFrame) -> DataFrame:
        """Return a frame that is read several times, held in memory until the batch ends."""
        return hold_frame(frame, self.sharing.holding)


def _needed_origins(table: Table) -> Iterator[Source | Table]:
    """Yield what a batch of a table decodes, and the tables whose changes it needs: those that it reads, and theirs."""
    yield from table.stream.decodes
    for upstream in table.stream.reads:
        yield upstream
        yield from _needed_origins(upstream)


def _part_of(origin: Source | Table, after_tick: int) -> Part:
    return (origin if isinstance(origin, Source) else origin.name), after_tick
