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
from lakehouse.spark.audit.marks import Scope

PATIENCE_SECONDS = 5.0
LOST = (
    "Bronze is only ever appended to: rows were removed, or this is a defect of lakehouse (please report it). Take "
    "its folder from a backup, or start a new lake while Kafka still has the records."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The Kafka to ask; `servers` is None if there is none, and `why` says so."""

    servers: str | None
    options: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


@dataclass(slots=True)
class Explanation:
    """What each partition lacks, by its number among the known ones; with the losses, and what is unknown."""

    by_number: dict[int, Missing] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def explained(scope: Scope, told: list[FateCounts], kafka: Asked) -> Explanation:
    """Explain the offsets, up to the next one, that bronze lacks: by bronze/gaps, then by asking Kafka."""
    made = Explanation()
    have = {item.part: item.offsets for item in told}
    lacking = {
        number: item for number, item in enumerate(scope.known) if item.next > have.get(number, 0)
    }  # fmt: skip
    if not lacking:
        return made
    interior = any(
        item.first is not None and item.last is not None and item.last + 1 - item.first > have.get(number, 0)
        for number, item in lacking.items()
    )
    numbers = {item.place: number for number, item in lacking.items()}
    noted = offsets.noted(scope.opened.lake)
    with ExitStack() as stack:
        asking = _Asking(kafka, stack)
        found = offsets.holes(
            scope.opened.lake, scope.table.stream, scope.tick, lacking.values(), interior
        )  # fmt: skip
        for item, holes in found:
            number = numbers[item.place]
            rest = _Counted(offsets.without(holes, noted.get(item.place, [])))
            said, why = asking.about(item, rest)
            missing = Missing(
                item.next - have.get(number, 0) - rest.total, said.expired, said.aborted, said.own, said.there,
                rest.total - said.expired - said.aborted - said.own - said.there,
            )  # fmt: skip
            made.by_number[number] = missing
            where = f"topic {item.topic} (id {item.topic_id}) partition {item.partition}"
            if missing.lost:
                what = f"{where}: Kafka has {missing.lost:,} records that bronze does not have"
                made.problems.append(Problem(f"{what}; the first: offset {said.first_there}", "none", LOST))
            if missing.unknown:
                made.notes.append(
                    f"{where}: {missing.unknown:,} offsets have no row in bronze, and {why}: they are Kafka's own (a "
                    "transaction's markers, aborted or compacted records), expired, or unknown"
                )
    return made


class _Asking:
    """Kafka, asked about one partition after the other; it is not asked again when it did not answer."""

    def __init__(self, kafka: Asked, stack: ExitStack) -> None:
        self._stack, self._kafka = stack, kafka
        self._why = kafka.why
        self._cluster: Cluster | None = None
        self._holes: Holes | None = None
        if kafka.servers is not None:
            self._cluster = Cluster(kafka.servers, kafka.options, PATIENCE_SECONDS)

    def about(self, item: offsets.Extent, holes: _Counted) -> tuple[HoleCounts, str]:
        """Return what Kafka says about a partition's holes; if it can't explain some of them, why."""
        try:
            said, why = self._asked(item, holes)
        except (KafkaUnavailable, NotFound) as error:
            said, why = HoleCounts(), f"Kafka could not be asked ({error})"
            if isinstance(error, KafkaUnavailable):
                self._cluster, self._why = None, why
        for _ in holes:  # ranges that Kafka was not asked about are counted, too
            pass
        return said, why

    def _asked(self, item: offsets.Extent, holes: _Counted) -> tuple[HoleCounts, str]:
        if self._cluster is None:
            return HoleCounts(), self._why
        if self._cluster.topics([item.topic])[item.topic].id != item.topic_id:
            return HoleCounts(), "Kafka's topic of this name is another one now"
        if self._holes is None:
            self._holes = self._stack.enter_context(Holes(self._cluster, self._kafka.options))
        said = self._holes.explain(item.topic, item.partition, holes)
        return said, "they are past the end of Kafka's log"


class _Counted:
    """Ranges, counted as they go by."""

    def __init__(self, ranges: Iterable[OffsetRange]) -> None:
        self._ranges = iter(ranges)
        self.total = 0

    def __iter__(self) -> Iterator[OffsetRange]:
        for low, high in self._ranges:
            self.total += high - low
            yield low, high
