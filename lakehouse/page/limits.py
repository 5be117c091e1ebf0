"""The limits of one answer of the page in the api-server: time, memory, threads and characters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from lakehouse.lake.read_bounds import BoundedRead

ANSWER_MAX = 4_000_000  # the characters of all values of an answer
READ_SECONDS = 20.0
MEMORY_MB = 256
TAKEN_MB = 32
THREADS = 2

Item = TypeVar("Item")


def read_bounds(otherwise: str) -> BoundedRead:
    """Return the bounds of one answer. otherwise: the way without bounds, to suggest to users who need more."""
    return BoundedRead(READ_SECONDS, MEMORY_MB, THREADS, TAKEN_MB, otherwise)


def fitting_items(items: Iterable[Item]) -> list[Item]:
    """Return as many of the first items, made of cells, as fit into one answer; at least one."""
    kept_items: list[Item] = []
    total_size = 0
    for item in items:
        total_size += _count_characters(item)
        if kept_items and total_size > ANSWER_MAX:
            break
        kept_items.append(item)
    return kept_items


def _count_characters(value: Any) -> int:
    match value:
        case str():
            return len(value)
        case dict():
            return sum(len(str(name)) + _count_characters(part) for name, part in value.items())
        case list() | tuple():
            return sum(map(_count_characters, value))
    return 8
