"""Explains the offsets that have no row in bronze."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from lakehouse.errors import KafkaUnavailable, NotFound
from lakehouse.kafka.holes import HoleCounts, Holes, OffsetRange
from lakehouse.kafka.topics import Cluster
from lakehouse.run.audit.finding import Missing, Problem
from lakehouse.spark.audit import offsets
from lakehouse.spark.audit.fates import FateCounts
from lakehouse.spark.audit.marks import AuditScope
from lakehouse.spark.bronze.erased import read_erased_ranges

PATIENCE_SECONDS = 5.0
LOST = (
    "Bronze is only ever appended to: rows were removed, or this is a defect of lakehouse (please report it). Take "
    "its folder from a backup, or start a new lake while Kafka still has the records."
)


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """The Kafka to ask; `servers` is None if there is none, and `why` says so."""

    servers: str | None
    options: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


@dataclass(slots=True)
class Explanation:
    """The missing offsets of each partition, by its number among the known ones; the losses, and the unknown."""

    by_number: dict[int, Missing] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def explain_missing(scope: AuditScope, fate_counts: list[FateCounts], kafka: KafkaAccess) -> Explanation:
    """Explain the offsets, up to the next one, that bronze lacks: by erasures, by bronze/gaps, then by asking Kafka."""
    explanation = Explanation()
    bronze_counts = {item.part: item.offsets for item in fate_counts}
    lacking_extents = {
        part_number: item
        for part_number, item in enumerate(scope.extents)
        if item.next > bronze_counts.get(part_number, 0)
    }
    if not lacking_extents:
        return explanation
    has_interior = any(
        item.first is not None
        and item.last is not None
        and item.last + 1 - item.first > bronze_counts.get(part_number, 0)
        for part_number, item in lacking_extents.items()
    )
    numbers_by_place = {item.place: part_number for part_number, item in lacking_extents.items()}
    noted_gaps = offsets.read_noted_ranges(scope.open_table.lake)
    erased_ranges = read_erased_ranges(scope.open_table.lake, scope.table.stream.topics)
    with ExitStack() as stack:
        hole_explainer = _HoleExplainer(kafka, stack)
        holes_by_extent = offsets.find_holes(
            scope.open_table.lake, scope.table.stream, scope.tick, lacking_extents.values(), has_interior
        )  # fmt: skip
        for item, holes in holes_by_extent:
            part_number = numbers_by_place[item.place]
            unerased_ranges = _CountedRanges(offsets.subtract_ranges(holes, erased_ranges.get(item.place, [])))
            open_ranges = _CountedRanges(offsets.subtract_ranges(unerased_ranges, noted_gaps.get(item.place, [])))
            hole_counts, reason = hole_explainer.explain_holes(item, open_ranges)
            erased = item.next - bronze_counts.get(part_number, 0) - unerased_ranges.total
            missing = Missing(
                unerased_ranges.total - open_ranges.total,
                hole_counts.expired,
                hole_counts.aborted,
                hole_counts.own,
                hole_counts.there,
                open_ranges.total - hole_counts.expired - hole_counts.aborted - hole_counts.own - hole_counts.there,
                erased,
            )
            explanation.by_number[part_number] = missing
            place = f"topic {item.topic} (id {item.topic_id}) partition {item.partition}"
            if missing.lost:
                description = f"{place}: Kafka has {missing.lost:,} records that bronze does not have"
                explanation.problems.append(
                    Problem(f"{description}; the first: offset {hole_counts.first_there}", "none", LOST)
                )
            if missing.unknown:
                explanation.notes.append(
                    f"{place}: {missing.unknown:,} offsets have no row in bronze, and {reason}: they are Kafka's own "
                    "(a transaction's markers, aborted or compacted records), expired, or unknown"
                )
    return explanation


class _HoleExplainer:
    """Asks Kafka about one partition after the other; stops asking once Kafka has not answered."""

    def __init__(self, kafka: KafkaAccess, stack: ExitStack) -> None:
        self._stack, self._kafka = stack, kafka
        self._why = kafka.why
        self._cluster: Cluster | None = None
        self._holes: Holes | None = None
        if kafka.servers is not None:
            self._cluster = Cluster(kafka.servers, kafka.options, PATIENCE_SECONDS)

    def explain_holes(self, item: offsets.Extent, holes: _CountedRanges) -> tuple[HoleCounts, str]:
        """Return Kafka's explanation of a partition's holes; and why some of them have none."""
        try:
            hole_counts, reason = self._ask_kafka(item, holes)
        except (KafkaUnavailable, NotFound) as error:
            hole_counts, reason = HoleCounts(), f"Kafka could not be asked ({error})"
            if isinstance(error, KafkaUnavailable):
                self._cluster, self._why = None, reason
        for _ in holes:  # count the ranges that Kafka was not asked about, too
            pass
        return hole_counts, reason

    def _ask_kafka(self, item: offsets.Extent, holes: _CountedRanges) -> tuple[HoleCounts, str]:
        if self._cluster is None:
            return HoleCounts(), self._why
        if self._cluster.topics([item.topic])[item.topic].id != item.topic_id:
            return HoleCounts(), "Kafka's topic of this name is another one now"
        if self._holes is None:
            self._holes = self._stack.enter_context(Holes(self._cluster, self._kafka.options))
        hole_counts = self._holes.explain(item.topic, item.partition, holes)
        return hole_counts, "they are past the end of Kafka's log"


class _CountedRanges:
    """Counts ranges while somebody iterates over them."""

    def __init__(self, ranges: Iterable[OffsetRange]) -> None:
        self._ranges = iter(ranges)
        self.total = 0

    def __iter__(self) -> Iterator[OffsetRange]:
        for low, high in self._ranges:
            self.total += high - low
            yield low, high
