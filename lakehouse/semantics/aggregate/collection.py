"""Aggregates that keep many values: lists, sets, the only value, distinct counts, the largest k, histograms.

Their accumulators are lists (a histogram's is a map) and grow with the group: a table's row contains them, and every
change rewrites the row. While a batch is folded they are `Values` and `Counts`, so that the cost of a record does not
depend on the number of values in its group. A row from storage has a plain list or dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.semantics.aggregate.aggregate import VisibleAccumulator, sort_key
from lakehouse.semantics.aggregate.growing import Counts, Values

KeptValues = Sequence[Any]


def _float_form(number: float) -> float | str:
    return "NaN" if number != number else number


def hashable_form(value: Any, float_form: Callable[[float], float | str] = _float_form) -> Any:
    """Return a value in a form that can be compared and hashed. Equal maps may have their entries in any order.

    float_form: the form of a double.
    """
    if isinstance(value, dict):
        return frozenset(
            (hashable_form(name, float_form), hashable_form(item, float_form)) for name, item in value.items()
        )
    if isinstance(value, list | tuple):
        return tuple(hashable_form(item, float_form) for item in value)
    return float_form(value) if isinstance(value, float) else value


def exact_form(value: Any) -> Any:
    """Return a value in a form that is equal where the value says the same: a double's two zeros are not."""
    return hashable_form(value, repr)


def _as_values(accumulator: KeptValues) -> Values:
    return accumulator if isinstance(accumulator, Values) else Values(accumulator)


def as_counts(accumulator: Mapping[str, int]) -> Counts:
    """Return a histogram's accumulator as `Counts`."""
    return accumulator if isinstance(accumulator, Counts) else Counts(accumulator)


@dataclass(frozen=True, slots=True)
class CollectList:
    """COLLECT_LIST(column): every value, nulls too, in first-seen order (rule 7); at most `limit` of them."""

    limit: int | None = None

    def empty_accumulator(self) -> KeptValues:
        return Values()

    def add(self, accumulator: KeptValues, value: Any, record_position: object) -> KeptValues:
        if self.limit is not None and len(accumulator) >= self.limit:
            return accumulator
        return self.with_value(_as_values(accumulator), value)

    def with_value(self, values: Values, value: Any) -> Values:
        """Return the values with a new one at the end."""
        return values.with_item(value)

    def merge(self, earlier: KeptValues, later: KeptValues) -> KeptValues:
        if not earlier:
            return later
        for value in later:
            earlier = self.add(earlier, value, None)
        return earlier

    def result(self, accumulator: KeptValues) -> list[Any]:
        return list(accumulator)


@dataclass(frozen=True, slots=True)
class CollectSet(CollectList):
    """COLLECT_SET(column): every different value, null too, in first-seen order (rule 7)."""

    def with_value(self, values: Values, value: Any) -> Values:
        return values.with_new_item(value, hashable_form)


@dataclass(frozen=True, slots=True)
class OnlyValue(CollectSet):
    """ATTR(column): the value that all records of the group have; null if they have several, null being one."""

    limit: int | None = 2

    def result(self, accumulator: KeptValues) -> Any:
        return accumulator[0] if len(accumulator) == 1 else None


@dataclass(frozen=True, slots=True)
class CountDistinct:
    """COUNT_DISTINCT(column): the number of different values, nulls excluded; exact (ksqlDB's is an estimate)."""

    def empty_accumulator(self) -> KeptValues:
        return Values()

    def add(self, accumulator: KeptValues, value: Any, record_position: object) -> KeptValues:
        return accumulator if value is None else CollectSet().add(accumulator, value, record_position)

    def merge(self, earlier: KeptValues, later: KeptValues) -> KeptValues:
        return CollectSet().merge(earlier, later)

    def result(self, accumulator: KeptValues) -> int:
        return len(accumulator)


@dataclass(frozen=True, slots=True)
class TopK(VisibleAccumulator):
    """TOPK(column, k): the k largest values, the largest first; nulls are skipped. `distinct`: each value once.

    order_field: order the values, which are structs, by this field, and skip those in which it is null. The first of
    equal values stays.
    """

    k: int
    distinct: bool = False
    order_field: str | None = None

    def empty_accumulator(self) -> list[Any]:
        return []

    def add(self, accumulator: list[Any], value: Any, record_position: object) -> list[Any]:
        is_skipped = value is None or (self.order_field is not None and value[self.order_field] is None)
        return accumulator if is_skipped else self.merge(accumulator, [value])

    def merge(self, earlier: list[Any], later: list[Any]) -> list[Any]:
        all_values = _distinct_values([*earlier, *later]) if self.distinct else [*earlier, *later]
        return sorted(all_values, key=self._sort_value, reverse=True)[: self.k]

    def _sort_value(self, value: Any) -> Any:
        return sort_key(value if self.order_field is None else value[self.order_field])


def _distinct_values(values: list[Any]) -> list[Any]:
    """Return the values without repetitions: the first of equal values."""
    first_by_form: dict[Any, Any] = {}
    for value in values:
        first_by_form.setdefault(hashable_form(value), value)
    return list(first_by_form.values())


@dataclass(frozen=True, slots=True)
class Histogram:
    """HISTOGRAM(column): how often each text occurs, as a map; nulls are skipped."""

    def empty_accumulator(self) -> Mapping[str, int]:
        return Counts()

    def add(self, accumulator: Mapping[str, int], value: str | None, record_position: object) -> Mapping[str, int]:
        if value is None:
            return accumulator
        return as_counts(accumulator).with_item(value)

    def merge(self, earlier: Mapping[str, int], later: Mapping[str, int]) -> Mapping[str, int]:
        if not earlier:
            return later
        merged_counts = dict(earlier)
        for text, count in later.items():
            merged_counts[text] = merged_counts.get(text, 0) + count
        return Counts(merged_counts)

    def result(self, accumulator: Mapping[str, int]) -> dict[str, int]:
        return dict(accumulator)
