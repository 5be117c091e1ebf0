"""The offsets that a stream's topics have in bronze up to a tick, by partition, and the holes between them.

A partition belongs to a topic id: a topic that was deleted and recreated has others. Its offsets go from 0 to the next
one that bronze expected when the tick was complete; a hole is a range of them that has no row in bronze.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from lakehouse.kafka.holes import OffsetRange
from lakehouse.plan.stream import Stream
from lakehouse.spark.bronze import bronze, gaps
from lakehouse.spark.functions import literal_map
from lakehouse.spark.open_lake import OpenLake


@dataclass(frozen=True, slots=True)
class Extent:
    """A partition's rows in bronze, and the ticks that they came in; first and last are None if it has no row."""

    topic: str
    topic_id: str
    partition: int
    records: int
    first: int | None
    last: int | None
    next: int
    first_tick: int = 0
    last_tick: int = 0

    @property
    def place(self) -> tuple[str, str, int]:
        return self.topic, self.topic_id, self.partition

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.topic_id}/{self.partition}"


def partitions(lake: OpenLake, stream: Stream, tick: int) -> list[Extent]:
    """Return the partitions that bronze has of a stream's topics, up to a complete tick."""
    rows = bronze.between(bronze.of_stream(lake, stream), 0, tick)
    groups = rows.groupBy("topic", "topic_id", "partition").agg(
        F.count(F.lit(1)), F.min("offset"), F.max("offset"), F.min("tick"), F.max("tick")
    )
    covers = bronze.last_covers(lake.spark, lake.layout.records, tick) or {"topics": {}}
    ends = {
        (topic, said["id"], int(number)): int(end)
        for topic, said in covers["topics"].items()
        if topic in stream.topics
        for number, end in said["next"].items()
    }
    found = []
    for topic, topic_id, number, records, first, last, first_tick, last_tick in map(tuple, groups.collect()):
        end = max(ends.pop((topic, topic_id, number), 0), last + 1)
        found.append(Extent(topic, topic_id, number, records, first, last, end, first_tick, last_tick))
    found += [Extent(*place, 0, None, None, end) for place, end in ends.items()]
    return sorted(found, key=lambda item: (item.topic, item.first_tick, item.topic_id, item.partition))


def numbered(known: list[Extent], name: Column) -> Column:
    """Return a partition's number in `known` from its name, "topic/topic id/partition"; null for another one."""
    return F.element_at(literal_map({item.name: number for number, item in enumerate(known)}, "int"), name)


def topic_id_at(known: list[Extent], topic: Column, tick: Column) -> Column:
    """Return the id that a topic had at a tick, from the rows in bronze; null if there are none."""
    ticks: dict[tuple[str, str], list[Extent]] = {}
    for item in known:
        if item.records:
            ticks.setdefault((item.topic, item.topic_id), []).append(item)
    found = [
        F.when(
            (topic == name)
            & tick.between(min(item.first_tick for item in items), max(item.last_tick for item in items)),
            F.lit(topic_id),
        )
        for (name, topic_id), items in ticks.items()
    ]
    return reduce(lambda one, other: F.coalesce(one, other), found, F.lit(None).cast("string"))


def holes(
    lake: OpenLake, stream: Stream, tick: int, known: Iterable[Extent], interior: bool
) -> Iterator[tuple[Extent, Iterator[OffsetRange]]]:
    """Yield the partitions with their holes, in order; read one partition's to their end before the next one.

    interior: whether any of them has holes between its rows; looking for them reads and sorts all offsets.
    """
    left = {item.place: item for item in known}
    if interior:
        columns = ("topic", "topic_id", "partition")
        rows = bronze.between(bronze.of_stream(lake, stream), 0, tick).select(*columns, "offset")
        after = F.lead("offset").over(Window.partitionBy(*columns).orderBy("offset"))
        between = rows.withColumn("_next", after).where("_next > offset + 1")
        for place, found in groupby(between.toLocalIterator(), key=lambda row: tuple(row[:3])):
            if (item := left.pop(place, None)) is not None:
                yield item, _around(item, ((row["offset"] + 1, row["_next"]) for row in found))
    for item in left.values():
        yield item, _around(item, ())


def _around(item: Extent, between: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """The holes of a partition: before its rows, between them, and after them."""
    first = item.next if item.first is None else item.first
    if first > 0:
        yield 0, first
    yield from between
    if item.last is not None and item.next > item.last + 1:
        yield item.last + 1, item.next


def without(found: Iterable[OffsetRange], noted: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Yield the parts of ranges (in order) that lie in none of the noted ranges."""
    ordered = sorted(noted)
    for begin, end in found:
        for low, high in ordered:
            if high <= begin or low >= end:
                continue
            if low > begin:
                yield begin, low
            begin = max(begin, high)
        if begin < end:
            yield begin, end


def noted(lake: OpenLake) -> Mapping[tuple[str, str, int], list[OffsetRange]]:
    """Return the ranges that bronze/gaps says were lost before they were ingested, by partition."""
    found: dict[tuple[str, str, int], list[OffsetRange]] = {}
    for gap in gaps.accepted(lake):
        if gap.to_offset is not None:
            found.setdefault((gap.topic, gap.topic_id, gap.partition), []).append((gap.from_offset, gap.to_offset))
    return found
