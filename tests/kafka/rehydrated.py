"""Helpers of the rehydrate tests: records for a bronze, and the records that a topic must then hold."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message

from lakehouse.semantics.record import Record

T = 1_700_000_000_000


def history(topic: str, ticks: int = 3, each: int = 40, partitions: int = 3) -> list[Record]:
    """Ticks of records, spread over the partitions in turns; keys, values and headers of every kind."""
    following = dict.fromkeys(range(partitions), 0)
    made = []
    for n in range(ticks * each):
        partition, stamp = n % partitions, T + n * 10
        key = None if n % 7 == 0 else b"" if n % 7 == 1 else f"k{n}".encode()
        value = None if n % 5 == 0 else b"" if n % 5 == 1 else f"value {n}".encode() + b"\xff"
        headers = (("h", b"\xff"), ("h", None), ("ü", b"")) if n % 3 == 0 else ()
        place = (topic, "id-1", partition, following[partition])
        made.append(Record(*place, stamp, key, value, n // each + 1, stamp, headers))
        following[partition] += 1
    return made


def arrived(messages: list[Message]) -> list[tuple[Any, ...]]:
    return [(m.partition(), m.timestamp(), m.key(), m.value(), m.headers() or []) for m in messages]


def expected(records: list[Record], partition: int) -> list[tuple[Any, ...]]:
    """The records that a partition of the topic must hold, with times of type CreateTime (1)."""
    of = [record for record in sorted(records, key=lambda record: record.position) if record.partition == partition]
    return [(partition, (1, r.timestamp), r.key, r.value, list(r.headers)) for r in of]


def check(messages: list[Message], records: list[Record], partitions: int = 3) -> None:
    result = arrived(messages)
    for partition in range(partitions):
        assert [item for item in result if item[0] == partition] == expected(records, partition)
    assert len(result) == len(records)
