"""A decorator that functions of other files use: tests/plan/test_function.py."""

from __future__ import annotations

from collections.abc import Callable


def repeat(times: int) -> Callable[[Callable[[int], int]], Callable[[int], int]]:
    def decorate(function: Callable[[int], int]) -> Callable[[int], int]:
        calls: dict[int, int] = {}  # changes from call to call, and is no part of a digest

        def repeated(value: int) -> int:
            calls[value] = calls.get(value, 0) + 1
            for _ in range(times):
                value = function(value)
            return value

        return repeated

    return decorate
