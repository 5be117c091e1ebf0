"""Moments in the past of a table, by the ways to name one.

version   of the Delta table
tick      the last tick taken in; several tables read at one tick are consistent with each other
commit    a time of the wall clock: what the table held then, "what we knew then"
offsets   the first offset not taken in, by topic and partition
event     an event time: the fold of the applied records that are not later, "the world then"
source    a position of the log of the database behind topics of Debezium; its records are those before some offsets,
          which only their application finds
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.semantics.epoch_time import moment_text

Offsets = Mapping[str, Mapping[int, int]]  # {topic: {partition: offset}}


@dataclass(frozen=True, slots=True)
class AtVersion:
    """A version of the Delta table."""

    version: int

    def __str__(self) -> str:
        return f"version {self.version}"


@dataclass(frozen=True, slots=True)
class AtTick:
    """The end of this tick."""

    tick: int

    def __str__(self) -> str:
        return f"tick {self.tick}"


@dataclass(frozen=True, slots=True)
class AtCommit:
    """The commits up to this time (milliseconds since the epoch)."""

    ms: int

    def __str__(self) -> str:
        return f"commit time {moment_text(self.ms)}"


@dataclass(frozen=True, slots=True)
class AtEvent:
    """The records with event times up to this one (milliseconds since the epoch)."""

    ms: int

    def __str__(self) -> str:
        return f"event time {moment_text(self.ms)}"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """The records before these offsets, by topic and partition."""

    offsets: Offsets

    def __str__(self) -> str:
        parts = [
            f"{topic}/{partition}={offset}"
            for topic, topic_offsets in sorted(self.offsets.items())
            for partition, offset in sorted(topic_offsets.items())
        ]
        return f"offsets {','.join(parts)}"


At = AtVersion | AtTick | AtCommit | AtEvent | AtOffsets
