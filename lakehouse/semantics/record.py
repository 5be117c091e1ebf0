"""A record as Kafka delivered it, with its place in the lake: one row of bronze."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.semantics.position import Identity, Position


@dataclass(frozen=True, slots=True)
class Record:
    """One ingested record. Times are milliseconds since the epoch; key and value are the original bytes."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    tick: int
    order_time: int
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: int = 0

    @property
    def position(self) -> Position:
        return Position(self.tick, self.order_time, self.topic, self.partition, self.offset)

    @property
    def identity(self) -> Identity:
        return Identity(self.topic_id, self.partition, self.offset)
