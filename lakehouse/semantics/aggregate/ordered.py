"""LATEST and EARLIEST: the value of the group's last, or first, record in order of arrival; or of several of them.

Not event time: see rule 6, and ksqlDB's LATEST_BY_OFFSET. The accumulator carries the record's position, so that two
sessions that become one know which of their values came later. None: no record has qualified yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Marked = dict[str, Any] | None  # {"at": position, "value": value}


@dataclass(frozen=True, slots=True)
class LatestValue:
    """LATEST(column). Nulls are skipped unless `ignore_nulls` is False: then the last record's null shows."""

    ignore_nulls: bool = True

    def zero(self) -> Marked:
        return None

    def add(self, accumulator: Marked, value: Any, order: Any) -> Marked:
        if value is None and self.ignore_nulls:
            return accumulator
        return self.merge(accumulator, {"at": order, "value": value})

    def merge(self, earlier: Marked, later: Marked) -> Marked:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        return self.chosen(earlier, later)

    def chosen(self, *marked: dict[str, Any]) -> dict[str, Any]:
        """Return the value whose record came last."""
        return max(marked, key=lambda item: item["at"])

    def result(self, accumulator: Marked) -> Any:
        return accumulator["value"] if accumulator else None


@dataclass(frozen=True, slots=True)
class EarliestValue(LatestValue):
    """EARLIEST(column). With `ignore_nulls` False, a first record that is null stays: the result is null for good."""

    def chosen(self, *marked: dict[str, Any]) -> dict[str, Any]:
        """Return the value whose record came first."""
        return min(marked, key=lambda item: item["at"])


@dataclass(frozen=True, slots=True)
class LatestValues:
    """LATEST(column, k): the last k values as a list, the one that came first at its begin."""

    k: int
    ignore_nulls: bool = True

    def zero(self) -> list[dict[str, Any]]:
        return []

    def add(self, accumulator: list[dict[str, Any]], value: Any, order: Any) -> list[dict[str, Any]]:
        if value is None and self.ignore_nulls:
            return accumulator
        return self.merge(accumulator, [{"at": order, "value": value}])

    def merge(self, earlier: list[dict[str, Any]], later: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return self.chosen(sorted([*earlier, *later], key=lambda item: item["at"]))

    def chosen(self, marked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the values whose records came last."""
        return marked[-self.k :]

    def result(self, accumulator: list[dict[str, Any]]) -> list[Any]:
        return [item["value"] for item in accumulator]


@dataclass(frozen=True, slots=True)
class EarliestValues(LatestValues):
    """EARLIEST(column, k): the first k values as a list."""

    def chosen(self, marked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the values whose records came first."""
        return marked[: self.k]
