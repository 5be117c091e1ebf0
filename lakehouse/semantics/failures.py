"""Users' functions that fail on records, and expectations that only warn: the number of these records, and the first.

Such a record stops nothing: `map` gives a null, an aggregate leaves the record out, an expectation lets it pass. It is
counted, so that people notice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

ERROR_LENGTH_MAX = 200
EXPECTATION = "expectation "  # the name of an expectation begins so; other names are those of functions
OF_ROWS = " of rows"  # the name of an expectation about the rows of a table ends so
VALUES_BEGIN = ", found "  # in an expectation's reason: before it stands the condition
ERASED = "(erased)"  # in place of a row's key


def error_text(error: BaseException) -> str:
    """Return an error as one short line. It may contain parts of a record, so escape it when printing."""
    try:
        text = " ".join(f"{type(error).__name__}: {error}".split())
    except Exception:  # str(error) may be a user's code too
        text = type(error).__name__
    return text[:ERROR_LENGTH_MAX].encode(errors="backslashreplace").decode()


class Tally:
    """The number of records on which one function failed. Call it with each error, and `after` after each record."""

    def __init__(self) -> None:
        self._error: str | None = None
        self.records = 0
        self.first: tuple[Any, str] | None = None

    def __call__(self, error: Exception) -> None:
        self._error = self._error or error_text(error)

    def after(self, record_position: Any) -> None:
        """Note the end of the record at this position: it counts once, whatever number of windows it is in."""
        if self._error is not None:
            self.records += 1
            self.first = self.first or (record_position, self._error)
            self._error = None

    def take_tally(self) -> tuple[int, tuple[Any, str] | None]:
        """Return the number of records, with the position and the error of the first; then begin again from 0."""
        record_tally = self.records, self.first
        self.records, self.first = 0, None
        return record_tally


@dataclass(frozen=True, slots=True)
class FunctionFailures:
    """A function ("map price", "reduce total"): on how many records it failed, the first ("orders/0/12"), its error.

    Or an expectation ("expectation orders.positive"), which records did not meet; the error is what was expected. Or
    an expectation about rows ("expectation totals.positive of rows"): `records` counts rows, and `first` is a key.
    """

    function: str
    records: int
    first: str
    error: str

    @property
    def expectation(self) -> str:
        """The expectation's name, "orders.positive"; empty for a function."""
        return self.function.removeprefix(EXPECTATION) if self.function.startswith(EXPECTATION) else ""

    def without_values(self) -> FunctionFailures:
        """Return it without values of records and rows: what was expected stays, or the type of the error."""
        first = ERASED if self.function.endswith(OF_ROWS) else self.first
        return replace(self, first=first, error=self.error.partition(VALUES_BEGIN if self.expectation else ":")[0])


def merge_failures(
    old_failures: Iterable[FunctionFailures], new_failures: Iterable[FunctionFailures]
) -> tuple[FunctionFailures, ...]:
    """Return the sums by function, sorted by name; each keeps the first record of the earlier entry."""
    failures_by_function: dict[str, FunctionFailures] = {}
    for failure in (*old_failures, *new_failures):
        earlier_failure = failures_by_function.get(failure.function)
        record_count = failure.records + (earlier_failure.records if earlier_failure else 0)
        shown_failure = failure if earlier_failure is None or earlier_failure.first == ERASED else earlier_failure
        failures_by_function[failure.function] = replace(shown_failure, records=record_count)
    return tuple(failures_by_function[name] for name in sorted(failures_by_function))
