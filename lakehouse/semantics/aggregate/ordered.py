"""LATEST and EARLIEST: the value of the group's last, or first, record in order of arrival; or of several of them.

The order is not event time: see rule 6, and ksqlDB's LATEST_BY_OFFSET. The accumulator has the record's position, so
that a merge of two sessions finds which of their values came later. It is None until a record qualifies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PositionedValue = dict[str, Any] | None  # {"at": position, "value": value}


@dataclass(frozen=True, slots=True)
class LatestValue:
    """LATEST(column). Nulls are skipped; with `ignore_nulls` False, the last record's null shows."""

    ignore_nulls: bool = True

    def empty_accumulator(self) -> PositionedValue:
        return None

    def add(self, accumulator: PositionedValue, value: Any, record_position: Any) -> PositionedValue:
        if value is None and self.ignore_nulls:
            return accumulator
        return self.merge(accumulator, {"at": record_position, "value": value})

    def merge(self, earlier: PositionedValue, later: PositionedValue) -> PositionedValue:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        return self.choose_value(earlier, later)

    def choose_value(self, *marked_values: dict[str, Any]) -> dict[str, Any]:
        """Return the value whose record came last."""
        return max(marked_values, key=lambda marked_value: marked_value["at"])

    def result(self, accumulator: PositionedValue) -> Any:
        return accumulator["value"] if accumulator else None


@dataclass(frozen=True, slots=True)
class EarliestValue(LatestValue):
    """EARLIEST(column). With `ignore_nulls` False, a null in the first record stays: the result is null for good."""

    def choose_value(self, *marked_values: dict[str, Any]) -> dict[str, Any]:
        """Return the value whose record came first."""
        return min(marked_values, key=lambda marked_value: marked_value["at"])


@dataclass(frozen=True, slots=True)
class LatestValues:
    """LATEST(column, k): the last k values as a list, in order of arrival."""

    k: int
    ignore_nulls: bool = True

    def empty_accumulator(self) -> list[dict[str, Any]]:
        return []

    def add(self, accumulator: list[dict[str, Any]], value: Any, record_position: Any) -> list[dict[str, Any]]:
        if value is None and self.ignore_nulls:
            return accumulator
        return self.merge(accumulator, [{"at": record_position, "value": value}])

    def merge(self, earlier: list[dict[str, Any]], later: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return self.choose_value(sorted([*earlier, *later], key=lambda marked_value: marked_value["at"]))

    def choose_value(self, marked_values: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the values whose records came last."""
        return marked_values[-self.k :]

    def result(self, accumulator: list[dict[str, Any]]) -> list[Any]:
        return [marked_value["value"] for marked_value in accumulator]


@dataclass(frozen=True, slots=True)
class EarliestValues(LatestValues):
    """EARLIEST(column, k): the first k values as a list."""

    def choose_value(self, marked_values: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the values whose records came first."""
        return marked_values[: self.k]
