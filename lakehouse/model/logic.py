"""How values are put together where some are null: three-valued logic, for the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakehouse.model.scalar import equal

ColumnValues = Mapping[str, Any]
Evaluator = Callable[[ColumnValues], Any]


def strict(function: Callable[..., Any], *parts: Evaluator) -> Evaluator:
    """Return null in, null out: the rule of nearly every SQL function."""

    def run(values: ColumnValues) -> Any:
        arguments = [part(values) for part in parts]
        return None if any(argument is None for argument in arguments) else function(*arguments)

    return run


def both(left: Evaluator, right: Evaluator) -> Evaluator:
    """Return left AND right: false if one is, whatever the other is."""

    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return False if a is False or b is False else None if a is None or b is None else True

    return run


def either(left: Evaluator, right: Evaluator) -> Evaluator:
    """Return left OR right: true if one is, whatever the other is."""

    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return True if a is True or b is True else None if a is None or b is None else False

    return run


def null_safe(left: Evaluator, right: Evaluator) -> Evaluator:
    """Return left <=> right: true for two nulls."""

    def run(values: ColumnValues) -> bool | None:
        a, b = left(values), right(values)
        return a is b if a is None or b is None else equal(a, b)

    return run
