"""Caches what several tables of an application read in one batch.

    records   of a source, decoded: decoding takes most of a table's time
    changes   of a table that others read: else each table of a chain would derive the changes of all tables above it

A table with final results reads its source twice: for the rows that it keeps, and for the results that are out. Any
other table that is the only reader of its source, or of its range of ticks (it lags behind, or an intervention divides
its batch), makes the frames for itself: nothing is cached for one reader.
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
from lakehouse.spark.fold.visibility import is_final
from lakehouse.spark.jvm.in_memory import InMemory, hold_frame
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.decoded import decode_records


class BatchReader(Protocol):
    """The writer of a table: the tick after which its next batch begins, and whether that is one range of ticks."""

    table: Table
    applied: int

    def in_one_go(self, to_tick: int) -> bool:
        """Say whether the table takes in all ticks up to `to_tick` at once, and all of their records."""


Part = tuple[Source | str, int]  # a source or a table's name, and the tick after which its readers begin


class Sharing:
    """The frames that are shared in one batch, up to `to_tick`. A context manager: leaving frees the memory.

    It caches what at least two readers need, in memory or, where that does not suffice, on disk. held_memory: further
    frames to release at the end.
    """

    def __init__(self, lake: OpenLake, readers: Sequence[BatchReader], to_tick: int) -> None:
        self._lake, self._to_tick = lake, to_tick
        batch_readers = [reader for reader in readers if reader.in_one_go(to_tick)]
        reader_counts = Counter(
            _part_of(origin, reader.applied) for reader in batch_readers for origin in _needed_origins(reader.table)
        )
        final_readers = [reader for reader in batch_readers if is_final(reader.table)]
        reader_counts.update(
            _part_of(source, reader.applied) for reader in final_readers for source in reader.table.stream.decodes
        )
        self._locks = {part: Lock() for part, reader_count in reader_counts.items() if reader_count > 1}
        self._memories: dict[tuple[Part, bool], InMemory] = {}
        self.held_memory: list[InMemory] = []

    def __enter__(self) -> Sharing:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in [*self._memories.values(), *self.held_memory]:
            memory.release()

    def view(self, spark: SparkSession) -> SharedView:
        """Return the shared frames as a session reads them."""
        return SharedView(self, spark)

    def shared_frame(
        self,
        spark: SparkSession,
        part: Part,
        to_tick: int,
        make_frame: Callable[[], DataFrame],
        *,
        rebuilt: bool = False,
    ) -> DataFrame | None:
        """Return the shared frame of a source, or a table, up to `to_tick`; None if it is not shared.

        The first thread that asks calls `make_frame`, on all cores; others wait for it.
        """
        if part not in self._locks or to_tick != self._to_tick:
            return None
        with self._locks[part]:
            if (part, rebuilt) not in self._memories:
                memory = self._memories[part, rebuilt] = InMemory(make_frame())
                memory.read(spark)
        return self._memories[part, rebuilt].frame(spark)

    def decode_since(self, source: Source, after_tick: int) -> DataFrame:
        """Decode a source's records since a tick."""
        bronze_rows = bronze.read_topic_records(self._lake, [source.topic], [source.topic] if source.own_table else [])
        return decode_records(source, bronze.between_ticks(bronze_rows, after_tick, self._to_tick))


@dataclass(frozen=True, slots=True)
class SharedView:
    """The shared frames, as one session reads them. See `lakehouse.spark.table.input.Shared`."""

    sharing: Sharing
    spark: SparkSession

    def records(self, source: Source, after_tick: int, to_tick: int) -> DataFrame | None:
        """Return a source's records as `decode_since` does; None if they are not shared."""
        make_decoded = partial(self.sharing.decode_since, source, after_tick)
        return self.sharing.shared_frame(self.spark, _part_of(source, after_tick), to_tick, make_decoded)

    def changes(
        self, table: Table, after_tick: int, to_tick: int, make_changes: Callable[[], DataFrame], *, rebuilt: bool
    ) -> DataFrame | None:
        """Return a table's changes as its readers read them; None if they are not shared. See `Shared`."""
        return self.sharing.shared_frame(
            self.spark, _part_of(table, after_tick), to_tick, make_changes, rebuilt=rebuilt
        )

    def hold(self, frame: DataFrame) -> DataFrame:
        """Return a frame that is read several times, held in memory until the batch ends."""
        return hold_frame(frame, self.sharing.held_memory)


def _needed_origins(table: Table) -> Iterator[Source | Table]:
    """Yield the sources that a batch of a table decodes, and the tables whose changes it needs, directly or not."""
    yield from table.stream.decodes
    for upstream in table.stream.reads:
        yield upstream
        yield from _needed_origins(upstream)


def _part_of(origin: Source | Table, after_tick: int) -> Part:
    return (origin if isinstance(origin, Source) else origin.name), after_tick
