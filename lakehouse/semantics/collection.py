"""Aggregates that keep many values: lists, sets, distinct counts, the largest k, histograms.

Their accumulators are lists and grow with the group: the row of a table holds them, and every change rewrites the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakehouse.semantics.aggregate import Shown, sort_key


def frozen(value: Any) -> Any:
    """Return a value in a form that can be compared and hashed: structs and arrays become tuples."""
    if isinstance(value, dict):
        return tuple((name, frozen(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    return "NaN" if isinstance(value, float) and value != value else value


@dataclass(frozen=True, slots=True)
class CollectList(Shown):
    """COLLECT_LIST(column): every value, nulls too, in first-seen order (rule 7). `limit`: so many at the most."""

    limit: int | None = None

    def zero(self) -> list[Any]:
        return []

    def add(self, accumulator: list[Any], value: Any, order: object) -> list[Any]:
        return self.merge(accumulator, [value])

    def merge(self, earlier: list[Any], later: list[Any]) -> list[Any]:
        return [*earlier, *later][: self.limit]


@dataclass(frozen=True, slots=True)
class CollectSet(CollectList):
    """COLLECT_SET(column): every different value, null too, in first-seen order (rule 7)."""

    def merge(self, earlier: list[Any], later: list[Any]) -> list[Any]:
        seen = {frozen(value): value for value in reversed([*earlier, *later])}
        first_seen = dict.fromkeys(frozen(value) for value in [*earlier, *later])
        return [seen[key] for key in first_seen][: self.limit]


@dataclass(frozen=True, slots=True)
class CountDistinct:
    """COUNT_DISTINCT(column): how many different values that are not null; exact (ksqlDB's is an estimate)."""

    def zero(self) -> list[Any]:
        return []

    def add(self, accumulator: list[Any], value: Any, order: object) -> list[Any]:
        return accumulator if value is None else self.merge(accumulator, [value])

    def merge(self, earlier: list[Any], later: list[Any]) -> list[Any]:
        return CollectSet().merge(earlier, later)

    def result(self, accumulator: list[Any]) -> int:
        return len(accumulator)


@dataclass(frozen=True, slots=True)
class TopK(Shown):
    """TOPK(column, k): the k largest values, the largest first; nulls are skipped. `distinct`: each value once."""

    k: int
    distinct: bool = False

    def zero(self) -> list[Any]:
        return []

    def add(self, accumulator: list[Any], value: Any, order: object) -> list[Any]:
        return accumulator if value is None else self.merge(accumulator, [value])

    def merge(self, earlier: list[Any], later: list[Any]) -> list[Any]:
        values = CollectSet().merge(earlier, later) if self.distinct else [*earlier, *later]
        return sorted(values, key=sort_key, reverse=True)[: self.k]


@dataclass(frozen=True, slots=True)
class Histogram(Shown):
    """HISTOGRAM(column): how often each text came, as a map; nulls are skipped."""

    def zero(self) -> dict[str, int]:
        return {}

    def add(self, accumulator: dict[str, int], value: str | None, order: object) -> dict[str, int]:
        return accumulator if value is None else {**accumulator, value: accumulator.get(value, 0) + 1}

    def merge(self, earlier: dict[str, int], later: dict[str, int]) -> dict[str, int]:
        names = {**earlier, **later}
        return {name: earlier.get(name, 0) + later.get(name, 0) for name in names}
