"""Which records count for a table at a moment: those up to a tick, an event time, or offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cut:
    """Which records count: those up to a tick; of these the ones up to an event time, or before offsets.

    ids: by topic, the id of the one that the offsets are of. All records of an earlier topic of its name count. One
    that is not in it has the offsets of whatever topic had its name: an earlier release wrote that down.
    """

    tick: int
    event_ms: int | None = None
    offsets: Mapping[str, Mapping[int, int]] | None = None
    ids: Mapping[str, str] | None = None

    def __hash__(self) -> int:
        return hash((self.tick, self.event_ms, str(self.offsets), str(self.ids)))

    @property
    def whole(self) -> bool:
        """Whether all records of its ticks count."""
        return self.event_ms is None and self.offsets is None

    def counts(self, topic: str, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether a record's place is one of those that count by the offsets."""
        of = (self.offsets or {}).get(topic)
        if of is None or (self.ids or {}).get(topic, topic_id) != topic_id:
            return True
        return offset < of.get(partition, 0)

    def within(self, other: Cut) -> Cut:
        """Return the cut by which those records count that count by both: up to this one's tick, the earlier one."""
        times = [ms for ms in (self.event_ms, other.event_ms) if ms is not None]
        offsets, ids = self.offsets or other.offsets, {**(other.ids or {}), **(self.ids or {})}
        if self.offsets and other.offsets:
            offsets = {topic: self._both(other, topic) for topic in {*self.offsets, *other.offsets}}
        return Cut(self.tick, min(times, default=None), offsets, ids or None)

    def _both(self, other: Cut, topic: str) -> Mapping[int, int]:
        """The offsets of a topic before which a record lies that counts by both."""
        mine, theirs = (self.offsets or {}).get(topic), (other.offsets or {}).get(topic)
        ids = [(cut.ids or {}).get(topic) for cut in (self, other)]
        if mine is not None and None not in ids and ids[0] != ids[1]:
            return mine  # theirs are of a later topic of that name, and all of this one came before it
        return _smaller(mine, theirs)

    def details(self) -> dict[str, Any]:
        """Return it as an intervention writes it down."""
        ids = {} if self.ids is None else {"ids": self.ids}
        return {"tick": self.tick, "event_ms": self.event_ms, "offsets": self.offsets, **ids}


def _smaller(one: Mapping[int, int] | None, other: Mapping[int, int] | None) -> Mapping[int, int]:
    """The smaller offset of each partition; one that is not named has no records that count."""
    if one is None or other is None:
        return one or other or {}
    return {partition: min(one[partition], other[partition]) for partition in one.keys() & other.keys()}


def cut_of(details: Mapping[str, Any]) -> Cut:
    """Return the cut that an intervention wrote down."""
    offsets = details.get("offsets")
    numbered = offsets and {topic: {int(p): n for p, n in of.items()} for topic, of in offsets.items()}
    return Cut(details["tick"], details.get("event_ms"), numbered, details.get("ids"))
