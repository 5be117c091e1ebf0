"""The work that every peer does: JSON records of about 170 bytes, 100,000 keys; a count and the last values of each.

A peer is a program of its own, so that each begins cold. It is told its work in one line of JSON and prints its answer
as one: `began` (milliseconds since 1970, the process is up and nothing is loaded), `ready` (Spark is up).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from lakehouse.kafka.produce import ProducerRecord

TOPIC = "events"
PARTITIONS = 4
KEYS = 100_000
MEMORY = "2g"  # of each JVM
SCHEMA = "kind string, amount bigint, at timestamp, place string, note string"
VALUES = ("kind", "amount", "at", "place", "note")


@dataclass(frozen=True)
class Work:
    """Where the records are, and where a peer puts its tables. memory: of its JVM, as Java writes it."""

    servers: str
    folder: str
    records: int
    memory: str

    @classmethod
    def of(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def text(self) -> str:
        return json.dumps(asdict(self))

    @property
    def bronze(self) -> Path:
        return Path(self.folder, "bronze", "records")

    @property
    def silver(self) -> Path:
        return Path(self.folder, "silver", "events")


class Records:
    """The records, and what any right table of them holds. Iterate once before asking."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._last: dict[str, int] = {}

    def __iter__(self) -> Iterator[ProducerRecord]:
        dice = random.Random(7)
        place = {"note": "a note of some length, as they are in real life, and a bit"}
        for number in range(self._count):
            key = f"k{dice.randrange(KEYS)}"
            self._last[key] = amount = number % 1000
            value = {
                "kind": f"kind {number % 50}", "amount": amount, "at": "2026-01-31T12:00:00Z",
                "place": f"place {number % 700}",
            }  # fmt: skip
            yield ProducerRecord(key.encode(), json.dumps(value | place).encode())

    @property
    def rows(self) -> int:
        return len(self._last)

    @property
    def last_amounts(self) -> int:
        """The sum of each key's last amount."""
        return sum(self._last.values())
