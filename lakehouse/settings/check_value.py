"""The type of a setting's check: a function from the given value to the used one; it refuses with WrongValue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[[Any], Any]


class WrongValue(Exception):
    """An unusable value: found, expected, advice. ``key``: the option that it belongs to."""

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def check_text(value: object) -> str:
    """Accept any text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise WrongValue(f'found {value!r}; expected text in "quotes" that is not empty')
    return value.strip()
