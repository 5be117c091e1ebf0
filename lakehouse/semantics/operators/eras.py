"""Eras: how often topics had been recreated when a record came.

A recreated topic has another id, and begins a stream time of its own. If several topics move one clock, that clock
starts over at the tick in which a recreated topic has its first record:

    tick     1    2    3    4    5
    left     a    a         b    b      b is the id of the recreated topic
    right    x         x    x    x
    era      0    0    0    1    1
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

# The ids that topics had, by topic: each with the tick of its first record, in order.
TopicIds = Mapping[str, Sequence[tuple[str, int]]]


def era_starts(ids_by_topic: TopicIds, topics: Iterable[str]) -> tuple[int, ...]:
    """Return the ticks at which one of the topics came back with a new id: there the eras 1, 2, ... begin."""
    return tuple(sorted(tick for topic in topics for _, tick in ids_by_topic.get(topic, ())[1:]))


def era_of_tick(start_ticks: Sequence[int], tick: int) -> int:
    """Return the era of a tick."""
    return bisect_right(start_ticks, tick)


def first_ticks(records: Iterable[tuple[str, str, int]]) -> dict[str, list[tuple[str, int]]]:
    """Return the ids of each topic with their first ticks, from (topic, topic id, tick) in any order."""
    first_tick_by_id: dict[tuple[str, str], int] = {}
    for topic, topic_id, tick in records:
        first_tick_by_id[topic, topic_id] = min(tick, first_tick_by_id.get((topic, topic_id), tick))
    ids_by_topic: dict[str, list[tuple[str, int]]] = {}
    for (topic, topic_id), tick in sorted(first_tick_by_id.items(), key=lambda item: item[1]):
        ids_by_topic.setdefault(topic, []).append((topic_id, tick))
    return ids_by_topic
