"""The limits of one answer of the page in the api-server: time, memory, threads and characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from lakehouse.lake.bounded import BoundedRead

ANSWER_MAX = 4_000_000  # characters of the values of one answer
READ_SECONDS = 20.0
MEMORY_MB = 256
TAKEN_MB = 32
THREADS = 2

Item = TypeVar("Item")


def reading(otherwise: str) -> BoundedRead:
    """Return the bounds of one answer. otherwise: the way without bounds, for users who need more."""
    return BoundedRead(READ_SECONDS, MEMORY_MB, THREADS, TAKEN_MB, otherwise)


def fitting(items: Iterable[Item]) -> list[Item]:
    """Return the first items, of cells, as many as fit into one answer; at least one."""
    found: list[Item] = []
    size = 0
    for item in items:
        size += _size(item)
        if found and size > ANSWER_MAX:
            break
        found.append(item)
    return found


def _size(value: Any) -> int:
    match value:
        case str():
            return len(value)
        case dict():
            return sum(len(str(name)) + _size(part) for name, part in value.items())
        case list() | tuple():
            return sum(map(_size, value))
    return 8
