"""Sources that several tables of an application read in the same batch: each is decoded once, and held meanwhile.

Decoding takes most of a table's time. A table that is alone with its source, or with its range of ticks (it lags
behind, or an intervention divides its batch), decodes for itself: nothing is held for one reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from lakehouse.plan.origin import Source
from lakehouse.plan.stream import Stream
from lakehouse.plan.table import Table
from lakehouse.spark.bronze import bronze
from lakehouse.spark.in_memory import InMemory
from lakehouse.spark.open_lake import OpenLake
from lakehouse.spark.stream.decoded import decoded


class BatchReader(Protocol):
    """The writer of a table: where its next batch begins, and whether that is one range of ticks up to tick `to`."""

    table: Table
    applied: int

    def in_one_go(self, to: int) -> bool:
        """Say whether the table takes in all ticks up to `to` at once, and all of their records."""


class Sharing:
    """The decoded records of one batch, up to tick `to`. A context manager: leaving frees the memory.

    Held are those that at least two readers decode, in memory or, what does not fit there, on disk.
    """

    def __init__(self, lake: OpenLake, readers: Sequence[BatchReader], to: int) -> None:
        self._lake, self._to = lake, to
        wanted = Counter(
            (source, reader.applied) for reader in readers if reader.in_one_go(to)
            for source in decodings(reader.table.stream)
        )  # fmt: skip
        self._locks = {part: Lock() for part, number in wanted.items() if number > 1}
        self._held: dict[tuple[Source, int], InMemory] = {}

    def __enter__(self) -> Sharing:
        return self

    def __exit__(self, *_: object) -> None:
        for held in self._held.values():
            held.release()

    def records(self, spark: SparkSession, source: Source, after: int, to: int) -> DataFrame | None:
        """Return a source's records of the ticks in (after, to], as `decoded` does, in a session; None if not shared.

        The first one who asks decodes them, on all cores; others wait for it.
        """
        part = source, after
        if part not in self._locks or to != self._to:
            return None
        with self._locks[part]:
            if part not in self._held:
                self._held[part] = InMemory(self._decoded(source, after))
                self._held[part].frame(spark).count()
        return self._held[part].frame(spark)

    def _decoded(self, source: Source, after: int) -> DataFrame:
        rows = bronze.records(self._lake, [source.topic], [source.topic] if source.own_table else [])
        return decoded(source, bronze.between(rows, after, self._to))


def decodings(stream: Stream) -> Iterator[Source]:
    """Yield the sources that a batch of a stream decodes, also those of the tables whose changes it derives."""
    yield from stream.decodes
    for table in stream.reads:
        yield from decodings(table.stream)
