"""Caches what several tables of an application read in one batch.

    records   of a source, decoded: decoding takes most of a table's time
    changes   of a table that others read: else each table of a chain would derive the changes of all tables above it
    held      frames that one table reads several times, such as the sides of a join

`BatchCache` says who frees them, and when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from pyspark.sql import DataFrame, SparkSession

from lakehouse.plan.operator import Final
from lakehouse.plan.origin import Source
from lakehouse.plan.table import Table
from lakehouse.semantics.commit_number import NO_TICK
from lakehouse.spark.jvm.in_memory import InMemory, hold_frame, read_and_hold

Part = tuple[Source | str, int]  # a source or a table's name, and the tick after which its readers begin


class BatchCache:
    """The frames that the tables of an application read in one batch, up to `to_tick`. A context manager.

    readers: the tables that take in their whole batch at once, each with the tick after which its batch begins. The
    cache keeps what at least two of them read: the first that asks makes it, on all cores, and others wait for it. A
    table with final results reads its source twice: for the rows that it keeps, and for the results that are out. A
    table that is the only reader of its source, or of its range of ticks (it lags behind, an intervention divides its
    batch, it was restored), makes the frames for itself: nothing is cached for one reader.

    Who frees what, and when: Spark keeps the frames in memory or, where that does not suffice, on disk. Leaving the
    context frees all of them, also after an error; nobody may read them after that. A lake has a cache only while it
    reads a batch (`OpenLake.cache`). Elsewhere, and for reads of the past during a batch, it has `NO_BATCH`, which
    nobody enters and which caches nothing. Outside a batch nothing tells when to free a held frame: Spark's cleaner
    does, when nothing refers to it. A fold frees its own frames (`FoldedBatch.release`).
    """

    def __init__(self, readers: Iterable[tuple[Table, int]], to_tick: int) -> None:
        reader_counts = Counter(
            _part_of(origin, after_tick) for table, after_tick in readers for origin in _read_origins(table)
        )
        self._to_tick = to_tick
        self._locks = {part: Lock() for part, reader_count in reader_counts.items() if reader_count > 1}
        self._memories: dict[tuple[Part, bool], InMemory] = {}
        self._held_memory: list[InMemory] | None = None

    def __enter__(self) -> BatchCache:
        self._held_memory = []
        return self

    def __exit__(self, *_: object) -> None:
        for memory in [*self._memories.values(), *(self._held_memory or ())]:
            memory.release()

    def make_once(
        self,
        spark: SparkSession,
        origin: Source | Table,
        after_tick: int,
        to_tick: int,
        make_frame: Callable[[], DataFrame],
        *,
        rebuilt: bool = False,
    ) -> DataFrame:
        """Return a source's records, or a table's changes, in (after_tick, to_tick], as a session reads them.

        make_frame: makes them; called once for all readers of a cached part, else by each reader. rebuilt: see
        `lakehouse.spark.changelog.changefeed.per_event`; the two forms of a table's changes are cached apart.
        """
        part = _part_of(origin, after_tick)
        if part not in self._locks or to_tick != self._to_tick:
            return make_frame()
        with self._locks[part]:
            if (part, rebuilt) not in self._memories:
                memory = self._memories[part, rebuilt] = InMemory(make_frame())
                memory.read(spark)
        return self._memories[part, rebuilt].frame(spark)

    def hold(self, frame: DataFrame) -> DataFrame:
        """Return a frame that is read several times, held in memory.

        In a batch the changes of the tables above are cached already, so the frame's plan is short. Elsewhere the frame
        is read at once, without its plan: the text of a plan contains all that it is made of, and grows several times
        with each table of a chain.
        """
        return read_and_hold(frame) if self._held_memory is None else hold_frame(frame, self._held_memory)


NO_BATCH = BatchCache((), NO_TICK)


def _read_origins(table: Table) -> Iterator[Source | Table]:
    """Yield the sources and tables that a batch of a table reads, once for each time that it reads them."""
    yield from _needed_origins(table)
    if table.find(Final) is not None:
        yield from table.stream.decodes


def _needed_origins(table: Table) -> Iterator[Source | Table]:
    """Yield the sources that a table decodes, and the tables whose changes it needs, directly or not."""
    yield from table.stream.decodes
    for upstream in table.stream.reads:
        yield upstream
        yield from _needed_origins(upstream)


def _part_of(origin: Source | Table, after_tick: int) -> Part:
    return (origin if isinstance(origin, Source) else origin.name), after_tick
