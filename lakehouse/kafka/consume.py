"""The range of a topic's records to show: offsets of its partitions from words such as "end", or from a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import Message

from lakehouse.errors import ConfigError, NotFound
from lakehouse.kafka.drain import follow_offsets, read_offsets, topic_offsets
from lakehouse.kafka.topics import Cluster
from lakehouse.semantics.time.named_moment import time_ms

BEGINNING, END = "beginning", "end"
FORMS = "beginning, end, an offset (12), the last offsets (-5), or a time (2026-01-31T12:00Z)"
_OFFSET = re.compile(r"-?[0-9]{1,18}")
_YEAR = re.compile(r"[0-9]{4}-")


@dataclass(frozen=True, slots=True)
class OffsetBound:
    """The begin, or the end, of a reading in each partition.

    kind: the meaning of number; an offset below 0 counts from the end.
    """

    kind: Literal["beginning", "end", "offset", "time"]
    number: int = 0


def parse_bound(text: str, option: str) -> OffsetBound:
    """Return the bound that a text names; a time without a zone is UTC. Raises ConfigError."""
    word = text.strip().lower()
    if word == BEGINNING:
        return OffsetBound("beginning")
    if word == END:
        return OffsetBound("end")
    if _OFFSET.fullmatch(word):
        return OffsetBound("offset", int(word))
    if not _YEAR.match(word):
        raise ConfigError(f"{option} {text!r}: expected {FORMS}.")
    return OffsetBound("time", max(0, time_ms(text, option)))  # Kafka gives numbers below 0 another meaning


def offsets_at(
    cluster: Cluster, topic: str, bound: OffsetBound, present: Mapping[int, tuple[int, int]]
) -> dict[int, int]:
    """Return the offset of a bound in each partition, where it has records. At a time: of the first not before it.

    present: the (earliest, latest) offset of each partition. Raises NotFound, KafkaUnavailable.
    """
    times: dict[tuple[str, int], int | None] = {}
    if bound.kind == "time":
        times = cluster.offsets_at([(topic, partition) for partition in present], bound.number)
    offsets = {}
    for partition, (first, last) in present.items():
        match bound.kind:
            case "beginning":
                offset = first
            case "end":
                offset = last
            case "offset":
                offset = bound.number if bound.number >= 0 else last + bound.number
            case "time":
                at_time = times[topic, partition]
                offset = last if at_time is None else at_time
        offsets[partition] = min(max(offset, first), last)
    return offsets


def consume(
    cluster: Cluster,
    options: Mapping[str, str],
    topic: str,
    begin: OffsetBound,
    end: OffsetBound | None,
    *,
    partition: int | None = None,
    committed: bool = True,
) -> Iterator[Message]:
    """Yield a topic's records from a bound on; up to before another, or without end. In order within a partition.

    committed: without records of transactions that are open, or were given up. Raises NotFound for a topic or a
    partition that does not exist, KafkaUnavailable.
    """
    present = topic_offsets(cluster, topic, committed=committed)
    if partition is not None:
        if partition not in present:
            raise NotFound(f"Found no partition {partition} of topic {topic!r}; expected 0 to {len(present) - 1}.")
        present = {partition: present[partition]}
    begin_offsets = offsets_at(cluster, topic, begin, present)
    if end is None:
        return follow_offsets(cluster, options, topic, begin_offsets, committed=committed)
    end_offsets = offsets_at(cluster, topic, end, present)
    ranges = {number: (offset, end_offsets[number]) for number, offset in begin_offsets.items()}
    return read_offsets(cluster, options, topic, ranges, committed=committed)
