"""Which records count for a table at a moment: those up to a tick, an event time, or offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import ConfigError
from lakehouse.plan.table import Table
from lakehouse.semantics.moment import none_left_out


@dataclass(frozen=True, slots=True)
class Cut:
    """Which records count: those up to a tick; of these the ones up to an event time, or before offsets."""

    tick: int
    event_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None

    def __hash__(self) -> int:
        return hash((self.tick, self.event_ms, str(self.offsets)))

    @property
    def whole(self) -> bool:
        """Whether all records of its ticks count."""
        return self.event_ms is None and self.offsets is None

    def within(self, other: Cut) -> Cut:
        """Return the cut by which those records count that count by both: up to this one's tick."""
        times = [ms for ms in (self.event_ms, other.event_ms) if ms is not None]
        offsets = self.offsets or other.offsets
        if self.offsets and other.offsets:
            topics = {*self.offsets, *other.offsets}
            offsets = {topic: _smaller(self.offsets.get(topic), other.offsets.get(topic)) for topic in topics}
        return Cut(self.tick, min(times, default=None), offsets)

    def details(self) -> dict[str, Any]:
        """Return it as an intervention writes it down."""
        return {"tick": self.tick, "event_ms": self.event_ms, "offsets": self.offsets}


def _smaller(one: Mapping[int, int] | None, other: Mapping[int, int] | None) -> Mapping[int, int]:
    """The smaller offset of each partition; one that is not named has no records that count."""
    if one is None or other is None:
        return one or other or {}
    return {partition: min(one[partition], other[partition]) for partition in one.keys() & other.keys()}


def cut_of(details: Mapping[str, Any]) -> Cut:
    """Return the cut that an intervention wrote down."""
    offsets = details.get("offsets")
    numbered = offsets and {topic: {int(p): n for p, n in of.items()} for topic, of in offsets.items()}
    return Cut(details["tick"], details.get("event_ms"), numbered)


def check_offsets(table: Table, offsets: Mapping[str, Mapping[int, int]], known: Mapping[tuple[str, int], int]) -> None:
    """Raise ConfigError for offsets of a topic that the table does not read, or that leave out a partition.

    known: the first offset not taken in, by topic and partition.
    """
    if unread := sorted(set(offsets) - set(table.stream.topics)):
        raise ConfigError(
            f"offsets: table {table.name!r} does not read topic {unread[0]!r}; expected "
            f"{', '.join(table.stream.topics)}."
        )
    none_left_out(offsets, known)
