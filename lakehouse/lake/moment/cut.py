"""The records that count for a table at a moment: those up to a tick, an event time, or offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from lakehouse.semantics.moment import Offsets


@dataclass(frozen=True, slots=True)
class Cut:
    """The records that count: those up to a tick; and of these only those up to an event time, or before offsets.

    ids: by topic name, the id of the topic to which the offsets belong. All records of an earlier topic of that name
    count. Without an id, the offsets apply to any topic of that name.
    """

    tick: int
    event_ms: int | None = None
    offsets: Offsets | None = None
    ids: Mapping[str, str] | None = None

    def __hash__(self) -> int:
        return hash((self.tick, self.event_ms, str(self.offsets), str(self.ids)))

    @property
    def is_whole(self) -> bool:
        """True if all records of the cut's ticks count."""
        return self.event_ms is None and self.offsets is None

    def lies_before(self, topic: Any, topic_id: Any, partition: Any, offset: Any) -> Any:
        """Return whether a record lies before the offsets, by its place; True if there are no offsets.

        All records of a topic without offsets do, and all records of an earlier topic of the same name. The arguments
        are values, Spark's columns or Arrow's expressions, and so is the result.
        """
        conditions = []
        for name, ends in (self.offsets or {}).items():
            before = topic != name
            if self.ids is not None and name in self.ids:
                before = before | (topic_id != self.ids[name])
            for number, end in ends.items():
                before = before | ((partition == number) & (offset < end))
            conditions.append(before)
        return reduce(and_, conditions) if conditions else True

    def within(self, later_cut: Cut) -> Cut:
        """Return the cut of the records that count by both cuts; this cut's tick is the earlier one."""
        event_times = [ms for ms in (self.event_ms, later_cut.event_ms) if ms is not None]
        merged_offsets, topic_ids = self.offsets or later_cut.offsets, {**(later_cut.ids or {}), **(self.ids or {})}
        if self.offsets and later_cut.offsets:
            merged_offsets = {
                topic: self._offsets_of_both(later_cut, topic) for topic in {*self.offsets, *later_cut.offsets}
            }
        return Cut(self.tick, min(event_times, default=None), merged_offsets, topic_ids or None)

    def _offsets_of_both(self, later_cut: Cut, topic: str) -> Mapping[int, int]:
        """Return the offsets of a topic below which records count by both cuts."""
        own_offsets, later_offsets = (self.offsets or {}).get(topic), (later_cut.offsets or {}).get(topic)
        topic_ids = [(cut.ids or {}).get(topic) for cut in (self, later_cut)]
        if own_offsets is not None and None not in topic_ids and topic_ids[0] != topic_ids[1]:
            return own_offsets  # the others belong to a later topic of that name: all records of this one came before
        return _smaller_offsets(own_offsets, later_offsets)

    def details(self) -> dict[str, Any]:
        """Return the form in which an intervention keeps the cut."""
        ids = {} if self.ids is None else {"ids": self.ids}
        return {"tick": self.tick, "event_ms": self.event_ms, "offsets": self.offsets, **ids}


def _smaller_offsets(
    own_offsets: Mapping[int, int] | None, later_offsets: Mapping[int, int] | None
) -> Mapping[int, int]:
    """Return the smaller offset of each partition; a missing partition has no records that count."""
    if own_offsets is None or later_offsets is None:
        return own_offsets or later_offsets or {}
    return {
        partition: min(own_offsets[partition], later_offsets[partition])
        for partition in own_offsets.keys() & later_offsets.keys()
    }


def cut_from_details(details: Mapping[str, Any]) -> Cut:
    """Return the cut from the form in which an intervention keeps it."""
    offsets = details.get("offsets")
    offsets_by_topic = offsets and {
        topic: {int(p): n for p, n in partition_offsets.items()} for topic, partition_offsets in offsets.items()
    }
    return Cut(details["tick"], details.get("event_ms"), offsets_by_topic, details.get("ids"))
