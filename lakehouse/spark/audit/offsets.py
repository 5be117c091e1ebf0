"""The offsets that a stream's topics have in bronze up to a tick, by partition, and the holes between them.

A partition belongs to a topic id: a topic that was deleted and recreated has other partitions. Its offsets go from 0 to
the next offset that bronze expected when the tick was complete; a hole is a range of offsets without a row in bronze.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from lakehouse.kafka.holes import OffsetRange
from lakehouse.lake.commit_log import TickCoverage
from lakehouse.plan.stream import Stream
from lakehouse.spark.bronze import bronze, gaps
from lakehouse.spark.expression.arrow_functions import literal_map
from lakehouse.spark.open_lake import OpenLake


@dataclass(frozen=True, slots=True)
class Extent:
    """A partition's rows in bronze, and the ticks in which they came; first and last are None if it has no row."""

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


def partition_extents(lake: OpenLake, stream: Stream, tick: int) -> list[Extent]:
    """Return the partitions that bronze has of a stream's topics, up to a complete tick."""
    rows = bronze.between_ticks(bronze.read_stream_records(lake, stream), 0, tick)
    partition_rows = rows.groupBy("topic", "topic_id", "partition").agg(
        F.count(F.lit(1)), F.min("offset"), F.max("offset"), F.min("tick"), F.max("tick")
    )
    coverage = bronze.last_coverage(lake.spark, lake.layout.records, tick) or TickCoverage()
    ends = {
        (topic, topic_state.id, partition): end
        for topic, topic_state in coverage.topics.items()
        if topic in stream.topics
        for partition, end in topic_state.next.items()
    }
    extents = []
    for topic, topic_id, partition, records, first, last, first_tick, last_tick in map(tuple, partition_rows.collect()):
        end = max(ends.pop((topic, topic_id, partition), 0), last + 1)
        extents.append(Extent(topic, topic_id, partition, records, first, last, end, first_tick, last_tick))
    extents += [Extent(*place, 0, None, None, end) for place, end in ends.items()]
    return sorted(extents, key=lambda extent: (extent.topic, extent.first_tick, extent.topic_id, extent.partition))


def partition_number(extents: list[Extent], name: Column) -> Column:
    """Return a partition's number in `extents` from its name, "topic/topic id/partition"; null for another name."""
    return F.element_at(literal_map({extent.name: number for number, extent in enumerate(extents)}, "int"), name)


def topic_id_at(extents: list[Extent], topic: Column, tick: Column) -> Column:
    """Return the id that a topic had at a tick, from the rows in bronze; null if there are none."""
    extents_by_topic: dict[tuple[str, str], list[Extent]] = {}
    for extent in extents:
        if extent.records:
            extents_by_topic.setdefault((extent.topic, extent.topic_id), []).append(extent)
    cases = [
        F.when(
            (topic == name)
            & tick.between(
                min(extent.first_tick for extent in topic_extents), max(extent.last_tick for extent in topic_extents)
            ),
            F.lit(topic_id),
        )
        for (name, topic_id), topic_extents in extents_by_topic.items()
    ]
    return reduce(lambda first, second: F.coalesce(first, second), cases, F.lit(None).cast("string"))


def find_holes(
    lake: OpenLake, stream: Stream, tick: int, extents: Iterable[Extent], interior: bool
) -> Iterator[tuple[Extent, Iterator[OffsetRange]]]:
    """Yield the partitions with their holes, in order; read all holes of a partition before the next partition.

    interior: whether to look for holes between a partition's rows, too; that reads and sorts all offsets.
    """
    extents_by_place = {extent.place: extent for extent in extents}
    if interior:
        columns = ("topic", "topic_id", "partition")
        rows = bronze.between_ticks(bronze.read_stream_records(lake, stream), 0, tick).select(*columns, "offset")
        next_offset = F.lead("offset").over(Window.partitionBy(*columns).orderBy("offset"))
        hole_rows = rows.withColumn("_next", next_offset).where("_next > offset + 1")
        for place, partition_rows in groupby(hole_rows.toLocalIterator(), key=lambda row: tuple(row[:3])):
            if (extent := extents_by_place.pop(place, None)) is not None:
                yield extent, _holes_of_partition(extent, ((row["offset"] + 1, row["_next"]) for row in partition_rows))
    for extent in extents_by_place.values():
        yield extent, _holes_of_partition(extent, ())


def _holes_of_partition(extent: Extent, inner_holes: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Yield the holes of a partition: before its rows, between them, and after them."""
    first_offset = extent.next if extent.first is None else extent.first
    if first_offset > 0:
        yield 0, first_offset
    yield from inner_holes
    if extent.last is not None and extent.next > extent.last + 1:
        yield extent.last + 1, extent.next


def subtract_ranges(ranges: Iterable[OffsetRange], noted_ranges: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Yield the parts of ranges (in order, none in another) that lie in none of the noted ranges."""
    sorted_ranges = sorted(noted_ranges)
    number = 0  # of the first noted range that may reach into this range, or into a later one
    for begin, end in ranges:
        while number < len(sorted_ranges) and sorted_ranges[number][0] < end:
            low, high = sorted_ranges[number]
            if low > begin:
                yield begin, low
            begin = max(begin, high)
            if high > end:
                break
            number += 1
        if begin < end:
            yield begin, end


def read_noted_ranges(lake: OpenLake) -> Mapping[tuple[str, str, int], list[OffsetRange]]:
    """Return the ranges that bronze/gaps says were lost before they were ingested, by partition."""
    noted_ranges: dict[tuple[str, str, int], list[OffsetRange]] = {}
    for gap in gaps.read_accepted_gaps(lake):
        if gap.to_offset is not None:
            noted_ranges.setdefault((gap.topic, gap.topic_id, gap.partition), []).append(
                (gap.from_offset, gap.to_offset)
            )
    return noted_ranges
