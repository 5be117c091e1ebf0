"""Aggregates that users write in Python: a reduce, or a zero and an add.

The functions must give the same again for the same input, and must not change their arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakehouse.semantics.aggregate import Shown


@dataclass(frozen=True, slots=True)
class Reduce(Shown):
    """REDUCE(column): function(so far, value); the first value that is not null begins. Nulls are skipped (rule 2)."""

    function: Callable[[Any, Any], Any]

    def zero(self) -> None:
        return None

    def add(self, accumulator: Any, value: Any, order: object) -> Any:
        return accumulator if value is None else self.merge(accumulator, value)

    def merge(self, earlier: Any, later: Any) -> Any:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        return self.function(earlier, later)


@dataclass(frozen=True, slots=True)
class Custom:
    """A user-defined aggregate. `undo` takes a value out again, for aggregates over tables."""

    initial: Any
    function: Callable[[Any, Any], Any]
    shown: Callable[[Any], Any] | None = None
    merged: Callable[[Any, Any], Any] | None = None
    undo: Callable[[Any, Any], Any] | None = None

    def zero(self) -> Any:
        return self.initial

    def add(self, accumulator: Any, value: Any, order: object) -> Any:
        return self.function(accumulator, value)

    def merge(self, earlier: Any, later: Any) -> Any:
        assert self.merged is not None, "a session window is refused when it is declared without a merge"
        return self.merged(earlier, later)

    def result(self, accumulator: Any) -> Any:
        return accumulator if self.shown is None else self.shown(accumulator)
