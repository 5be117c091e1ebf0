"""Aggregates that users write in Python: a reduce, or a zero and an add.

The functions must give the same result for the same input, and must not change their arguments. If a function raises on
a record, or gives a value that does not fit its type, the aggregate leaves the record out, as it does a null: one
record must not stop a table. `fit` converts a value to its type, or raises. `on_failure` is called with each error: see
`lakehouse.semantics.failures`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from lakehouse.semantics.aggregate.aggregate import VisibleAccumulator


def keep_value(value: Any) -> Any:
    """Return the value unchanged: the `fit` for an unknown type."""
    return value


OnFailure = Callable[[Exception], None]


def ignore_error(error: Exception) -> None:
    """Ignore an error; the default of `on_failure`."""


def attempt(
    fit: Callable[[Any], Any],
    function: Callable[[Any, Any], Any],
    accumulator: Any,
    new_value: Any,
    on_failure: OnFailure,
) -> Any:
    """Return a function's result for an accumulator and a new value; the accumulator unchanged if it fails."""
    try:
        return fit(function(accumulator, new_value))
    except Exception as error:  # a user's function may raise anything
        on_failure(error)
        return accumulator


@dataclass(frozen=True, slots=True)
class Reduce(VisibleAccumulator):
    """REDUCE(column): function(so far, value), beginning with the first value. Nulls are skipped (rule 2)."""

    function: Callable[[Any, Any], Any]
    fit: Callable[[Any], Any] = keep_value
    on_failure: OnFailure = ignore_error

    def with_listener(self, on_failure: OnFailure) -> Reduce:
        """Return the same rule, which calls `on_failure` with each error."""
        return replace(self, on_failure=on_failure)

    def empty_accumulator(self) -> None:
        return None

    def add(self, accumulator: Any, value: Any, record_position: object) -> Any:
        return accumulator if value is None else self.merge(accumulator, value)

    def merge(self, earlier: Any, later: Any) -> Any:
        if earlier is None or later is None:
            return later if earlier is None else earlier
        return attempt(self.fit, self.function, earlier, later, self.on_failure)


@dataclass(frozen=True, slots=True)
class Custom:
    """A user-defined aggregate. `undo` takes a value out again, for aggregates over tables."""

    initial: Any
    function: Callable[[Any, Any], Any]
    show_result: Callable[[Any], Any] | None = None
    merge_accumulators: Callable[[Any, Any], Any] | None = None
    undo: Callable[[Any, Any], Any] | None = None
    fit: Callable[[Any], Any] = keep_value
    fit_result: Callable[[Any], Any] = keep_value
    on_failure: OnFailure = ignore_error

    def with_listener(self, on_failure: OnFailure) -> Custom:
        """Return the same rule, which calls `on_failure` with each error."""
        return replace(self, on_failure=on_failure)

    def empty_accumulator(self) -> Any:
        return self.fit(self.initial)

    def add(self, accumulator: Any, value: Any, record_position: object) -> Any:
        return attempt(self.fit, self.function, accumulator, value, self.on_failure)

    def merge(self, earlier: Any, later: Any) -> Any:
        assert self.merge_accumulators is not None, "a session window is refused when it is declared without a merge"
        return attempt(self.fit, self.merge_accumulators, earlier, later, self.on_failure)

    def result(self, accumulator: Any) -> Any:
        if self.show_result is None:
            return accumulator
        try:
            return self.fit_result(self.show_result(accumulator))
        except Exception as error:  # a user's function may raise anything: nothing can be shown
            self.on_failure(error)
            return None
